"""The protocol of decoders that decode images on a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from bushel._runtime.arrays import I32, I64, U8, Bools
from bushel._runtime.public import public
from bushel.loader.values.outputs import AnyDevice


@public("bushel.loader")
@dataclass(frozen=True, slots=True, eq=False)
class EncodedImages:
    """JPEGs of a batch in one buffer, and the crop of each, as the Loader would make it on the CPU.

    Each result is the region `box` of the upright image, resized to `scaled`, cut to the region
    `window`, and then mirrored. Resizing is antialiased and bilinear, as in Pillow.

    Attributes:
        buffer: uint8[bytes], the stored bytes one after another; page-locked if the device is a
            GPU. It is used again after `decode` has returned.
        offsets: int64[images + 1], where each image begins in the buffer, and the end of the last
            one.
        boxes: int32[images, 4], left, top, right and bottom in pixels of the stored image.
        scaled: int32[images, 2], width and height to which the box is resized.
        windows: int32[images, 4], left, top, right and bottom in the resized box; all have the size
            `size`.
        flips: bool[images, 2], whether the result is mirrored left to right, and top to bottom.
        size: Height and width of every result.
        device: The `device=` of the Loader; None for the CPU.

    Examples:
        >>> def sizes(images):  # the first part of a decoder
        ...     return [len(images.data(number)) for number in range(len(images))]
    """

    buffer: U8
    offsets: I64
    boxes: I32
    scaled: I32
    windows: I32
    flips: Bools
    size: tuple[int, int]
    device: AnyDevice | None = None

    def __len__(self) -> int:
        """Number of images."""
        return len(self.offsets) - 1

    def data(self, number: int) -> memoryview:
        """Return the stored bytes of an image, without a copy."""
        return self.buffer[self.offsets[number] : self.offsets[number + 1]].data


@public("bushel.loader")
@runtime_checkable
class DeviceDecoder(Protocol):
    """Decodes JPEGs on a device, for `Loader(decode="device", decoder=...)`.

    Several threads call it, each with images of another batch. `bushel.testing.CpuDeviceDecoder` is
    one for tests.

    Examples:
        >>> from bushel.testing import CpuDeviceDecoder
        >>> isinstance(CpuDeviceDecoder(), bushel.loader.DeviceDecoder)
        True
    """

    def decode(self, images: EncodedImages) -> tuple[Any, Mapping[int, str]]:
        """Decode, crop, resize and mirror images.

        Args:
            images: The images: baseline JPEGs, grey or in colour, whose header is intact.

        Returns:
            The pixels as an object with `__dlpack__`: uint8[images, height, width, 3] on the
            device, grey images in three equal channels. They must be complete: a decoder that uses
            a CUDA stream waits for it. And the errors, by number of the image: the Loader decodes
            these on the CPU, and reports those that fail there, too.

        Raises:
            MemoryError: The device has no memory for these images. The Loader decodes them on the
                CPU.
        """
        ...

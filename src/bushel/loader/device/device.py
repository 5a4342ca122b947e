"""The protocol of decoders that decode images on a device, which images go there, and the options for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from bushel._kinds import JPEG_END, JPEG_START
from bushel._runtime.arrays import I32, I64, U8, Bools
from bushel._runtime.public import public
from bushel.loader.values.outputs import AnyDevice
from bushel.transforms.geometry import Geometry

_SMALL = 128 * 128
"""Number of pixels up to which an image stays on the CPU: handing it over costs as much as decoding it."""


@public("bushel.loader")
class EncodedImages(Struct, frozen=True, eq=False):
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

    Several threads call it, each with images of another batch.

    Examples:
        >>> class Grey:  # every photo is grey
        ...     def decode(self, images):
        ...         return np.full((len(images), *images.size, 3), 128, np.uint8), {}
        >>> isinstance(Grey(), bushel.loader.DeviceDecoder)
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


def goes_to_device(data: Any, geometry: Geometry) -> bool:
    """Return whether a device may decode an image: an upright baseline JPEG that is complete and not small."""
    view = memoryview(data)
    if bytes(view[:2]) != JPEG_START or JPEG_END not in bytes(view[-64:]):
        return False
    left, top, right, bottom = geometry.box
    if (right - left) * (bottom - top) <= _SMALL:
        return False
    at = 2
    while at + 9 < len(view):  # over the segments up to the frame header: ITU T.81, B.1.1.2
        marker, length = view[at + 1], (view[at + 2] << 8) + view[at + 3]
        if view[at] != 0xFF or length < 2:
            return False
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            precision, components = view[at + 4], view[at + 9]
            return marker in (0xC0, 0xC1) and precision == 8 and components in (1, 3)
        at += 2 + length
    return False


def check_decode(options: Any) -> None:
    """Check `decode=`, and the options that go with `decode="device"`.

    Raises:
        TypeError: `decode` is not True, False or `"device"`, or the decoder has no method `decode`.
        ValueError: Options contradict each other.
    """
    if options.decode not in (True, False, "device"):
        raise TypeError(f"decode={options.decode!r}: expected True, False or 'device'")
    if options.decode != "device":
        if options.decoder is not None or options.share != 1:
            raise ValueError('decoder= and share= need decode="device"')
        return
    # torch names GPUs "cuda" or "cuda:1"
    is_cuda = str(options.device).partition(":")[0] == "cuda"
    if options.decoder is None and not is_cuda:
        raise ValueError(
            'decode="device" needs device="cuda", or decoder=, an object '
            "that decodes on the device: see bushel.loader.DeviceDecoder"
        )
    if options.decoder is not None and not isinstance(options.decoder, DeviceDecoder):
        raise TypeError(
            f"decoder={options.decoder!r} has no method decode: see bushel.loader.DeviceDecoder"
        )
    if options.share != "tuned" and not (
        isinstance(options.share, int | float) and 0 <= options.share <= 1
    ):
        raise ValueError(
            f"share={options.share!r}: expected a share of the images from 0 to 1, or 'tuned'"
        )
    if options.to != "torch":
        raise ValueError('decode="device" gives tensors: add to="torch"')
    refused = {
        "processes=": options.processes > 0,
        "sample_transform=": options.sample_transform is not None,
        "a function as collate=": callable(options.collate),
        "pack_by= and chunk_by=": options.pack_by is not None or options.chunk_by is not None,
        "batch_size=None": options.batch_size is None and options.bucket_by is None,
    }
    if wrong := [name for name, is_given in refused.items() if is_given]:
        raise ValueError(
            f'decode="device" makes whole batches of images in this process: leave out {wrong[0]}'
        )

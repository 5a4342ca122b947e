"""A device decoder that works on the CPU, and what every device decoder must do."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bushel._runtime.arrays import U8
from bushel.loader.device.device import DeviceDecoder, EncodedImages
from bushel.loader.values.outputs import AnyDevice
from bushel.testing.expect import expect
from bushel.transforms.fused import DecodePlan, decode_into
from bushel.transforms.geometry import Geometry

_PLAN = DecodePlan((), None, "HWC", ())
_LEVELS = 1.0  # mean difference of pixels from the CPU's, in levels of 255, that a decoder may have


def geometry_of(images: EncodedImages, number: int) -> Geometry:
    """Return the crop, size and flips of an image as one value."""
    box, scaled, window = (tuple(array[number].tolist()) for array in (images.boxes, images.scaled, images.windows))
    horizontal, vertical = images.flips[number].tolist()
    return Geometry(box, scaled, window, horizontal, vertical)


class CpuDeviceDecoder:
    """A device decoder that works on the CPU, with the same pixels as a Loader without a device.

    Args:
        refuses: Called with the stored bytes of each image; an image for which it returns a text
            has that error.
        reducing_gap: As for `Loader`.

    Attributes:
        batches: Number of images of each call.
    """

    def __init__(
        self,
        refuses: Callable[[memoryview], str | None] | None = None,
        reducing_gap: float | None = 2.0,
    ) -> None:
        self._refuses, self._gap = refuses, reducing_gap
        self.batches: list[int] = []

    def decode(self, images: EncodedImages) -> tuple[U8, Mapping[int, str]]:
        """Decode images: see `DeviceDecoder`."""
        self.batches.append(len(images))
        out = np.zeros((len(images), *images.size, 3), np.uint8)
        errors = {}
        for number in range(len(images)):
            data = images.data(number)
            if self._refuses is not None and (text := self._refuses(data)) is not None:
                errors[number] = text
                continue
            image, place = out[number : number + 1], geometry_of(images, number)
            for error in decode_into(_PLAN, [bytes(data)], [place], image, reducing_gap=self._gap).values():
                errors[number] = str(error)
        return out, errors


def check_device_decoder(decoder: DeviceDecoder, device: AnyDevice | None = None) -> None:
    """Check that a decoder gives the pixels of the CPU, within 1 level of 255 on average, and reports damaged images.

    Args:
        decoder: The decoder.
        device: The device, as for `Loader`.

    Raises:
        ConformanceError: It does not.
    """
    import torch

    datas = [_jpeg(number, 160 + 16 * number, 120, grey=number == 2) for number in range(4)]
    places = [
        Geometry((0, 0, 160, 120), (64, 48), (0, 0, 64, 48)),
        Geometry((20, 10, 140, 100), (64, 48), (0, 0, 64, 48), flip_horizontal=True),
        Geometry((0, 0, 192, 120), (96, 60), (10, 5, 74, 53)),
        Geometry((30, 20, 94, 68), (64, 48), (0, 0, 64, 48), flip_vertical=True),
    ]
    expected, _ = CpuDeviceDecoder(reducing_gap=None).decode(_images(datas, places, device))
    pixels, errors = decoder.decode(_images(datas, places, device))
    decoded = torch.from_dlpack(pixels).cpu().numpy()
    expect(not errors, f"intact images: expected no errors, found {dict(errors)}")
    expect(
        decoded.shape == expected.shape and decoded.dtype == np.uint8,
        f"expected uint8{list(expected.shape)}, found {decoded.dtype}{list(decoded.shape)}",
    )
    for number in range(len(datas)):
        _expect_near(decoded[number], expected[number], f"image {number}")
    damaged = datas[0][: len(datas[0]) // 2] + b"\xff\xd9"
    pixels, errors = decoder.decode(_images([datas[1], damaged, datas[3]], [places[1], places[0], places[3]], device))
    expect(
        set(errors) <= {1},
        f"expected at most an error of the damaged image 1, found {dict(errors)}",
    )
    decoded = torch.from_dlpack(pixels).cpu().numpy()
    for number, whole in ((0, 1), (2, 3)):
        _expect_near(decoded[number], expected[whole], f"image {number} beside a damaged one")


def _expect_near(actual: U8, expected: U8, what: str) -> None:
    levels = float(np.abs(actual.astype(np.int64) - expected).mean())
    expect(
        levels <= _LEVELS,
        f"{what}: expected the CPU's pixels within {_LEVELS:g} level, found {levels:.2f}",
    )


def _jpeg(seed: int, width: int, height: int, *, grey: bool) -> bytes:
    """Return a JPEG of smooth colours."""
    from PIL import Image

    small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8))
    image = small.resize((width, height), Image.Resampling.BICUBIC)
    stream = io.BytesIO()
    (image.convert("L") if grey else image).save(stream, "JPEG", quality=92)
    return stream.getvalue()


def _images(datas: list[bytes], places: list[Geometry], device: Any) -> EncodedImages:
    return EncodedImages(
        np.frombuffer(b"".join(datas), np.uint8),
        np.cumsum([0, *map(len, datas)]).astype(np.int64),
        np.array([place.box for place in places], np.int32),
        np.array([place.scaled for place in places], np.int32),
        np.array([place.window for place in places], np.int32),
        np.array([(place.flip_horizontal, place.flip_vertical) for place in places], np.bool_),
        (48, 64),
        device,
    )

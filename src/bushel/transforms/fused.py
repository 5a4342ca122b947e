"""Transforms that are fused into decoding.

Crops, flips and at most one resizing at the start of a list of transforms become one `Geometry` per
image. A `Normalize` and a `ToCHW` that follow set how pixels are written. The remaining transforms
are applied afterwards. `plan_decode` plans this without pixels, and `decode_into` carries it out,
from encoded images into a batch array.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, TypeAlias, cast

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._kinds import JPEG_START, PNG
from bushel._runtime.arrays import I32, Array
from bushel.codecs.base import Buffer, bad_jpeg, codec_error, found_bytes
from bushel.codecs.image import ImageReading, Seekable, decode_image, header_size, open_image
from bushel.errors import CodecError, MissingPackageError

from .geometry import Flip, Geometry, Image, Steps
from .spatial import CenterCrop, Drawn, RandomCrop, RandomResizedCrop, Resize, Spatial, size_pair
from .values import Compose, EachFrame, Normalize, ToCHW, Transform, frozen_transform, takes_rng

Program: TypeAlias = tuple[tuple[str | float, ...], ...]
"""The kind and the numbers of each transform."""
_MOST_PIXELS = 1 << 24
_MOST_EXACT = 1 << 53
_EXIF_ORIENTATION = 0x0112
_AS_STORED = ImageReading()
ENCODED = (bytes, memoryview, Seekable)
"""The types of images that are still encoded."""


@frozen_transform
class _RandomFlip(Drawn):
    """Mirror in one direction with probability `p`."""

    p: float = 0.5
    horizontal: ClassVar[bool]
    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: np.random.Generator) -> Steps:
        """Return the steps for an image of this size."""
        if rng.random() < self.p:
            return (Flip(horizontal=self.horizontal),)
        return ()


@frozen_transform
class RandomHorizontalFlip(_RandomFlip):
    """Mirror left to right with probability `p`.

    Examples:
        >>> from bushel.transforms import RandomHorizontalFlip
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomHorizontalFlip(p=0.5)])
    """

    horizontal: ClassVar[bool] = True


@frozen_transform
class RandomVerticalFlip(_RandomFlip):
    """Mirror top to bottom with probability `p`.

    Examples:
        >>> from bushel.transforms import RandomVerticalFlip
        >>> loader = bushel.Loader(ds, batch_size=4, transforms=[RandomVerticalFlip()])
    """

    horizontal: ClassVar[bool] = False


def program_of(transforms: Iterable[Spatial]) -> Program | None:
    """Return the steps of transforms for the kernel, or None if one of them has to be asked for each image."""
    steps = tuple(map(_step, transforms))
    if None in steps or not steps:
        return None
    return tuple(step for step in steps if step is not None)


def _step(transform: Spatial) -> tuple[str | float, ...] | None:
    kind, plain = type(transform), cast("Any", transform)  # a subclass may do anything
    if kind in _FLIPS:
        return (_FLIPS[kind], float(plain.p)) if _are_plain(plain.p) else None
    if kind not in _SIZES:
        return None
    sides = size_pair(plain.size)
    if max(sides) > _MOST_PIXELS:
        return None
    if kind is Resize and type(plain.size) is int:
        return ("resize_shorter", plain.size)
    if kind is not RandomResizedCrop:
        return (_SIZES[kind], *sides)
    bounds = *plain.scale, *plain.ratio
    if not _are_plain(*bounds):
        return None
    return (_SIZES[kind], *sides, *map(float, bounds), *map(math.log, plain.ratio))


_FLIPS: dict[type, str] = {RandomHorizontalFlip: "flip_x", RandomVerticalFlip: "flip_y"}


_SIZES: dict[type, str] = {
    Resize: "resize",
    CenterCrop: "center_crop",
    RandomCrop: "random_crop",
    RandomResizedCrop: "random_resized_crop",
}


def _are_plain(*numbers: object) -> bool:
    """Return whether numbers are floats, or ints that a float holds. Other types have arithmetic of their own."""
    return all(
        type(number) is float or (type(number) is int and abs(number) < _MOST_EXACT)
        for number in numbers
    )


class DecodePlan(Struct, frozen=True, dict=True):
    """A plan to decode and transform images in one step, and the transforms that remain.

    Attributes:
        spatial: The transforms that become the geometry, in order; may be empty.
        normalise: Normalisation of the pixels; None to write them as uint8.
        layout: Layout of the pixels.
        rest: The transforms to apply to the result.
        size: Height and width of every result; None if they depend on the image.
        program: The steps with which a kernel draws the geometries, as `geometry` does; None if it
            cannot.
    """

    spatial: tuple[Spatial, ...]
    normalise: Normalize | None
    layout: Literal["HWC", "CHW"]
    rest: tuple[Transform, ...]
    size: tuple[int, int] | None = None
    program: Program | None = None

    @property
    def random(self) -> bool:
        """Whether the geometry is random."""
        return any(takes_rng(cast("Transform", transform)) for transform in self.spatial)

    def geometry(self, width: int, height: int, rng: np.random.Generator | None = None) -> Geometry:
        """Return the geometry for an image of a given size.

        It draws the same random numbers, in the same order, as the transforms do when they are
        called.

        Args:
            width: Width of the image in pixels.
            height: Height of the image in pixels.
            rng: Source of random numbers; needed if `random`.

        Raises:
            ValueError: The image is too small for a crop.
        """
        geometry = Geometry.whole(width, height)
        for transform in self.spatial:
            for step in transform.steps(*geometry.size, rng):
                geometry = geometry.then(step)
        return geometry

    @cached_property
    def shape(self) -> tuple[int, int, int]:
        """The shape of a result. Grey images fill three channels, so that they fit into a batch of RGB images.

        Raises:
            ValueError: Results differ in size.
        """
        if self.size is None:
            raise ValueError(
                "the transforms give images of different sizes, which do not fit into one array"
            )
        channels = 3 if self.normalise is None else len(self.normalise.mean)
        return (channels, *self.size) if self.layout == "CHW" else (*self.size, channels)

    @cached_property
    def dtype(self) -> np.dtype[np.generic]:
        """Data type of the batch array."""
        return np.dtype(self.normalise.dtype if self.normalise else np.uint8)


def _flat(transforms: Sequence[Transform]) -> list[Transform]:
    flat: list[Transform] = []
    for transform in transforms:
        flat.extend(_flat(transform.transforms) if isinstance(transform, Compose) else [transform])
    return flat


def plan_decode(transforms: Sequence[Transform]) -> DecodePlan:
    """Split a list of transforms into those that are fused into decoding and the rest."""
    flat = _flat(transforms)
    spatial: list[Spatial] = []
    resized = False
    while flat and isinstance(flat[0], Spatial) and not (resized and flat[0].resizes):
        resized = resized or flat[0].resizes
        spatial.append(flat.pop(0))
    normalise: Normalize | None = None
    layout: Literal["HWC", "CHW"] = "HWC"
    if flat and isinstance(flat[0], Normalize):
        normalise = flat[0]
        flat.pop(0)
    if flat and isinstance(flat[0], ToCHW):
        layout = "CHW"
        flat.pop(0)
    sizes = [
        transform.output
        for transform in spatial
        if transform.resizes or transform.output is not None
    ]
    size = sizes[-1] if sizes else None
    return DecodePlan(tuple(spatial), normalise, layout, tuple(flat), size, program_of(spatial))


def plan_frames(frames: EachFrame) -> DecodePlan | None:
    """Return the plan for the frames of a sequence field.

    None if one of the remaining transforms is random: it would draw between the geometries of two
    frames.
    """
    plan = plan_decode(frames.transforms)
    return None if any(map(takes_rng, plan.rest)) else plan


def frame_geometries(
    frames: EachFrame,
    plan: DecodePlan,
    sizes: Iterable[tuple[int, int]],
    rng: np.random.Generator | None = None,
) -> list[Geometry]:
    """Return the geometry of each frame of a sample, given the widths and heights of the frames."""
    if not frames.same:
        return [plan.geometry(*size, rng) for size in sizes]
    # Frames of one size share a geometry. The geometry for the size of the last frame is drawn
    # last, so that the generator ends in the same state as after a draw for every frame.
    every = list(sizes)
    order = reversed(dict.fromkeys(reversed(every)))
    geometries = {
        size: plan.geometry(*size, rng)
        for size, rng in zip(order, frames.generators(rng), strict=False)
    }
    return [geometries[size] for size in every]


def geometry_rows(geometries: Iterable[Geometry]) -> I32:
    """Return int32[n, 10], the geometries as the kernels take them."""
    return np.array([geometry.row for geometry in geometries], np.int32).reshape(-1, 10)


def _is_jpeg(data: Buffer) -> bool:
    return bytes(data[:2]) == JPEG_START


def bytes_of(stored: Any) -> Any:
    """Return the bytes of an encoded image."""
    return stored.data if isinstance(stored, Seekable) else stored


def image_size(data: Buffer, *, exif_rotate: bool = False) -> tuple[int, int]:
    """Return width and height of an encoded image, from its header.

    Args:
        data: The encoded image, in any format that Bushel reads.
        exif_rotate: Whether to return the size after the rotation by its Exif orientation.

    Raises:
        CodecError: The data are not an image.
    """
    if not exif_rotate and not _is_jpeg(data):
        from bushel.codecs.newer_images import jxl_size

        if (size := header_size(data) or jxl_size(data)) is not None:
            return size
    width, height, orientation = _header(data)
    if exif_rotate and orientation >= 5:
        return height, width
    return width, height


def is_upright(data: Buffer) -> bool:
    """Return whether the Exif orientation of an encoded image is missing or normal.

    Raises:
        CodecError: The data are not an image.
    """
    return _header(data)[2] == 1


def _header(data: Buffer) -> tuple[int, int, int]:
    """Return width, height and Exif orientation, which is 1 for an upright image."""
    if _is_jpeg(data):
        try:
            header = kernels.jpeg_header(data)
        except kernels.JpegError as error:
            raise bad_jpeg(data, error) from error
        return header.width, header.height, header.orientation
    from bushel.codecs.png import may_be_turned

    size = header_size(data)
    if size is not None and data[:8] == PNG and not may_be_turned(data):
        return (*size, 1)
    try:
        with open_image(data) as image:
            # Pillow rotates TIFFs itself
            if image.format == "TIFF":
                orientation = 1
            else:
                orientation = image.getexif().get(_EXIF_ORIENTATION, 1)
            return image.width, image.height, orientation if orientation in range(1, 9) else 1
    except MissingPackageError:
        raise
    except Exception as error:  # Pillow does not document its errors for damaged files
        raise codec_error(
            "image", "an image", f"{found_bytes(data)} ({error})".removesuffix(" ()")
        ) from error


def _with_channels(image: Array, channels: int) -> Image:
    if image.dtype != np.uint8:
        raise codec_error("image", "8 bits per channel", f"an image of dtype {image.dtype}")
    pixels: Image = image[:, :, None] if image.ndim == 2 else image
    if pixels.shape[2] in (2, 4) and pixels.shape[2] != channels:
        pixels = pixels[:, :, :-1]  # drop alpha
    if pixels.shape[2] != channels and (pixels.shape[2], channels) != (1, 3):
        raise codec_error("image", f"{channels} channels", f"an image of shape {image.shape}")
    return np.ascontiguousarray(pixels)


def decode_into(
    plan: DecodePlan,
    datas: Sequence[Buffer],
    geometries: Sequence[Geometry] | I32,
    out: Array,
    *,
    reducing_gap: float | None = 2.0,
    reading: ImageReading = _AS_STORED,
    seek_tables: Sequence[Buffer | None] | None = None,
    refused: list[int] | None = None,
) -> dict[int, CodecError]:
    """Decode, crop and resize encoded images into a batch array. The GIL is released.

    Only the needed region of a JPEG is decoded, and of a PNG or WebP only the rows down to its end.
    Images of other formats are decoded whole first.

    Args:
        plan: Plan with the layout and normalisation of the result.
        datas: The encoded images.
        geometries: The geometry of each image: `plan.geometry` of its `image_size`; or their
            `geometry_rows`.
        out: C-contiguous output with a row for each image, of shape `plan.shape` and dtype
            `plan.dtype`. Grey images fill three channels; alpha is dropped if the output has no
            channel for it.
        reducing_gap: Let a JPEG's inverse DCT shrink the image while it stays this many times
            larger than the result, as Pillow does. None turns this off; the result is then within
            one level of the single transforms'.
        reading: Options for decoding. A damaged JPEG is an error unless `allow_truncated` is set.
        seek_tables: The seek table of each image, empty or None for an image without one.
        refused: A list that grows by an element for each image whose seek table is not its own.

    Returns:
        Errors by number of the image. The output rows of these images are unchanged.
    """
    table = plan.normalise.table if plan.normalise else None
    channels = out.shape[1 if plan.layout == "CHW" else 3]
    rows = geometries if isinstance(geometries, np.ndarray) else geometry_rows(geometries)
    decode_jpegs = partial(
        kernels.decode_jpegs,
        layout=plan.layout,
        table=table,
        reducing_gap=reducing_gap,
        orient=reading.exif_rotate,
        tolerant=reading.allow_truncated,
        refused=refused,
    )
    if channels in (1, 3) and all(map(_is_jpeg, datas)):
        problems = decode_jpegs(datas, rows, out, seek_tables=seek_tables)
        return {number: bad_jpeg(datas[number], problem) for number, problem in problems}
    errors: dict[int, CodecError] = {}
    for number, data in enumerate(datas):
        row = slice(number, number + 1)
        try:
            if _is_jpeg(data) and channels not in (1, 3):
                expected = f"{channels} channels, one for each mean of Normalize"
                errors[number] = codec_error("jpg", expected, "a JPEG, which has 1 or 3 here")
            elif _is_jpeg(data):
                tables = None if seek_tables is None else seek_tables[row]
                for _, problem in decode_jpegs([data], rows[row], out[row], seek_tables=tables):
                    errors[number] = bad_jpeg(data, problem)
            else:
                way = ImageReading(reading.exif_rotate)
                top = decode_image(data, way, rows=int(rows[number, 3]))
                image = _with_channels(top, channels)
                kernels.resize(image, rows[row], out[row], plan.layout, table)
        except CodecError as error:
            errors[number] = error
    return errors

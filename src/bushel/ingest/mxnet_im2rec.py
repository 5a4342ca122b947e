"""MXNet's im2rec: lists of images, and what it does to each image as transforms."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec
from bushel.core.order import make_order
from bushel.sources.base import extend_labels
from bushel.sources.lists import ListLine, format_line
from bushel.storage import AnyPath, as_path, walk_names, write_whole
from bushel.transforms.spatial import Crop, ScaleTo, apply_steps
from bushel.transforms.values import Transform

__all__ = [
    "IM2REC_SUFFIXES",
    "ListPlan",
    "find_images",
    "im2rec",
    "list_parts",
    "number_as_im2rec",
    "number_as_pack",
    "write_lists",
]

IM2REC_SUFFIXES = (".jpeg", ".jpg", ".png")
"""The suffixes of images that im2rec takes."""

_IM2REC_SEED = 100

Pixels = npt.NDArray[Any]
"""uint8[height, width] or [height, width, 2, 3 or 4], or uint16[height, width]."""
Resample = Callable[[Pixels, tuple[int, int], int], Pixels]
"""Resizes an image to (width, height), with an interpolation of 0 to 4."""

_NEAREST, _BILINEAR, _CUBIC, _AREA, _AUTO, _RANDOM = 0, 1, 2, 3, 9, 10
_FILTERS = (0, 2, 3, 4, 1)
"""Pillow's filters by OpenCV's numbers: nearest, bilinear, cubic, box, Lanczos."""


def im2rec(
    resize: int | tuple[int, int] | None = None,
    *,
    center_crop: bool = False,
    quality: int | None = None,
    color: int = 1,
    encoding: str = ".jpg",
    inter_method: int = _BILINEAR,
    resample: Resample | None = None,
) -> list[Transform]:
    """Return transforms that do what im2rec does to every image: center crop, resize, convert colours, encode.

    Sizes are exactly im2rec's. Pixels are Pillow's, which averages pixels when it shrinks an image; OpenCV, in im2rec,
    only samples them.

    Args:
        resize: Pixels of the shorter edge, or (width, height); None to keep the size.
        center_crop: Whether to crop to the middle square first.
        quality: For `.jpg` the quality, 1 to 100, by default 95; for `.png` the compression level, 0 to 9, by default
            3.
        color: 1 for RGB, 0 for grey, -1 for the channels of the file.
        encoding: `.jpg` or `.png`. The field must have the type `jpg` or `png`.
        inter_method: Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 cubic to enlarge and area to
            shrink, 10 a random one of the first five. Bilinear is fused into decoding, and is the fastest.
        resample: Function that resizes images, such as with OpenCV's pixels; by default Pillow's filters.

    Returns:
        Transforms for `bushel.pack`. The last one returns encoded bytes.

    Raises:
        ValueError: A parameter is out of range.
    """
    sizes = resize if isinstance(resize, tuple) else (resize,)
    if any(size is not None and size < 1 for size in sizes) or len(sizes) > 2:
        raise ValueError(f"invalid resize={resize}: expected a number of pixels, or (width, height)")
    if encoding not in (".jpg", ".png"):
        raise ValueError(f"invalid encoding={encoding!r}: expected '.jpg' or '.png'")
    low, high = (1, 100) if encoding == ".jpg" else (0, 9)
    if quality is not None and not low <= quality <= high:
        raise ValueError(f"invalid quality={quality}: expected {low} to {high} for {encoding}")
    if color not in (-1, 0, 1):
        raise ValueError(f"invalid color={color}: expected -1, 0 or 1")
    if inter_method not in (*range(len(_FILTERS)), _AUTO, _RANDOM):
        raise ValueError(f"invalid inter_method={inter_method}: expected 0 to 4, 9 or 10")
    steps: list[Transform] = [_CenterSquare()] if center_crop else []
    if resize is not None:
        fused = inter_method == _BILINEAR and resample is None
        steps.append(_Scale(resize) if fused else _Interpolate(resize, inter_method, resample or _resized))
    steps.append(_ConvertColor(color, encoding))
    steps.append(_EncodeJpeg(quality or 95) if encoding == ".jpg" else _EncodePng(3 if quality is None else quality))
    return steps


def _scaled(resize: int | tuple[int, int], width: int, height: int) -> tuple[int, int]:
    """Return width and height of an image after resizing."""
    if isinstance(resize, tuple):
        return resize
    if height > width:
        return resize, max(height * resize // width, 1)
    return max(width * resize // height, 1), resize


def _resized(image: Pixels, size: tuple[int, int], method: int) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).resize(size, _FILTERS[method]))


@dataclass(frozen=True, slots=True)
class _CenterSquare:
    resizes: ClassVar[bool] = False
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[Crop]:
        side = min(width, height)
        return (Crop((width - side) // 2, (height - side) // 2, side, side),)

    def __call__(self, image: Pixels) -> Pixels:
        return apply_steps(self.steps(image.shape[1], image.shape[0]), image)


@dataclass(frozen=True, slots=True)
class _Scale:
    """Resize with the filter of the decoding kernel: bilinear, equal to Pillow's to within one level."""

    resize: int | tuple[int, int]
    resizes: ClassVar[bool] = True
    output: ClassVar[tuple[int, int] | None] = None

    def steps(self, width: int, height: int, rng: Any = None) -> tuple[ScaleTo]:
        return (ScaleTo(*_scaled(self.resize, width, height)),)

    def __call__(self, image: Pixels) -> Pixels:
        if image.dtype == np.uint8:
            return apply_steps(self.steps(image.shape[1], image.shape[0]), image)
        return _resized(image, _scaled(self.resize, image.shape[1], image.shape[0]), _BILINEAR)


@dataclass(frozen=True, slots=True)
class _Interpolate:
    """Resize with an interpolation by its number."""

    resize: int | tuple[int, int]
    method: int
    resample: Resample

    def __call__(self, image: Pixels, rng: np.random.Generator) -> Pixels:
        before = image.shape[1], image.shape[0]
        after = _scaled(self.resize, *before)
        return image if after == before else self.resample(image, after, self._chosen(before, after, rng))

    def _chosen(self, before: tuple[int, int], after: tuple[int, int], rng: np.random.Generator) -> int:
        if self.method == _RANDOM:
            return int(rng.integers(len(_FILTERS)))
        if self.method != _AUTO:
            return self.method
        if after[0] > before[0] and after[1] > before[1]:
            return _CUBIC
        return _AREA if after[0] < before[0] and after[1] < before[1] else _BILINEAR


@dataclass(frozen=True, slots=True)
class _ConvertColor:
    """Convert to RGB or grey, or keep the channels if the encoding can hold them."""

    color: int
    encoding: str

    def __call__(self, image: Pixels) -> Pixels:
        channels = 1 if image.ndim == 2 else image.shape[2]
        if self.color == 0:
            return image if channels == 1 else _converted(image, "L")
        if channels != 3 and (self.color == 1 or (self.encoding == ".jpg" and channels != 1)):
            return _converted(image, "RGB")
        return image


def _converted(image: Pixels, mode: str) -> Pixels:
    from PIL import Image

    return np.asarray(Image.fromarray(image).convert(mode))


@dataclass(frozen=True, slots=True)
class _EncodeJpeg:
    quality: int

    def __call__(self, image: Pixels) -> bytes:
        return bytes(get_codec(f"jpg({self.quality})").encode(image))


@dataclass(frozen=True, slots=True)
class _EncodePng:
    level: int

    def __call__(self, image: Pixels) -> bytes:
        from PIL import Image

        stream = io.BytesIO()
        Image.fromarray(image).save(stream, "PNG", compress_level=self.level)
        return stream.getvalue()


# Lists


@dataclass(frozen=True, slots=True)
class ListPlan:
    """The division of images into lists.

    Attributes:
        chunks: Number of chunks that the images are cut into, one after another.
        train_ratio: Share of each chunk for training.
        test_ratio: Share for testing. The rest is for validation. If the two add up to 1, the images that rounding
            leaves over are for training, so that no image is lost.
        shuffle: Whether to shuffle the images; if not, they are sorted by name.
        seed: Seed of the shuffled order.
        im2rec_order: Shuffle in the one order of im2rec, which does not depend on a seed.
    """

    chunks: int = 1
    train_ratio: float = 1.0
    test_ratio: float = 0.0
    shuffle: bool = True
    seed: int = 0
    im2rec_order: bool = False

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError(f"chunks={self.chunks} is too small: give 1 or more")
        train, test = self.train_ratio, self.test_ratio
        if not (0 <= train <= 1 and 0 <= test <= 1 and train + test <= 1 + 1e-9):
            raise ValueError(
                f"train_ratio={train} and test_ratio={test} must lie between 0 and 1, and so must their sum"
            )


def find_images(
    root: str | os.PathLike[str] | AnyPath, *, suffixes: Collection[str] = IM2REC_SUFFIXES, recursive: bool = False
) -> Iterator[ListLine]:
    """Yield the images under a folder, with a label for each folder.

    Folders are numbered in the order in which their first images are found: images of a folder come before those of its
    subfolders, both sorted by name. Without `recursive` only images of the folder itself are found, all with label 0.

    Args:
        root: The folder.
        suffixes: Suffixes of images, in upper or lower case.
        recursive: Whether to descend into subfolders. Links are followed.

    Raises:
        NotADirectoryError: `root` is not a folder.
    """
    wanted = {suffix.lower() for suffix in suffixes}
    place = as_path(root)
    if not place.is_dir():
        raise NotADirectoryError(f"{root} is not a folder")
    found = _found_in(place, recursive) if isinstance(place, Path) else _listed_in(place, recursive)
    labels: dict[str, int] = {}
    index = 0
    for folder, files in found:
        for name in files:
            if os.path.splitext(name)[1].lower() in wanted:
                label = labels.setdefault(folder, len(labels))
                yield ListLine(index, (float(label),), os.path.join(folder, name))
                index += 1


def number_as_pack(lines: Iterable[ListLine]) -> tuple[list[ListLine], tuple[str, ...], int]:
    """Number the classes as `bushel.pack` does: by the first folder of the paths, in sorted order.

    Returns:
        The images in folders; the names of the classes in order, none if all images lie in the root
        itself; and the number of images that were left out, since they lie beside the folders.
    """
    found = list(lines)
    inside = [line for line in found if os.sep in line.path]
    if not inside:
        return found, (), 0
    numbers = extend_labels(line.path.split(os.sep)[0] for line in inside)
    numbered = [
        ListLine(index, (float(numbers[line.path.split(os.sep)[0]]),), line.path) for index, line in enumerate(inside)
    ]
    return numbered, tuple(numbers), len(found) - len(inside)


def number_as_im2rec(lines: Iterable[ListLine]) -> tuple[list[ListLine], tuple[str, ...], int]:
    """Keep the numbers of `find_images`, where each folder is a class, and do else what `number_as_pack` does."""
    found = list(lines)
    names = dict.fromkeys(os.path.dirname(line.path) or "." for line in found)
    return found, tuple(names) if len(names) > 1 else (), 0


def _found_in(root: Path, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield folders, relative to the root, and the file names in each."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(folders) if recursive else []
        relative = os.path.relpath(folder, root)
        above = (os.path.join(root, parent) for parent in Path(relative).parents)
        if folder != os.fspath(root) and any(os.path.samefile(folder, parent) for parent in above):
            folders[:] = []  # a link to a folder that contains it
            continue
        images = [name for name in sorted(files) if os.path.isfile(os.path.join(folder, name))]  # no broken links
        yield "" if relative == "." else relative, images


def _listed_in(root: AnyPath, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the same from one listing of a remote folder."""
    contents: dict[tuple[str, ...], list[str]] = {}
    for path in walk_names(root):
        *folders, name = path.split("/")
        contents.setdefault(tuple(folders), []).append(name)
    for folder in sorted(contents) if recursive else [()]:
        yield "/".join(folder), sorted(contents.get(folder, ()))


def list_parts(lines: Sequence[ListLine], plan: ListPlan) -> dict[str, list[ListLine]]:
    """Divide images into lists.

    Returns:
        End of the list's name (`""`, `_0`, `_train`, `_0_train` and so on) to its images.
    """
    lines = _ordered(lines, plan)
    size = -(-len(lines) // plan.chunks)
    found: dict[str, list[ListLine]] = {}
    for chunk in range(plan.chunks):
        images = lines[chunk * size : (chunk + 1) * size]
        name = f"_{chunk}" if plan.chunks > 1 else ""
        if plan.train_ratio == 1:
            found[name] = images
            continue
        base = size if plan.im2rec_order else len(images)  # im2rec cuts a shorter last chunk as it does the others
        test = int(base * plan.test_ratio)
        validates = plan.train_ratio + plan.test_ratio < 1 - 1e-9
        end = test + int(base * plan.train_ratio) if validates else len(images)
        if plan.test_ratio:
            found[f"{name}_test"] = images[:test]
        if validates:
            found[f"{name}_val"] = images[end:]
        found[f"{name}_train"] = images[test:end]
    return found


def write_lists(prefix: str | os.PathLike[str] | AnyPath, lists: dict[str, list[ListLine]]) -> list[AnyPath]:
    """Write each list to `PREFIX<name>.lst`.

    Returns:
        Paths of the files, in the order of `lists`.
    """
    written = []
    base = as_path(prefix)
    for name, lines in lists.items():
        path = base.parent / f"{base.name}{name}.lst"
        write_whole(path, "".join(map(format_line, lines)).encode("utf-8", "surrogateescape"))
        written.append(path)
    return written


def _ordered(lines: Sequence[ListLine], plan: ListPlan) -> list[ListLine]:
    ordered = list(lines)
    if plan.shuffle and plan.im2rec_order:
        random.Random(_IM2REC_SEED).shuffle(ordered)
        return ordered
    positions = make_order(plan.shuffle, len(ordered), plan.seed).take(0, np.arange(len(ordered), dtype=np.int64))
    return [ordered[position] for position in positions.tolist()]

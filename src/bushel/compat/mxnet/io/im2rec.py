"""`im2rec`: images of a list, or of an array, to a record file, by `bushel.pack`."""

from __future__ import annotations

import json
import logging
import random
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from bushel.compat.mxnet.gluon.data.vision.transforms import Compose, ToTensor
from bushel.compat.mxnet.io.sources import ArrayImages, ListedImages
from bushel.compat.mxnet.ndarray import Array
from bushel.compat.mxnet.pixels import encode
from bushel.compat.mxnet.resampling import BILINEAR, method_for, resize
from bushel.core.index.sidecar import FOLDER
from bushel.ingest import PackResult, error_log_path, pack, part_path
from bushel.storage import AnyPath, as_path, read_text, remove

__all__ = ["Im2recParams", "convert", "im2rec"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Im2recParams:
    """What `dataset_params` may say.

    Attributes:
        num_workers: Threads that read and encode. The order is that of the list for any number of them.
        batch_size: Taken for the original's sake; batches are cut by their bytes here.
        pass_through: Keep the bytes of the files; nothing is decoded.
        pack_label: Keep all labels of a line; otherwise the first.
        parts: Cut the list, by position, into so many files.
        part: Make only this one, counted from 0.
        max_errors: Number of images that may be missing or damaged, or their share between 0 and 1; None for any
            number. Each is logged.
        shuffle: Pack in a random order.
        seed: Of that order, and of random transforms.
        root: The folder of the images; by default that of the list.
        labels: For an array: numbers, [n] or [n, labels].
        name: Of the file, without `.rec`; by default that of the list, or `images`.
        resize: Pixels of the shorter edge, or (width, height); 0 to keep the size.
        center_crop: Cut out the middle square, before resizing.
        quality: Of JPEGs, 1 to 100, by default 95; of PNGs how hard to compress, 0 to 9, by default 3.
        color: 1 for colour, 0 for grey, -1 for what the file has.
        encoding: `.jpg` or `.png`.
        inter_method: Interpolation: 0 nearest, 1 bilinear, 2 cubic, 3 area, 4 Lanczos, 9 auto, 10 any.
        check: With `pass_through`: decode every image all the same, to find the damaged ones.
        mode: `create`, which replaces what is there; `append`; or `resume` what was interrupted.
    """

    num_workers: int = 1
    batch_size: int = 4096
    pass_through: bool = False
    pack_label: bool = False
    parts: int = 1
    part: int | None = None
    max_errors: int | float | None = None
    shuffle: bool = False
    seed: int = 0
    root: Any = None
    labels: Any = None
    name: str | None = None
    resize: int | tuple[int, int] = 0
    center_crop: bool | int = False
    quality: int | None = None
    color: int = 1
    encoding: str = ".jpg"
    inter_method: int = BILINEAR
    check: bool = False
    mode: Literal["create", "append", "resume"] = "create"

    def __post_init__(self) -> None:
        sizes = self.resize if isinstance(self.resize, tuple | list) else (self.resize,)
        if min(sizes) < 0 or len(sizes) > 2 or (len(sizes) == 2 and 0 in sizes):
            raise ValueError(f"resize is a number of pixels, or (width, height): {self.resize}")
        if self.encoding not in (".jpg", ".png"):
            raise ValueError(f"encoding is '.jpg' or '.png', not {self.encoding!r}")
        if self.color not in (-1, 0, 1):
            raise ValueError(f"color is -1, 0 or 1, not {self.color}")
        if min(self.num_workers, self.batch_size, self.parts) < 1:
            raise ValueError("num_workers, batch_size and parts are at least 1")
        method_for(self.inter_method)


@dataclass(frozen=True, slots=True)
class _Prepare:
    """What is done to every image: an array in, encoded bytes out."""

    params: Im2recParams
    transforms: tuple[Callable[..., Any], ...]

    def __call__(self, image: Array, rng: np.random.Generator) -> bytes:
        changed = np.asarray(Compose(self.transforms)(image[:, :, None] if image.ndim == 2 else image, rng))
        if changed.dtype.kind == "f":
            changed = np.clip(np.rint(changed), 0, 255).astype(np.uint8)
        return encode(self._resized(self._cropped(changed), rng), self.params.encoding, self.params.quality)

    def _cropped(self, image: Array) -> Array:
        if not self.params.center_crop:
            return image
        rows, columns = image.shape[:2]
        side = min(rows, columns)
        top, left = (rows - side) // 2, (columns - side) // 2
        return image[top : top + side, left : left + side]

    def _resized(self, image: Array, rng: np.random.Generator) -> Array:
        wanted, (rows, columns) = self.params.resize, image.shape[:2]
        if not wanted:
            return image
        if isinstance(wanted, int):
            short = min(rows, columns)
            width, height = max(columns * wanted // short, 1), max(rows * wanted // short, 1)
        else:
            width, height = wanted
        draw = random.Random(int(rng.integers(1 << 63)))
        method = method_for(self.params.inter_method, (rows, columns), (height, width), draw)
        return resize(image, width, height, method)


def im2rec(
    list_file: Any,
    transforms: Compose | Iterable[Callable[..., Any]] | None,
    dataset_params: Mapping[str, Any] | None,
    output_path: Any,
) -> Any:
    """Convert the images of a list, or of an array, into a record file.

    Several workers read, transform and encode; one writes, in the order of the list. An image that is missing or
    damaged is logged and passed over, and noted in `NAME.rec.errors.jsonl`.

    Args:
        list_file: A list: lines of index, label (or labels) and path, with tabs between them. Or uint8[n, height,
            width, 3], RGB, with `labels` in `dataset_params`.
        transforms: A `Compose` of transforms, or any callables, applied to every image: uint8[height, width, channels],
            RGB. What they return is stored as uint8; floats are rounded. Or None.
        dataset_params: See `Im2recParams`.
        output_path: The folder for the `.rec` and the `.idx` file. It is made if need be.

    Returns:
        The path of the `.rec` file, as text; of several parts a list of these.

    Raises:
        ValueError: A parameter is unknown or out of its range.
        TooManyErrors: More than `max_errors` images failed. What was packed before is whole.
    """
    given = dict(dataset_params or {})
    known = [field.name for field in fields(Im2recParams)]
    if unknown := [name for name in given if name not in known]:
        raise ValueError(f"dataset_params has no {unknown[0]!r}: there are {', '.join(known)}")
    params = Im2recParams(**given)
    is_array = hasattr(list_file, "__array__")
    name = params.name or ("images" if is_array else as_path(list_file).name.removesuffix(".lst"))
    target = as_path(output_path) / f"{name}.rec"
    packed = convert(list_file, target, params, transforms or ())
    return list(packed.paths) if len(packed.paths) > 1 else packed.paths[0]


def convert(
    list_file: Any, target: AnyPath, params: Im2recParams, transforms: Compose | Iterable[Callable[..., Any]] = ()
) -> PackResult:
    """Do what `im2rec` does, into this file.

    Returns:
        What was done.
    """
    steps = tuple(transforms.transforms if isinstance(transforms, Compose) else transforms)
    if any(isinstance(step, ToTensor) for step in steps):
        raise ValueError("ToTensor makes what no image file holds: leave it to the reader of the record file")
    source, spec = _source(list_file, params, steps)
    parts = None if params.parts == 1 and params.part is None else params.parts
    numbers = range(params.parts) if params.part is None else [params.part]
    targets = [target] if parts is None else [part_path(target, number, ".rec") for number in numbers]
    if params.mode == "create":
        for one in targets:
            _discard(one)
    try:
        return pack(
            source,
            cast("Any", target),
            container="recordio",
            spec=spec,
            transforms=None if params.pass_through else {"image": [_Prepare(params, steps)]},
            check=params.check,
            shuffle=params.shuffle,
            seed=params.seed,
            parts=parts,
            part=params.part,
            max_errors=params.max_errors,
            mode=params.mode,
            workers=params.num_workers,
        )
    finally:
        for one in targets:
            _tell(error_log_path(cast("Any", one)))


def _source(list_file: Any, params: Im2recParams, steps: tuple[Any, ...]) -> tuple[Any, dict[str, str]]:
    """What is packed, and the type of its images."""
    if params.pass_through and (steps or hasattr(list_file, "__array__")):
        raise ValueError("pass_through keeps the bytes of files: it goes with neither transforms nor arrays")
    if hasattr(list_file, "__array__"):
        return ArrayImages(list_file, params.labels), {"image": params.encoding[1:]}
    if params.labels is not None:
        raise ValueError("labels go with an array: those of a list are in it")
    root = None if params.root is None else as_path(params.root)
    flag = None if params.pass_through else params.color
    listed = ListedImages(as_path(list_file), root=root, pack_label=params.pack_label, flag=flag)
    return listed, {"image": "image" if params.pass_through else params.encoding[1:]}


def _discard(target: AnyPath) -> None:
    """Take away what an earlier run has left, finished or not: the original overwrites it."""
    name = target.name
    sidecars = target.parent / FOLDER
    for path in (target, target.parent / f"{name.removesuffix('.rec')}.idx", sidecars / f"{name}.safetensors"):
        remove(path)
    if isinstance(target, Path):
        remove(target.parent / FOLDER / f"{name}.pack.json")
        shutil.rmtree(target.parent / FOLDER / "staging" / name, ignore_errors=True)


def _tell(log: AnyPath) -> None:
    """Say on the console what could not be packed."""
    if not log.exists():
        return
    lines = [json.loads(line) for line in read_text(log).splitlines()]
    for line in lines:
        _log.warning("%s: %s", line["path"] or f"image {line['position']}", line["error"])
    _log.warning("%d %s could not be packed: see %s", len(lines), "image" if len(lines) == 1 else "images", log)

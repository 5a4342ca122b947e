"""`im2rec`: images of a list, or of an array, to a record file, by `bushel.pack`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

import bushel
from bushel.compat.mxnet.base import Array
from bushel.compat.mxnet.gluon.data.vision.transforms import Compose, ToTensor
from bushel.compat.mxnet.pixels import decode
from bushel.compat.mxnet.resampling import BILINEAR, resize
from bushel.compat.mxnet.steps import im2rec_steps
from bushel.errors import SpecError
from bushel.sources import Arrays, ListFile, Sample
from bushel.spec import KEY
from bushel.storage import AnyPath, as_path, read_text, remove, remove_tree

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Im2recParams:
    """The parameters in `dataset_params`: docs/compat-mxnet.md has the meaning of each."""

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
        if min(self.num_workers, self.batch_size, self.parts) < 1:
            raise ValueError("num_workers, batch_size and parts must be at least 1")
        if self.color not in (-1, 0, 1):
            raise ValueError(f"color must be -1, 0 or 1, not {self.color}")

    def steps(self, transforms: Iterable[Callable[..., Any]]) -> list[Any]:
        """Return the transforms of `bushel.pack`: the user's, and im2rec's with OpenCV's pixels."""
        low, high = (1, 100) if self.encoding == ".jpg" else (0, 9)
        size = tuple(self.resize) if isinstance(self.resize, list) else self.resize
        ours = im2rec_steps(
            size or None,
            center_crop=bool(self.center_crop),
            quality=None if self.quality is None else min(max(self.quality, low), high),
            color=-1,  # `decode` has converted the images of a list
            encoding=self.encoding,
            inter_method=self.inter_method,
            resample=_resample,
        )
        return [_Transformed(tuple(transforms)), *ours]


@dataclass(frozen=True)
class _Transformed:
    """Apply the user's transforms, and round to uint8."""

    transforms: tuple[Callable[..., Any], ...]

    def __call__(self, image: Array, rng: np.random.Generator) -> Array:
        changed = np.asarray(
            Compose(self.transforms)(image[:, :, None] if image.ndim == 2 else image, rng)
        )
        if changed.dtype.kind == "f":
            changed = np.clip(np.rint(changed), 0, 255).astype(np.uint8)
        return changed[:, :, 0] if changed.shape[2:] == (1,) else changed


def _resample(image: Array, size: tuple[int, int], method: int) -> Array:
    return resize(image, *size, method)


class _ListedImages(ListFile):
    """The images of a list, decoded as OpenCV does it with this flag; None keeps them encoded."""

    def __init__(
        self, path: AnyPath, root: AnyPath | None, pack_label: bool, flag: int | None
    ) -> None:
        super().__init__(path, root=root, first_label=not pack_label)
        # for any list, to be able to append
        self.spec = {**self.spec, "label": "array" if pack_label else "float"}
        self._flag = flag

    def __getitem__(self, position: int) -> Sample:
        sample = dict(super().__getitem__(position))
        label = np.asarray(sample["label"], np.float32)
        # a single label is a number
        sample["label"] = label if label.size > 1 else float(label.reshape(-1)[0])
        if self._flag is not None:
            sample["image"] = decode(sample["image"], self._flag, tolerant=False)
        return sample


def _array_images(images: Any, labels: Any) -> Arrays:
    """Return the images of an array, with ids 0, 1, 2… and labels (by default 0)."""
    images = np.asanyarray(images)
    if images.ndim not in (3, 4) or images.dtype != np.uint8:
        shapes = "uint8[n, height, width] or uint8[n, height, width, channels]"
        raise SpecError(
            f"an array of images must be {shapes}, not {images.dtype}{list(images.shape)}"
        )
    labels = np.zeros(len(images), np.int64) if labels is None else np.asarray(labels)
    if labels.ndim not in (1, 2) or len(labels) != len(images):
        raise SpecError(f"{len(images)} images need as many labels, not {list(labels.shape)}")
    return Arrays(
        {"image": images, "label": labels, KEY: np.arange(len(images))}, spec={"image": "image"}
    )


def im2rec(
    list_file: Any,
    transforms: Compose | Iterable[Callable[..., Any]] | None,
    dataset_params: Mapping[str, Any] | None,
    output_path: Any,
) -> Any:
    """Convert the images of a list, or of an array, into a record file, in the order of the list; return its path.

    `list_file` has lines of index, label (or labels) and path, separated by tabs; or is uint8[n,
    height, width, 3], RGB, with `labels` in `dataset_params` (see `Im2recParams`). `transforms` are
    a `Compose` or any callables of uint8[height, width, channels], RGB; their results are stored as
    uint8, and floats are rounded. Several parts return a list of paths.

    An image that is missing or damaged is logged, listed in `NAME.rec.errors.jsonl`, and left out.
    If more than `max_errors` fail, a `TooManyErrors` is raised, and the images packed before are
    kept.
    """
    options = dict(dataset_params or {})
    names = [field.name for field in fields(Im2recParams)]
    if unknown := [name for name in options if name not in names]:
        raise ValueError(f"dataset_params has no {unknown[0]!r}: there are {', '.join(names)}")
    params = Im2recParams(**options)
    is_array = hasattr(list_file, "__array__")
    name = params.name or ("images" if is_array else as_path(list_file).name.removesuffix(".lst"))
    target = as_path(output_path) / f"{name}.rec"
    packed = convert(list_file, target, params, transforms or ())
    return list(packed.paths) if len(packed.paths) > 1 else packed.paths[0]


def convert(
    list_file: Any,
    target: AnyPath,
    params: Im2recParams,
    transforms: Compose | Iterable[Callable[..., Any]] = (),
) -> bushel.runs.PackResult:
    """Do what `im2rec` does, with the output file `target`."""
    user_steps = tuple(transforms.transforms if isinstance(transforms, Compose) else transforms)
    if any(isinstance(step, ToTensor) for step in user_steps):
        raise ValueError(
            "a record file cannot hold the results of ToTensor: apply it when the file is read"
        )
    is_array, steps = hasattr(list_file, "__array__"), params.steps(user_steps)
    if params.pass_through and (user_steps or is_array):
        raise ValueError(
            "pass_through keeps the bytes of files, so it excludes transforms and arrays"
        )
    if params.labels is not None and not is_array:
        raise ValueError("labels go with an array: a list contains its labels")
    if is_array:
        source: Any = _array_images(list_file, params.labels)
    else:
        root = None if params.root is None else as_path(params.root)
        flag = None if params.pass_through else params.color
        source = _ListedImages(as_path(list_file), root, params.pack_label, flag)
    parts = None if params.parts == 1 and params.part is None else params.parts
    if params.mode == "create" and parts is None:
        _discard(target)
    try:
        return bushel.pack(
            source,
            cast("Any", target),
            container="recordio",
            spec={"image": "image" if params.pass_through else params.encoding[1:]},
            transforms=None if params.pass_through else {"image": steps},
            images="check" if params.check else None,
            shuffle=params.shuffle,
            seed=params.seed,
            parts=parts,
            part=params.part,
            max_errors=params.max_errors,
            mode="overwrite" if params.mode == "create" and parts is not None else params.mode,
            threads=params.num_workers,
        )
    finally:
        _log_errors(bushel.runs.error_log_path(cast("Any", target)))


def _discard(target: AnyPath) -> None:
    """Remove the output of an earlier run, finished or not.

    The original overwrites it. `mode="overwrite"` of `bushel.pack` would drop the images before a
    `TooManyErrors`.
    """
    name, sidecars = target.name, target.parent / ".bushel"
    for path in (
        target,
        target.parent / f"{name.removesuffix('.rec')}.idx",
        sidecars / f"{name}.safetensors",
    ):
        remove(path)
    if isinstance(target, Path):
        remove(sidecars / f"{name}.pack.json")
        remove_tree(target.parent / ".bushel" / "staging" / name)


def _log_errors(log: AnyPath) -> None:
    """Log the images that could not be packed."""
    if not log.exists():
        return
    lines = [json.loads(line) for line in read_text(log).split("\n") if line]
    lines = [
        line for line in lines if line.get("run") == lines[-1].get("run") and "position" in line
    ]
    for line in lines:
        _log.warning("%s: %s", line["path"] or f"image {line['position']}", line["error"])
    if lines:
        _log.warning(
            "%d %s could not be packed: see %s",
            len(lines),
            "image" if len(lines) == 1 else "images",
            log,
        )

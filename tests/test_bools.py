"""Public options refuse True and False as numbers, and take numbers of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel import loader, transforms
from bushel.sources import Frames

NP: Any = np
YES: Any = True
GREY = transforms.Grayscale()


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    folder = tmp_path_factory.mktemp("bools") / "ds"
    with bushel.Writer(folder, {"x": "int", "frames": "bytes[]"}, container="bag") as writer:
        for number in range(8):
            writer.append({"x": number, "frames": [b"a"] * 6})
    return bushel.open(folder)


def folder_of(ds: bushel.Dataset) -> Any:
    return ds.shards[0].shard.root


OF_DATASETS: dict[str, Callable[[bushel.Dataset, Path], Any]] = {
    "shard(index)": lambda ds, _: ds.shard(YES, 4),
    "shard(num_shards)": lambda ds, _: ds.shard(0, YES),
    "split of a dataset": lambda ds, _: ds.split({"a": YES, "b": 7}),
    "split of a dataset, seed": lambda ds, _: ds.split({"a": 0.5, "b": 0.5}, seed=YES),
    "split, share": lambda ds, out: bushel.split(ds, out, {"a": YES}),
    "split, seed": lambda ds, out: bushel.split(ds, out, {"a": 0.5, "b": 0.5}, shuffle=True, seed=YES),
    "windows": lambda ds, _: ds.windows("frames", YES),
    "batch_size": lambda ds, _: bushel.Loader(ds, YES),
    "batch_size of lengths": lambda ds, _: bushel.Loader(ds, {10: YES}, bucket_by="frames.length"),
    "processes": lambda ds, _: bushel.Loader(ds, 2, processes=YES),
    "prefetch": lambda ds, _: bushel.Loader(ds, 2, prefetch=YES),
    "order": lambda ds, _: loader.Exact(len(ds), seed=YES),
    "window of an order": lambda ds, _: loader.Blocks(len(ds), window=YES),
    "weights": lambda ds, _: bushel.mix({"a": ds}, weights={"a": YES}),
    "seed of a mixture": lambda ds, _: bushel.mix({"a": ds}, weights={"a": 1}, seed=YES),
    "schedule": lambda ds, _: bushel.mix({"a": ds}, schedule=[(0, {"a": 1}), (YES, {"a": 1})]),
    "rows": lambda ds, _: loader.Megatron(YES),
    "threads of verify": lambda ds, _: bushel.verify(folder_of(ds), threads=YES),
    "max_problems": lambda ds, _: bushel.verify(folder_of(ds), max_problems=YES),
    "threads of pack": lambda ds, out: bushel.pack(ds, out, container="bag", threads=YES),
    "processes of pack": lambda ds, out: bushel.pack(ds, out, container="bag", processes=YES),
    "parts of pack": lambda ds, out: bushel.pack(ds, out, container="bag", parts=YES),
    "threads of index": lambda ds, _: bushel.index(folder_of(ds), threads=YES),
    "rate": lambda *_: Frames(rate=YES),
    "stride": lambda *_: Frames(stride=YES),
    "quality of JPEGs": lambda *_: bushel.jpeg.encode(np.zeros((8, 8), np.uint8), quality=YES),
    "reducing_gap": lambda ds, _: bushel.Loader(ds, 2, reducing_gap=YES),
    "MapView": lambda ds, _: loader.MapView(ds, reducing_gap=YES),
    "times": lambda ds, _: loader.RandomWindow(2, times=YES),
    "seed of pack": lambda ds, out: bushel.pack(ds, out, container="bag", shuffle=True, seed=YES),
    "shard_samples": lambda ds, out: bushel.pack(ds, out, shard_samples=YES),
}


@pytest.mark.parametrize("name", OF_DATASETS)
def test_a_bool_is_no_number_of_a_dataset(ds: bushel.Dataset, tmp_path: Path, name: str) -> None:
    with pytest.raises(TypeError, match="True"):
        OF_DATASETS[name](ds, tmp_path / "out")
    assert not (tmp_path / "out").exists()


NUMBERS_OF_TRANSFORMS: dict[Any, tuple[dict[str, Any], list[str]]] = {
    transforms.ColorJitter: ({}, ["brightness", "contrast", "saturation", "hue"]),
    transforms.GaussianBlur: ({}, ["sigma"]),
    transforms.Grayscale: ({}, ["channels"]),
    transforms.Mask: ({"field": "m"}, ["fill"]),
    transforms.Pad: ({"padding": 1}, ["padding", "fill"]),
    transforms.Points: ({"field": "p"}, ["columns"]),
    transforms.RandAugment: ({}, ["operations", "magnitude", "bins", "fill"]),
    transforms.RandomAffine: ({"degrees": 1}, ["degrees", "shear", "fill"]),
    transforms.RandomApply: ({"transforms": [GREY]}, ["p"]),
    transforms.RandomErasing: ({}, ["p", "scale", "ratio", "value"]),
    transforms.RandomHorizontalFlip: ({}, ["p"]),
    transforms.RandomResizedCrop: ({"size": 4}, ["size", "scale", "ratio"]),
    transforms.RandomRotation: ({"degrees": 1}, ["degrees", "fill"]),
    transforms.Resize: ({"size": 4}, ["size"]),
    transforms.TrivialAugmentWide: ({}, ["bins", "fill"]),
}


@pytest.mark.parametrize(
    ("transform", "option"),
    [(transform, name) for transform, (_, names) in NUMBERS_OF_TRANSFORMS.items() for name in names],
)
def test_a_bool_is_no_number_of_a_transform(transform: Any, option: str) -> None:
    others = NUMBERS_OF_TRANSFORMS[transform][0]
    for value in (True, NP.True_, (True,)):
        with pytest.raises((TypeError, ValueError), match="True"):
            transform(**{**others, option: value})


def test_numbers_of_numpy_are_numbers(ds: bushel.Dataset) -> None:
    assert list(ds.shard(NP.int64(1), NP.int32(4)).keys) == list(ds.shard(1, 4).keys)
    assert bushel.mix({"a": ds}, weights={"a": NP.float32(1)}, seed=NP.int64(3)).order.seed == 3
    assert type(loader.Exact(NP.int64(8), seed=NP.uint8(1)).seed) is int
    assert transforms.RandomApply([GREY], p=NP.float64(0.5)).p == 0.5

"""Datasets that other packages write, read in place: every value, in random order, and through a loader."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore:the order .* expands"),
    pytest.mark.filterwarnings("ignore:.* was not compared"),
    pytest.mark.filterwarnings("ignore:.* were not compared"),
]

Original = Callable[..., list[dict[str, Any]]]
KINDS = [
    *(f"mds-{each}" for each in ("plain", "zstd", "gz", "br", "bz2", "snappy")),
    *(f"litdata-{each}" for each in ("plain", "zstd", "chunk", "sample")),
    *(f"tfrecord-{each}" for each in ("plain", "gzip", "zlib")),
    *(f"arrayrecord-{each}" for each in ("plain", "zstd", "brotli", "snappy")),
]
SPECS: dict[str, dict[str, str]] = {
    "tfrecord": {"tokens": "array(int64,-1)", "blob": "bytes"},
    "arrayrecord": {"data": "bytes"},
}


def assert_same(value: Any, stored: Any, wanted: Any, name: str) -> None:
    if isinstance(wanted, list):
        assert len(value) == len(wanted), name
        for each in zip(value, stored, wanted, strict=True):
            assert_same(*each, name)
    elif not isinstance(wanted, dict) or "sha256" not in wanted:
        assert (value.decode() if isinstance(value, bytes) else value) == wanted, name
    elif "dtype" in wanted:
        assert (value.dtype.name, list(value.shape)) == (wanted["dtype"], wanted["shape"]), name
        assert hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest() == wanted["sha256"], name
    else:
        assert (hashlib.sha256(stored).hexdigest(), len(stored)) == (wanted["sha256"], wanted["length"]), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_value_is_that_of_the_original(original: Callable[[str], Original], kind: str, tmp_path: Path) -> None:
    wanted = original("foreign")("write_foreign.py", kind, tmp_path / "data")
    ds = bushel.open(tmp_path / "data", spec=SPECS.get(kind.partition("-")[0]))
    assert len(ds) == len(wanted)
    places = list(range(len(ds)))
    random.Random(kind).shuffle(places)
    stored = ds.read(places, decode=False)
    for place, raw in zip(places, stored, strict=True):
        sample = dict(ds[place])
        assert sample.pop("__key__") == str(place)
        assert sample.keys() == wanted[place].keys()
        for name, value in sample.items():
            if name != "jpegs":  # decoders of JPEG differ by one level
                assert_same(value, raw[name], wanted[place][name], f"{name} of sample {place}")
    assert bushel.verify(tmp_path / "data").ok


@pytest.mark.parametrize("kind", ["mds-plain", "litdata-zstd", "tfrecord-plain"])
def test_every_value_through_a_loader(original: Callable[[str], Original], kind: str, tmp_path: Path) -> None:
    wanted = original("foreign")("write_foreign.py", kind, tmp_path / "data")
    ds = bushel.open(tmp_path / "data", spec=SPECS.get(kind.partition("-")[0]))
    loader = bushel.Loader(ds, 7, fields=["label", "score", "tokens", "embed"], shuffle=True, seed=1)
    seen = set()
    for batch in loader:
        for row, key in enumerate(batch["__key__"]):
            expected = wanted[int(key)]
            seen.add(key)
            assert (batch["label"][row], batch["score"][row]) == (expected["label"], expected["score"])
            for name in ("tokens", "embed"):
                assert_same(batch[name][row], b"", expected[name], name)
    assert seen == set(ds.keys)

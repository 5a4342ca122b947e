"""Comparing what is read with the datasets that the packages of other formats wrote (`tests/golden/foreign`)."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import settings
from tests.paths import ROOT

import bushel
from bushel.errors import BushelError
from bushel.testing import READABLE_CHECKS, Golden, Readable

__all__ = ["FOREIGN", "PARQUET", "check_damaged", "check_expected", "check_suite", "copy", "expected"]

FOREIGN = ROOT / "tests" / "golden" / "foreign"
PARQUET = (
    "parquet-none-v1-plain",
    "parquet-snappy-v1-dictionary",
    "parquet-zstd-v2-dictionary",
    "parquet-gzip-v2-plain",
    "hf-parquet",
)


def expected(name: str) -> dict[str, Any]:
    """Return the expected samples of a dataset."""
    found: dict[str, Any] = json.loads((FOREIGN / name / "EXPECTED.json").read_text("utf-8"))
    return found


def copy(name: str, path: Path, to: str = "") -> Path:
    """Copy a dataset, without what is expected of it, to a folder of this name, or of another one."""
    return Path(shutil.copytree(FOREIGN / name, path / (to or name), ignore=shutil.ignore_patterns("EXPECTED.json")))


def check_suite(container: str, check: str, path: Path, folder: Path, **options: Any) -> None:
    """Run a check of the suite on a dataset, with the samples that it gives itself.

    Args:
        container: Name of the container.
        check: Name of the check.
        path: The dataset.
        folder: A folder in which a new one is made.
        options: Options of `bushel.open`.
    """
    (folder / "checked").mkdir()
    samples = [dict(each) for each in bushel.open(path, index="memory", **options)]
    for sample in samples:
        del sample["__key__"]
    READABLE_CHECKS[check](Readable(container, Golden(path, samples, options=options), folder / "checked"))


def check_expected(name: str, path: Path, **options: Any) -> None:
    """Assert keys, fields, stored bytes, values and names of classes of a copy of a dataset."""
    wanted = expected(name)
    with bushel.open(path / wanted["path"] if "path" in wanted else path, **options) as ds:
        assert list(ds.keys) == [each["key"] for each in wanted["samples"]]
        assert {field: list(names) for field, names in ds.labels.items()} == wanted.get("labels", {})
        stored = ds.read(range(len(ds)), decode=False)
        for position, each in enumerate(wanted["samples"]):
            sample = dict(ds[position])
            assert sample.pop("__key__") == each["key"]
            values = {field: value for field, value in each["values"].items() if value is not None}
            assert sample.keys() == values.keys()
            for field, value in values.items():
                _compare(sample[field], stored[position][field], value)


def _compare(value: Any, stored: Any, wanted: Any) -> None:
    if isinstance(wanted, list) and isinstance(stored, list):
        assert len(stored) == len(wanted)
        for each in zip(value, stored, wanted, strict=True):
            _compare(*each)
    elif not isinstance(wanted, Mapping) or "sha256" not in wanted:
        assert value == wanted
    elif "dtype" in wanted:
        assert (value.dtype.name, list(value.shape)) == (wanted["dtype"], wanted["shape"])
        assert hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest() == wanted["sha256"]
    else:
        assert (hashlib.sha256(stored).hexdigest(), len(stored)) == (wanted["sha256"], wanted["length"])


COPIES = 2 * settings().max_examples
"""Damaged copies of a file: 100, and 2000 at night."""


def check_damaged(
    data: bytes, file: Path, table: int, seed: str | None, *, dataset: Path | None = None, copies: int = COPIES
) -> None:
    """Assert that damaged copies of a file give other values, or an error that names the file.

    Args:
        data: The bytes of the file.
        file: Where to write the copies.
        table: Offset of its table; half of the copies are damaged after it; a negative one is the size of a
            table at the beginning.
        seed: Decides the damage.
        dataset: The dataset that it is part of; None if it is one itself.
        copies: Number of copies.
    """
    rng = random.Random(seed)
    for number in range(copies):
        changed = bytearray(data)
        start, stop = (0, -table) if table < 0 else (table, len(data))
        for _ in range(rng.choice((1, 1, 4))):
            changed[rng.randrange(start, stop) if number % 2 else rng.randrange(len(data))] = rng.randrange(256)
        if number % (copies // 6) == 0:
            del changed[rng.randrange(len(changed)) :]
        file.write_bytes(changed)
        error = _error_of(dataset or file)
        assert error is None or file.name in str(error)


def _error_of(path: Path) -> BushelError | None:
    try:
        dataset = bushel.open(path, index="memory")
        for place in range(len(dataset)):
            dataset.read([place], decode=False)
    except BushelError as error:
        return error
    return None

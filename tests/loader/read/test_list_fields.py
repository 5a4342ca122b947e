"""Fields that are read as lists, without samples: batches, errors, bad samples and states equal the ordinary ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
from tests.loader.two_ways import compare

import bushel
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.list_fields import ListFields
from bushel.loader.run.groups import Groups, Made
from bushel.loader.values.collate import Padded, Ragged

SAMPLES = 41
SPEC = {"text": "utf8", "data": "bytes", "label": "int", "tree": "json", "tokens": "npy"}


def sample(number: int) -> dict[str, Any]:
    text = "täxt" * (number % 5)
    tree = {"at": [number, None], "text": text}
    return {"text": text, "data": bytes(number), "label": number, "tree": tree, "tokens": np.arange(3) + number}


@contextmanager
def listed() -> Iterator[list[int]]:
    """Count the batches that are made of lists."""
    count = [0]
    make = Groups._finished

    def counting(self: Groups, plan: BatchPlan, made: Made) -> Any:
        count[0] += bool(made.lists)
        return make(self, plan, made)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Groups, "_finished", counting)
        yield count


def listed_batches(make: Callable[[], bushel.Loader]) -> int:
    """Compare the two ways, and return the number of batches that were made of lists."""
    with listed() as count:
        compare(make)
    return count[0]


def write(path: Path, container: str, write_sample: Callable[[int], dict[str, Any]] = sample) -> bushel.Dataset:
    with bushel.Writer(path, SPEC, container=container, columns=()) as writer:
        for number in range(SAMPLES):
            writer.append(write_sample(number), key=f"key/{number}")
    return bushel.open(path)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_batches_equal_the_ordinary_ones(tmp_path: Path, container: str) -> None:
    ds = write(tmp_path / "data", container)
    options: dict[str, Any]
    for options in (
        {},
        {"shuffle": True, "threads": 2},
        {"shuffle": "blocks", "drop_last": True},
        {"keys": False, "prefetch": 1},
        {"fields": ["text"]},
        {"fields": {"tree": True, "data": True, "label": False}},
        {"collate": {"text": list, "tree": "list", "tokens": Padded(-1)}},
        {"collate": {"tokens": Ragged(), "label": np.array}},
        {"decode": False},
        {"exclude": ["key/3"], "on_error": "replace", "shuffle": True},
        {"batch_transform": lambda batch: batch | {"more": len(batch["text"])}},
    ):
        made = listed_batches(lambda: bushel.Loader(ds, 6, **{"threads": 1, "seed": 5} | options))  # noqa: B023
        assert made >= SAMPLES // 6, options
    assert listed_batches(lambda: bushel.Loader(ds[::-2], 6, threads=0, shuffle=True)) == 4
    mixture = bushel.mix({"a": ds, "b": ds[:9]}, weights={"a": 1, "b": 2}, until=90)
    assert listed_batches(lambda: bushel.Loader(mixture, 6, threads=0)) == 15
    assert listed_batches(lambda: bushel.Loader(ds, 6, threads=1, transforms={"text": str.upper})) == 0
    assert listed_batches(lambda: bushel.Loader(ds, 6, threads=1, sample_transform=dict)) == 0


def test_values_of_the_index_and_of_files(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", SPEC, container="tar") as writer:  # short texts are columns
        for number in range(SAMPLES):
            writer.append(sample(number) | {"text": "t" * number * 40}, key=str(number))
    ds = bushel.open(tmp_path / "data")
    assert listed_batches(lambda: bushel.Loader(ds, 4, shuffle=True, threads=1)) == 11


@pytest.mark.filterwarnings("ignore:the order .* expands")  # these files are small
def test_blocks_that_are_expanded(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "number": n, "tree": {"at": n}, "real": n / 7} for n in range(SAMPLES)]
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    ds = bushel.open(tmp_path / "rows.jsonl.gz", index="memory")
    assert listed_batches(lambda: bushel.Loader(ds, 5, threads=2)) == 9
    with ZipFile(tmp_path / "some.zip", "w", ZIP_DEFLATED) as file:
        for n in range(SAMPLES):
            file.writestr(f"{n:03}.txt", f"text {n}" * 9)
            file.writestr(f"{n:03}.cls", str(n))
    ds = bushel.open(tmp_path / "some.zip", index="memory")
    assert listed_batches(lambda: bushel.Loader(ds, 5, threads=1)) == 9
    assert listed_batches(lambda: bushel.Loader(ds, 5, threads=0, decode=False)) == 9


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_bad_samples(tmp_path: Path, on_error: Any) -> None:
    ds = write(tmp_path / "data", "bag")
    ds[0]
    for field in ("text", "tree"):
        path, offset = ds.location(17, field)
        with Path(str(path)).open("r+b") as file:
            file.seek(offset or 0)
            file.write(b"\xff")
    for threads in (0, 2):
        compare(lambda: bushel.Loader(ds, 6, shuffle=True, threads=threads, on_error=on_error))  # noqa: B023
    with bushel.open(tmp_path / "data", verify=True) as verified:
        compare(lambda: bushel.Loader(verified, 6, shuffle=True, threads=1, on_error=on_error))


@pytest.mark.parametrize("fields", [["tokens", "label"], ["text", "tree"], None], ids=str)
@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_file_that_shrinks_is_met_by_both_lanes_alike(tmp_path: Path, fields: Any, on_error: Any) -> None:
    ds = write(tmp_path / "data", "tar")
    ds[0]
    path = Path(str(ds.location(30, "text")[0]))
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(ds.location(25, "data")[1])
    for threads in (0, 2):
        compare(lambda: bushel.Loader(ds, 6, threads=threads, fields=fields, on_error=on_error))  # noqa: B023
    path.write_bytes(data)


def test_values_that_are_missing_or_do_not_collate(tmp_path: Path) -> None:
    some = write(tmp_path / "some", "tar", lambda n: {"text": "a"} | ({"data": b"b"} if n % 11 else {}))
    for options in ({}, {"collate": {"data": "list"}}, {"collate": {"text": "stack"}}, {"on_error": "skip"}):
        compare(lambda: bushel.Loader(some, 5, threads=0, fields=["text", "data"], **options))  # noqa: B023
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bushel.loader.run.groups._MOST_BATCHES", 1)
        made = listed_batches(
            lambda: bushel.Loader(some, 1, threads=0, fields=["text", "data"], collate={"data": "list"})
        )
    assert made == SAMPLES - 4


def test_fields_that_hardly_ever_can_be_read_are_given_up(tmp_path: Path) -> None:
    some = write(tmp_path / "some", "tar", lambda n: {"text": "a"} | ({"data": b"b"} if n == 40 else {}))
    tries: list[int] = []
    read = ListFields.read

    def counting(self: ListFields, *given: Any) -> Any:
        tries.append(0)
        return read(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ListFields, "read", counting)
        patch.setattr("bushel.loader.run.groups._MOST_BATCHES", 1)
        list(bushel.Loader(some, 1, threads=0, fields=["text", "data"], collate={"data": "list"}))
    assert len(tries) == 5


def test_large_arrays_are_stacked_in_memory_that_is_used_again(tmp_path: Path) -> None:
    large = np.arange(1 << 16, dtype=np.int16)
    with ZipFile(tmp_path / "some.zip", "w", ZIP_DEFLATED) as file:
        for n in range(SAMPLES):
            with file.open(f"{n:03}.npy", "w") as out:
                np.save(out, large + n if n != 20 else large[:5])
    ds = bushel.open(tmp_path / "some.zip", index="memory")
    assert listed_batches(lambda: bushel.Loader(ds, 8, threads=1)) > 0

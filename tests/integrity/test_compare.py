"""The comparison of two tables of one shard."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from bushel._index.shard import FileStamp, Keys
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel.integrity.compare import differences
from bushel.spec import Field


def column(
    name: str, extents: list[tuple[int, int]], *, starts: list[int] | None = None, file: int = 0
) -> FieldExtents:
    offset, length = np.array(extents, np.int64).reshape(-1, 2).T.copy()
    return FieldExtents(
        Field(name, "bytes", starts is not None),
        "bytes",
        file,
        offset,
        length,
        starts=None if starts is None else np.array(starts, np.int64),
    )


def table(*columns: FieldExtents, samples: int, keys: list[str] | None = None) -> ShardIndex:
    files = (FileStamp("x.data", 1000), FileStamp("x.table", 100))
    return ShardIndex(
        samples, files, {c.field.name: c for c in columns}, "bag", None if keys is None else Keys.of(keys)
    )


def test_equal_tables() -> None:
    kept = table(column("a", [(0, 5), (0, MISSING)]), column("b", [(5, 1), (6, 1)], starts=[0, 2, 2]), samples=2)
    assert list(differences(kept, kept)) == []


def test_another_number_of_samples_ends_the_comparison() -> None:
    [found] = differences(table(column("a", [(0, 5)]), samples=1), table(column("a", []), samples=0))
    assert found.what == "the files have 0 samples, but the index has 1"


def test_moved_extents_and_extents_of_other_records() -> None:
    kept = table(column("a", [(0, 5), (5, 5), (10, 5), (20, 1)]), samples=4)
    built = table(column("a", [(0, 5), (0, 5), (10, 6), (0, MISSING)]), samples=4)
    found = list(differences(kept, built))
    assert [(d.sample, d.field, d.file, d.offset, d.referred) for d in found] == [
        (1, "a", 0, 5, True),
        (2, "a", 0, 10, False),
        (3, "a", 0, 20, False),
    ]
    assert found[1].what == "the files have it at 10 with 6 bytes, but the index has it at 10 with 5 bytes"
    assert found[2].what == "the files have it nowhere, but the index has it at 20 with 1 bytes"


def test_other_numbers_of_elements() -> None:
    kept = table(column("a", [(0, 1), (1, 1)], starts=[0, 2, 2]), samples=2)
    built = table(column("a", [(0, 1), (1, 1)], starts=[0, 1, 2]), samples=2)
    assert [(d.sample, d.what) for d in differences(kept, built)] == [
        (0, "the files have 1 elements, but the index has 2"),
        (1, "the files have 1 elements, but the index has 0"),
    ]


def test_an_empty_sequence_that_is_missing() -> None:
    tells_nothing = column("a", [(0, 1)], starts=[0, 0, 0, 0, 1])
    one = table(replace(tells_nothing, absent=np.array([False, True, False, False])), samples=4)
    two = table(replace(tells_nothing, absent=np.array([False, False, True, False])), samples=4)
    assert [(d.sample, d.what) for d in differences(one, two)] == [
        (1, "the files have an empty sequence, but the index has no value"),
        (2, "the files have no value, but the index has an empty sequence"),
    ]
    assert list(differences(one, table(tells_nothing, samples=4))) == []


def test_keys_and_positions() -> None:
    a = column("a", [(0, 1), (1, 1), (2, 1)])
    kept = table(a, samples=3, keys=["x", "y", "z"])
    [found] = differences(kept, table(a, samples=3, keys=["x", "Y", "z"]))
    assert (found.sample, found.what) == (1, "the files have the key 'Y', but the index has 'y'")
    numbered = table(a, samples=3, keys=["0", "1", "2"])
    assert list(differences(numbered, table(a, samples=3))) == []
    assert [d.sample for d in differences(kept, table(a, samples=3))] == [0, 1, 2]


def test_other_fields_and_types() -> None:
    a = column("a", [(0, 1)])
    [found] = differences(table(a, samples=1), table(a, column("b", [(1, 1)]), samples=1))
    assert found.what == "the names of fields differ: the files have 'b' where the index has nothing"
    [found] = differences(table(a, column("b", [(1, 1)]), samples=1), table(a, samples=1))
    assert found.what == "the names of fields differ: the files have nothing where the index has 'b'"
    [found] = differences(table(a, samples=1), table(replace(a, codec="utf8"), samples=1))
    assert found.what == "the files have it as bytes (stored as utf8), but the index as bytes (stored as bytes)"

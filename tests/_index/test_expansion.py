from __future__ import annotations

import numpy as np
import pytest

from bushel._index.expansion import expansion_of
from bushel._index.table import FieldExtents, FileStamp, ShardIndex
from bushel.spec import Field
from bushel.storage import Blocks


def table(values: int, size: int, block: int, name: str = "zstd") -> ShardIndex:
    """A table of values one after another, in blocks of so many bytes."""
    total = values * size
    start = np.append(np.arange(0, total, block), total)
    count = len(start) - 1
    blocks = Blocks(start, np.zeros(count, np.int32), start[:-1], np.diff(start), np.zeros(count, np.uint8), (name,))
    extents = FieldExtents(
        Field("image", "bytes"), "bytes", 1, np.arange(values) * size, np.full(values, size, np.int64)
    )
    return ShardIndex(values, (FileStamp("x", total, 0),), {"image": extents}, "tar", blocks=(blocks,))


def test_nothing_is_expanded() -> None:
    assert expansion_of([]) == 0
    assert expansion_of([table(10, 100, 1000, "stored")]) == 0


def test_blocks_that_fit_into_the_memory_are_expanded_once() -> None:
    assert expansion_of([table(1000, 100_000, 10_000_000)]) == 1


def test_large_blocks_are_expanded_for_every_value() -> None:
    one = table(10_000, 100_000, 100_000_000)  # 1 GB, of which a quarter is kept
    assert expansion_of([one]) == pytest.approx(1000 * (1 - 0.256))
    assert expansion_of([one, one]) == pytest.approx(1000 * (1 - 0.128))


def test_values_that_reach_across_need_both_blocks() -> None:
    one = table(9_000, 100_000, 150_000)  # of three values, the second lies in two blocks
    assert expansion_of([one]) == pytest.approx((1.5 + 3 + 1.5) / 3 * (1 - 0.256 / 0.9))

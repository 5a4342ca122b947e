from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from bushel._index.expansion import Expansion, Part, expansion_of
from bushel._index.shard import FileStamp
from bushel._index.table import FieldExtents, ShardIndex
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
    assert expansion_of([one, replace(one)]) == pytest.approx(1000 * (1 - 0.128))


def test_values_that_reach_across_need_both_blocks() -> None:
    one = table(9_000, 100_000, 150_000)  # of three values, the second is in two blocks
    assert expansion_of([one]) == pytest.approx((1.5 + 3 + 1.5) / 3 * (1 - 0.256 / 0.9))


def seen(*tables: ShardIndex, samples: int | None = None, rows: np.ndarray | None = None) -> Expansion:
    parts, first = [], 0
    for one in tables:
        own = np.arange(one.samples) if rows is None else rows
        parts.append(Part(one, own, first + np.arange(len(own))))
        first += len(own)
    found = Expansion.of(parts, first if samples is None else samples, {"image"})
    assert found is not None
    return found


def test_what_orders_expand() -> None:
    one = seen(table(10_000, 100_000, 100_000_000))  # 10 blocks of 1000 samples each, 1 GB in all
    assert one.run == 1000
    assert one.in_stored_order == 1
    assert one.at_random == pytest.approx(1000 * (1 - 0.256))
    assert one.in_blocks(1000, 1) == one.in_blocks(1000, 2) == 1  # two blocks of 100 MB are kept
    assert one.in_blocks(1000, 4) == pytest.approx(1000 * (1 - 256 / 400))
    assert one.in_blocks(500, 1) == 2  # every block is needed twice
    assert one.in_blocks(1500, 1) == pytest.approx(13 / 10)  # three blocks are needed twice


def test_orders_of_many_shards_follow_from_some() -> None:
    one = table(1000, 100_000, 100_000_000)
    all_of_them, some = seen(*map(replace, [one] * 20)), seen(one, replace(one), samples=20_000)
    for size, window in ((1000, 1), (1000, 4), (20_000, 1)):
        assert some.in_blocks(size, window) == pytest.approx(all_of_them.in_blocks(size, window))
    assert some.best_blocks(256, 16) == all_of_them.best_blocks(256, 16)


def test_blocks_of_an_order_hold_those_of_a_file_if_that_is_cheaper() -> None:
    assert seen(table(10_000, 100_000, 100_000_000)).best_blocks(256, 16) == (1000, 1)
    assert seen(table(50_000, 100_000, 10_000_000)).best_blocks(256, 16) == (300, 4)  # 100 samples in each
    assert seen(table(10_000, 1_000, 100_000)).best_blocks(256, 16) == (256, 16)  # all are kept
    assert seen(table(9_000, 100_000, 150_000)).best_blocks(256, 16) == (256, 16)  # of three samples


def test_a_view_in_another_order_gains_nothing_from_blocks() -> None:
    rows = np.random.default_rng(0).permutation(10_000)
    assert seen(table(10_000, 100_000, 100_000_000), rows=rows).best_blocks(256, 16) == (256, 16)


def test_elements_of_sequences_count_for_their_sample() -> None:
    plain = table(10_000, 100_000, 100_000_000)
    image = plain.fields["image"]
    of_ten = replace(image, starts=np.arange(0, 10_001, 10))
    found = seen(replace(plain, samples=1000, fields={"image": of_ten}))
    assert (found.run, found.in_stored_order) == (1000, 1)
    assert found.in_blocks(100, 1) == 1
    assert found.in_blocks(50, 1) == 2


def test_fields_that_are_not_read_do_not_count() -> None:
    one = table(1000, 100_000, 10_000_000)
    assert Expansion.of([Part(one, np.arange(1000), np.arange(1000))], 1000, {"label"}) is None
    stored = table(1000, 100_000, 10_000_000, "stored")
    assert Expansion.of([Part(stored, np.arange(1000), np.arange(1000))], 1000, {"image"}) is None


def test_a_block_of_several_fields_counts_once() -> None:
    one = table(1000, 100_000, 10_000_000)
    two = replace(one, fields={**one.fields, "again": one.fields["image"]})
    double = Expansion.of([Part(two, np.arange(1000), np.arange(1000))], 1000, set(two.fields))
    assert double is not None
    assert (seen(one).in_stored_order, double.in_stored_order) == (1, 0.5)
    assert double.at_random == seen(one).at_random / 2

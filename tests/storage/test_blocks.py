from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bushel.errors import FormatError
from bushel.storage import IN_TABLE, Blocks, Side, plan_blocks
from bushel.storage.blocks import EXPANDED


def blocks_of(sizes: list[int], stored: list[bool]) -> Blocks:
    start = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=start[1:])
    count = len(sizes)
    return Blocks(
        start,
        np.zeros(count, np.int32),
        start[:-1] + 100,
        np.diff(start),
        np.array([0 if one else 1 for one in stored], np.uint8),
        ("stored", "zstd"),
    )


@given(
    st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=30),
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), max_size=20),
)
def test_plans_cover_each_extent_in_order(table: list[tuple[int, bool]], parts: list[tuple[float, float]]) -> None:
    blocks = blocks_of([size for size, _ in table], [kept for _, kept in table])
    owner = np.repeat(np.arange(len(table)), blocks.sizes)  # block of each byte
    extents = []
    for one, other in parts:
        first, last = sorted((int(one * blocks.size), int(other * blocks.size)))
        extents.append((first, last - first))
    offset, length = np.array(extents, np.int64).reshape(-1, 2).T
    plan = plan_blocks(blocks, offset, length)
    assert (np.diff(plan.row) >= 0).all()
    assert (plan.size > 0).all()
    assert (np.diff(plan.expand) > 0).all()
    for row, (first, size) in enumerate(extents):
        at = 0
        for piece in np.flatnonzero(plan.row == row).tolist():
            assert plan.at[piece] == at
            block = int(owner[first + at])
            inside = first + at - int(blocks.start[block])
            assert set(owner[first + at : first + at + int(plan.size[piece])].tolist()) == {block}
            if table[block][1]:
                assert (plan.file[piece], plan.offset[piece]) == (0, blocks.offset[block] + inside)
                assert plan.block[piece] == -1
            else:
                assert (plan.file[piece], plan.offset[piece]) == (EXPANDED, inside)
                assert plan.expand[plan.block[piece]] == block
            at += int(plan.size[piece])
        assert at == size
    used = {int(owner[p]) for first, size in extents for p in range(first, first + size)}
    assert plan.expand.tolist() == sorted(block for block in used if not table[block][1])


def test_places() -> None:
    blocks = blocks_of([10, 20, 0, 5], [True, False, True, True])
    assert [blocks.place(at) for at in (0, 9, 10, 29, 30, 34, 35)] == [
        (0, 100), (0, 109), (0, 110), (0, 110), (0, 130), (0, 134), (0, 135),
    ]  # fmt: skip
    assert replace(blocks, file=np.full(4, IN_TABLE, np.int32)).place(3) is None
    assert blocks_of([], []).place(0) is None


def test_a_checked_table() -> None:
    blocks = blocks_of([10, 20], [True, False])
    assert blocks.check("x", [130]) is blocks
    assert (blocks.size, len(blocks), blocks.is_stored(np.arange(2)).tolist()) == (30, 2, [True, False])
    assert blocks_of([], []).check("x", []).size == 0


def _array(*numbers: int, dtype: type = np.int64) -> np.ndarray:
    return np.array(numbers, dtype)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"start": _array(0, 10)}, "different lengths"),
        ({"offset": _array(0)}, "different lengths"),
        ({"start": _array(1, 11, 31)}, "do not ascend"),
        ({"start": _array(0, 40, 30)}, "do not ascend"),
        ({"file": _array(0, 1, dtype=np.int32)}, "does not have"),
        ({"file": _array(0, -2, dtype=np.int32)}, "does not have"),
        ({"file": _array(0, IN_TABLE, dtype=np.int32)}, "block 1 is not inside"),
        ({"offset": _array(100, -1)}, "block 1 is not inside"),
        ({"length": _array(10, -1)}, "block 1 is not inside"),
        ({"length": _array(10, 2**63 - 1)}, "block 1 is not inside"),
        ({"offset": _array(121, 100)}, "block 0 is not inside"),
        ({"length": _array(9, 20)}, "block 0 .stored. has 9 stored bytes for 10"),
        ({"start": _array(0, 10, 2**31)}, "block 1 .zstd. has 20 stored bytes"),
        ({"filters": ("stored", "snappy"), "start": _array(0, 10, 20000)}, "block 1 .snappy. has 20 stored bytes"),
        ({"filters": ("stored",)}, "not listed"),
        ({"filters": ("stored", "rot13")}, "unknown filter 'rot13'"),
        ({"side": Side(_array(0, 1), np.zeros(1, np.uint8))}, "side inputs"),
        ({"side": Side(_array(0, 2, 1), np.zeros(1, np.uint8))}, "side inputs"),
    ],
)
def test_damaged_tables(change: dict[str, object], what: str) -> None:
    with pytest.raises(FormatError, match=what) as caught:
        replace(blocks_of([10, 20], [True, False]), **change).check("shard.tar", [130])
    assert caught.value.file == "shard.tar"

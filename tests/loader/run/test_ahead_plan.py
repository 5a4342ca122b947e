"""What is read ahead: pure."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from bushel._runtime.order import Blocks, Exact, Sequential
from bushel.loader.run.ahead_plan import AheadRange, Grouping, plan_ahead

KIB, MIB = 1 << 10, 1 << 20
LENGTHS = st.one_of(st.integers(-1, 400), st.integers(0, 300 * KIB), st.integers(3 * MIB, 5 * MIB))
GAPS = st.one_of(st.integers(0, 300), st.integers(0, 40 * KIB), st.integers(0, 600 * KIB), st.integers(-3000, 0))
EXTENTS = st.lists(st.tuples(st.integers(0, 2), GAPS, LENGTHS, st.integers(0, 5)), max_size=60)
Columns = tuple[npt.NDArray[np.int64], ...]


def columns(rows: list[tuple[int, int, int, int]]) -> Columns:
    """File, offset, length and turn of extents that are one after another, with gaps, in three files."""
    reached = [0, 0, 0]
    found = []
    for file, gap, length, turn in rows:
        offset = max(0, reached[file] + gap)
        reached[file] = offset + max(0, length)
        found.append((file, offset, length, turn))
    return tuple(np.array(column, np.int64) for column in (zip(*found, strict=True) if found else ([], [], [], [])))


def plan(rows: Columns) -> list[AheadRange]:
    return plan_ahead(*rows)


def union(offset: npt.NDArray[np.int64], length: npt.NDArray[np.int64]) -> int:
    reached, total = -1, 0
    for first, size in sorted(zip(offset.tolist(), length.tolist(), strict=True)):
        total += max(0, first + size - max(first, reached))
        reached = max(reached, first + size)
    return total


@given(EXTENTS, st.randoms(use_true_random=False))
def test_requests_cover_their_extents_and_read_little_else(
    rows: list[tuple[int, int, int, int]], random: np.random.Generator
) -> None:
    made = columns(rows)
    order = np.array(random.sample(range(len(rows)), len(rows)), np.int64)  # type: ignore[attr-defined]
    file, offset, length, turn = (column[order] for column in made)
    requests = plan((file, offset, length, turn))
    taken = [row for request in requests for row in request.rows.tolist()]
    assert len(taken) == len(set(taken))
    alone = sum(len(request.rows) == 1 for request in requests)
    assert 2 * alone <= len(requests)
    for request in requests:
        assert (file[request.rows] == request.file).all()
        assert (length[request.rows] > 0).all()
        assert request.start == offset[request.rows].min()
        assert request.stop == (offset + length)[request.rows].max()
        assert request.stop - request.start <= 8 * MIB
        needed = union(offset[request.rows], length[request.rows])
        assert request.stop - request.start <= 1.25 * needed + 16 * KIB * (len(request.rows) - 1)
    first = [int(turn[request.rows].min()) for request in requests]
    assert first == sorted(first)


@given(st.lists(st.integers(1, 300 * KIB), min_size=2, max_size=100), st.integers(0, 16 * KIB))
def test_neighbours_make_few_requests(sizes: list[int], gap: int) -> None:
    length = np.array(sizes, np.int64)
    offset = np.cumsum(length + gap) - length
    zeros = np.zeros(len(sizes), np.int64)
    requests = plan((zeros, offset, length, zeros))
    total = int(offset[-1] + length[-1] - offset[0])
    assert len(requests) <= 1 + total // (8 * MIB - 300 * KIB - gap)
    assert sum(len(request.rows) for request in requests) == len(zeros)


def test_what_is_left_to_the_batches() -> None:
    zeros, far = np.zeros(4, np.int64), np.arange(4) * 110_000
    assert plan((zeros, far, np.full(4, 4, np.int64), zeros)) == [], "labels between photos"
    assert plan((zeros, far * 2, np.full(4, 110_000, np.int64), zeros)) == [], "every second photo"
    assert plan((zeros, far * 50, np.full(4, 5 * MIB, np.int64), zeros)) == [], "clips"
    assert plan((np.arange(4), zeros, np.full(4, 9, np.int64), zeros)) == [], "a file each"
    [request] = plan((zeros, far, np.full(4, 110_000, np.int64), zeros))
    assert (request.start, request.stop) == (0, 440_000)
    eight = np.array([number * 110_000 for number in range(9) if number != 6])
    [request] = plan((zeros.repeat(2), eight, np.full(8, 110_000, np.int64), zeros.repeat(2)))
    assert (request.start, request.stop) == (0, 990_000), "a photo that was read before"


def test_extents_that_repeat_share_a_request() -> None:
    offset, length = np.array([50, 0, 50, 20], np.int64), np.array([10, 100, 10, 5], np.int64)
    [request] = plan((np.zeros(4, np.int64), offset, length, np.array([3, 2, 1, 5])))
    assert (request.start, request.stop, sorted(request.rows.tolist())) == (0, 100, [0, 1, 2, 3])


def test_orders_whose_batches_have_neighbours() -> None:
    assert Grouping.of(Sequential(10), 10**12, 1 << 29) == Grouping(0, 64 * MIB)
    assert Grouping.of(Sequential(10), 10**12, 1 << 23) == Grouping(0, 7 * MIB)
    assert Grouping.of(Blocks(10, 0, 8, 4), 10**12, 1 << 29) == Grouping(32, 448 * MIB)
    assert Grouping.of(Exact(10), 10**12, 1 << 29) is None
    whole = Grouping.of(Exact(10), 10**6, 1 << 29)
    assert whole is not None
    assert not whole.ends(0, 10**9, 10, 10**6)


def test_groups_end_with_windows() -> None:
    blocks = Grouping(4096, 448 * MIB)
    assert not blocks.ends(0, 4095, 4096, 400 * MIB)
    assert blocks.ends(0, 4096, 4224, 400 * MIB)
    assert not blocks.ends(0, 4096, 4224, 20 * MIB), "small windows are read together"
    assert blocks.ends(0, 128, 256, 500 * MIB), "a window that is larger than the memory"
    assert blocks.ends(0, 70_000, 70_000, 20 * MIB)
    assert (blocks.is_large(400 * MIB), blocks.is_large(20 * MIB)) == (True, False)
    assert not Grouping(0, 64 * MIB).is_large(65 * MIB)

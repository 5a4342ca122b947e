from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.windows import Windows, WindowShape
from bushel._dataset.views.make_windows import Pick, WindowOptions, shape_of

SHAPES = st.builds(
    lambda length, hop, step, pad: shape_of(Reader([]), "f", Pick(length, step), WindowOptions(hop, pad=pad)),
    st.integers(1, 6),
    st.none() | st.integers(1, 9),
    st.integers(1, 4),
    st.booleans(),
)
DELTAS = st.builds(
    lambda own, hop: shape_of(Reader([]), "f", Pick(), WindowOptions(hop, delta={"g": own})),
    st.lists(st.integers(-9, 9), min_size=1, max_size=5),
    st.none() | st.integers(1, 4),
)


def expected(count: int, shape: WindowShape) -> list[int]:
    """Where the windows of a sample start, one by one."""
    if not shape.span:
        return list(range(0, count, int(shape.hop)))
    starts = []
    start = 0
    while start + shape.span <= count:
        starts.append(start)
        start += int(shape.hop)
    if shape.pad and count and (not starts or starts[-1] + shape.span < count):
        starts.append(start)
    return starts


@given(SHAPES | DELTAS, st.lists(st.integers(-1, 30), max_size=8))
def test_windows_are_those_that_a_loop_finds(shape: WindowShape, counts: list[int]) -> None:
    windows = Windows.of(shape, np.array(counts, np.int64))
    wanted = [(sample, start) for sample, count in enumerate(counts) for start in expected(max(count, 0), shape)]
    assert len(windows) == len(wanted)
    samples, starts = windows.places(np.arange(len(wanted)))
    assert list(zip(samples.tolist(), starts.tolist(), strict=True)) == wanted
    for number, (sample, start) in enumerate(wanted):
        assert windows.find(sample, str(start)) == number
    for sample, count in enumerate(counts):
        for start in (-1, count, count + int(shape.hop) ** 2):
            match = windows.find(sample, str(start))
            if (sample, start) in wanted:
                assert match == wanted.index((sample, start))
            elif match is not None:  # a key of the window that is found is compared by the reader
                assert windows.marks(*windows.places(np.array([match]))) != [str(start)]
    assert windows.without == len(counts) - len({sample for sample, _ in wanted})


@given(SHAPES, st.lists(st.lists(st.integers(0, 20), max_size=4), min_size=1, max_size=4))
def test_windows_of_datasets_one_after_another(shape: WindowShape, counts: list[list[int]]) -> None:
    parts = [Windows.of(shape, np.array(own, np.int64)) for own in counts]
    whole = Windows.of(shape, np.array(sum(counts, []), np.int64))
    assert Windows.joined(parts).begins.tolist() == whole.begins.tolist()
    assert Windows.joined(parts).digest() == whole.digest()

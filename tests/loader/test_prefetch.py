"""The prefetch window: more when the trainer waits, less when it does not, and never beyond the bytes allowed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.loader.memory_dataset import MemoryDataset

from bushel.loader import Loader
from bushel.loader.run.threads import PrefetchWindow
from bushel.loader.values.collate import count_bytes


def after(
    window: PrefetchWindow, ready: list[bool], size: int = 1, *, all_ready: bool = False, fetched: bool = False
) -> int:
    for one in ready:
        window = window.observe(ready=one, all_ready=one and all_ready, fetched=fetched, size=size)
    return window.batches


def test_it_grows_while_the_trainer_waits_and_shrinks_when_it_long_has_not() -> None:
    window = PrefetchWindow.of(None, 1 << 30)
    assert window.batches == 2
    assert after(window, [False] * 4) == 5
    assert after(window, [False] * 100) == 16
    assert after(window, [False] * 4 + [True] * 15) == 5
    assert after(window, [False] * 4 + [True] * 16) == 4
    assert after(window, [False] * 4 + [True] * 500) == 2


def test_one_batch_that_is_late_does_not_let_it_grow() -> None:
    assert after(PrefetchWindow.of(None, 1 << 30), [False, True] * 50) == 2


def test_it_shrinks_while_all_threads_are_busy_decoding() -> None:
    window = PrefetchWindow.of(None, 1 << 30)
    for fetched, batches in ((False, 5), (True, 5), (True, 4)):
        for _ in range(4 if not fetched else 8):
            window = window.observe(ready=False, all_ready=False, fetched=fetched, size=1)
        assert window.batches == batches


def test_it_does_not_grow_while_all_threads_are_busy_decoding() -> None:
    window = PrefetchWindow.of(None, 1 << 30)
    assert after(window, [False] * 100, fetched=True) == 2
    assert after(window, [True, False, False] * 5, fetched=True, all_ready=True) == 7
    assert after(window, [True, False, False] * 5, fetched=True) == 2


@given(ready=st.lists(st.booleans(), max_size=50), prefetch=st.integers(1, 9))
def test_a_given_number_stays(ready: list[bool], prefetch: int) -> None:
    assert after(PrefetchWindow.of(prefetch, 1 << 30), ready) == prefetch


@pytest.mark.parametrize(("size", "batches"), [(10, 8), (30, 3), (99, 1), (1000, 1)])
def test_bytes_go_before_batches(size: int, batches: int) -> None:
    assert after(PrefetchWindow.of(8, 100), [True], size) == batches


def test_bytes_of_a_batch() -> None:
    assert count_bytes({"x": np.zeros((2, 3)), "y": [b"abc", "de"], "z": (np.zeros(2, np.int8), None), "n": 1}) == 55


def test_large_batches_are_worked_on_one_at_a_time() -> None:
    dataset = MemoryDataset(400)
    loader = Loader(dataset, 10, threads=2, prefetch=8, prefetch_bytes=100)
    for number, _ in enumerate(loader, 1):
        assert len(dataset.reads) <= max(8, number + 1)

"""Memory of expanded blocks that is used again."""

from __future__ import annotations

import gc
import mmap
from collections import deque
from typing import Any

import numpy as np
import pytest

from bushel._runtime import system
from bushel._runtime.system import room_for

MEGABYTE = 1 << 20


@pytest.fixture(autouse=True)
def free(monkeypatch: pytest.MonkeyPatch) -> deque[mmap.mmap]:
    none: deque[mmap.mmap] = deque()
    monkeypatch.setattr(system, "_free", none)
    return none


def address(array: Any) -> int:
    found: int = array.__array_interface__["data"][0]
    return found


@pytest.mark.parametrize("size", [0, 1, 1000, 4 * MEGABYTE - 1, 4 * MEGABYTE, 9 * MEGABYTE + 5])
def test_room(size: int) -> None:
    room = room_for(size)
    assert room.shape == (size,)
    assert room.dtype == np.uint8
    assert room.flags.c_contiguous
    room[:] = 7


def test_memory_is_used_again_when_the_last_view_is_garbage() -> None:
    first = room_for(5 * MEGABYTE)
    place, view = address(first), first[5:9]
    del first
    gc.collect()
    other = room_for(5 * MEGABYTE)
    assert address(other) != place
    del view
    gc.collect()
    assert address(room_for(5 * MEGABYTE)) == place


def test_a_number_of_bytes_is_kept(free: deque[mmap.mmap]) -> None:
    rooms = [room_for(30 * MEGABYTE) for _ in range(20)]
    rooms.clear()
    gc.collect()
    assert list(map(len, free)) == [30 * MEGABYTE] * 17


def test_memory_has_few_unused_bytes(free: deque[mmap.mmap]) -> None:
    large = room_for(16 * MEGABYTE)
    del large
    gc.collect()
    small = room_for(6 * MEGABYTE)
    assert list(map(len, free)) == [16 * MEGABYTE]
    large = room_for(14 * MEGABYTE)
    assert not free
    del small, large


def test_no_memory_of_that_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError

    monkeypatch.setattr("bushel._runtime.system.mmap.mmap", fail)
    assert room_for(5 * MEGABYTE).shape == (5 * MEGABYTE,)

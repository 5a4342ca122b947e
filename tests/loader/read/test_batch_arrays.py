"""Batch arrays: batches are decoded in place, and their memory is used again when, and only when, it is free."""

import gc
import os
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.descriptors import descriptors, open_files
from tests.loader.memory_dataset import MemoryDataset

import bushel
from bushel._runtime import system
from bushel.errors import SpecError
from bushel.loader import Loader, Padded
from bushel.loader.read.batch_arrays import ArrayFactory, BatchArrays, BufferPool

LARGE = (40, 40)
FLOAT = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def no_free_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the memory that earlier tests have left."""
    monkeypatch.setattr(system, "_free", deque())


def address(array: npt.NDArray[Any]) -> int:
    place: int = array.__array_interface__["data"][0]
    return place


def grow(value: Any) -> Any:
    """A transform that makes an array of 6,400 bytes of the sample's number."""
    return np.full(LARGE, value[0], np.float32)


def grow_unequally(value: Any) -> Any:
    """The same, of another shape for every sample."""
    return np.full((2000 + int(value[0]), 1), value[0], np.float32)


def test_memory_is_used_again_when_the_last_view_is_gone() -> None:
    pool = BufferPool()
    first = pool.array((300, *LARGE), FLOAT)
    assert first is not None
    first[:] = 7
    place, part = address(first), first[1, 2:]
    del first
    gc.collect()
    second = pool.array((300, *LARGE), FLOAT)
    assert second is not None
    assert address(second) != place
    assert (part == 7).all()
    del part
    gc.collect()
    third = pool.array((200, *LARGE), FLOAT)
    assert third is not None
    assert address(third) == place
    assert third.flags.writeable
    assert third.flags.c_contiguous


def test_memory_of_stored_bytes_has_room_for_a_somewhat_larger_batch() -> None:
    pool = BufferPool(max_bytes=1 << 26)
    first = pool.room(16 << 20)
    assert first is not None
    assert len(first) == 18 << 20
    place = address(first)
    del first
    second = pool.room(17 << 20)
    assert second is not None
    assert address(second) == place
    del second
    assert pool.room((1 << 26) + 1) is None
    assert pool.room(1 << 20) is None  # bytes objects are as good


@pytest.mark.parametrize("size", [(2 << 20) + 1, 4 << 20, (6 << 20) - 5, 30 << 20])
def test_memory_of_stored_bytes_is_used_again(size: int) -> None:
    """With its headroom, the memory of some sizes was too large for the next batch: each one took new memory."""
    pool = BufferPool()
    places: set[int] = set()
    for _ in range(5):
        room = pool.room(size)
        assert room is not None
        places.add(address(room))
        del room
    assert len(places) == 1
    assert len(system._free) == 1


def test_batches_of_other_sizes_use_the_same_memory() -> None:
    """Only memory that was larger by a quarter was used: of batches of 30 to 120 MB, a third took new memory."""
    pool = BufferPool()
    large = pool.room(60 << 20)
    assert large is not None
    place = address(large)
    del large
    small = pool.room(40 << 20)
    assert small is not None
    assert address(small) == place


def test_a_small_array_leaves_free_memory_to_the_next_large_one() -> None:
    pool = BufferPool()
    large = pool.array((800, *LARGE), FLOAT)
    assert large is not None
    place = address(large)
    del large
    gc.collect()
    small, again = pool.array((1, *LARGE), FLOAT), pool.array((800, *LARGE), FLOAT)
    assert small is not None
    assert again is not None
    assert address(again) == place


def test_the_next_loader_has_the_memory_of_the_last_one() -> None:
    first = BufferPool().array((800, *LARGE), FLOAT)
    assert first is not None
    place = address(first)
    del first
    gc.collect()
    second = BufferPool().array((800, *LARGE), FLOAT)
    assert second is not None
    assert address(second) == place


def test_arrays_that_are_empty_or_too_large_are_not_made() -> None:
    pool = BufferPool(max_bytes=1 << 20)
    assert pool.array((0, 4), FLOAT) is None
    assert pool.array((1 << 20, 4), FLOAT) is None
    assert BufferPool(max_bytes=1 << 62).array((1 << 58,), FLOAT) is None  # more than there is memory


def test_the_first_value_decides_and_another_shape_gives_up_the_array() -> None:
    memory = ArrayFactory(None, BufferPool(), ["x"])
    arrays = BatchArrays(2, memory)
    value = np.ones(LARGE, np.float32)
    row = arrays.put("x", 1, value)
    assert row is not value
    assert arrays.whole() == {}
    other = np.ones((7, 300), np.float32)
    assert arrays.put("x", 0, other) is other
    assert not memory.stacks("x")
    assert BatchArrays(2, memory).put("x", 0, value) is value


def test_rules_other_than_stack_have_no_array() -> None:
    memory = ArrayFactory({"a": "list", "b": "stack", "c": Padded(0), "d": len}, BufferPool(), "abcde")
    assert [memory.stacks(name) for name in "abcde"] == [False, True, False, False, True]


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_large_values_are_in_one_array_without_stacking(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError("stacked")

    loader = Loader(MemoryDataset(26), 4, threads=threads, transforms={"vector": [grow]}, fields=["vector"])
    monkeypatch.setattr(np, "stack", refuse)
    batches = list(loader)
    assert [batch["vector"].shape for batch in batches] == [(4, *LARGE)] * 6 + [(2, *LARGE)]
    assert np.concatenate([batch["vector"][:, 3, 5] for batch in batches]).tolist() == list(range(26))


def test_buffers_are_recycled_and_a_batch_that_is_kept_keeps_its_values() -> None:
    places, kept = set(), []
    for batch in Loader(MemoryDataset(4000), 50, threads=2, prefetch=2, transforms={"vector": [grow]}):
        places.add(address(batch["vector"]))
        if batch["__key__"][0] == "key 50":
            kept.append(batch["vector"][1])
    assert len(places) < 12
    assert (kept[0] == 51).all()
    assert (
        len({address(batch["vector"]) for batch in list(Loader(MemoryDataset(80), 4, transforms={"vector": [grow]}))})
        == 20
    )


def test_the_next_epoch_uses_the_memory_of_this_one() -> None:
    loader = Loader(MemoryDataset(1201), 400, threads=0, transforms={"vector": [grow]})  # the last batch is small
    places: list[set[int]] = []
    for _ in range(3):
        places.append({address(batch["vector"]) for batch in loader if len(batch["vector"]) == 400})
        gc.collect()
    assert places[1] <= places[0]
    assert places[2] <= places[0]


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_bad_samples_leave_no_hole(on_error: Any) -> None:
    dataset = MemoryDataset(12, undecodable=[5, 10])
    loader = Loader(dataset, 4, threads=2, transforms={"vector": [grow]}, on_error=on_error)
    batches = [batch["vector"][:, 0, 0].tolist() for batch in loader]
    if on_error == "skip":
        assert batches == [[0, 1, 2, 3], [4, 6, 7], [8, 9, 11]]
    else:
        assert batches == [[0, 1, 2, 3], [4, 6, 6, 7], [8, 9, 11, 11]]


def test_unequal_shapes_stay_lists() -> None:
    loader = Loader(MemoryDataset(12), 4, transforms={"vector": [grow_unequally]})
    for number, batch in enumerate(loader):
        assert [array.shape for array in batch["vector"]] == [(2000 + i, 1) for i in range(4 * number, 4 * number + 4)]
    with pytest.raises(SpecError, match="do not stack"):
        list(Loader(MemoryDataset(12), 4, transforms={"vector": [grow_unequally]}, collate={"vector": "stack"}))


def test_a_fork_does_not_share_batches() -> None:
    iterator = iter(Loader(MemoryDataset(8), 4, threads=0, transforms={"vector": [grow]}))
    batch = next(iterator)
    child = os.fork()
    if not child:
        batch["vector"][:] = -1
        os._exit(0)
    os.waitpid(child, 0)
    assert batch["vector"][:, 0, 0].tolist() == [0, 1, 2, 3]


def test_an_iteration_leaves_no_descriptor(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"x": "array(float32,40,40)"}, container="bag", shard_samples=50) as writer:
        for i in range(200):
            writer.append({"x": np.full(LARGE, i, np.float32)})
    dataset = bushel.open(tmp_path / "data")

    loader = Loader(dataset, 16, shuffle=True, threads=2)
    assert sum(len(batch["x"]) for batch in loader) == 200  # opens the files, which the dataset keeps
    before = descriptors()
    for turn in range(3):
        for number, _ in enumerate(loader):
            if turn and number == 3:
                break
    gc.collect()
    assert descriptors() <= before
    dataset.close()
    assert open_files(tmp_path) == []

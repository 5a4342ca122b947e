"""The loader as the trainer sees it: epochs, batches, determinism, state."""

import copy
import inspect
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.loader.memory_dataset import MemoryDataset, jitter

from bushel._runtime.order import Shuffle
from bushel.errors import CorruptError, SpecError, StateError
from bushel.loader import Blocks, Exact, Loader, MapView, Padded, Sequential, StreamLoader
from bushel.loader.options import BatchOptions, Options


def numbers(loader: Loader) -> list[list[int]]:
    return [batch["number"].tolist() for batch in loader]


def test_a_batch_holds_every_field_of_its_samples() -> None:
    batches = list(Loader(MemoryDataset(5), 2, threads=2))
    assert [batch["__key__"] for batch in batches] == [["key 0", "key 1"], ["key 2", "key 3"], ["key 4"]]
    assert batches[1]["number"].tolist() == [2, 3]
    assert batches[1]["number"].dtype == np.int64
    assert batches[1]["name"] == ["name 2", "name 3"]
    assert batches[1]["vector"].tolist() == [[2, 2, 2], [3, 3, 3]]
    assert batches[1]["vector"].dtype == np.float32


@pytest.mark.parametrize("threads", [0, 1, 3])
@pytest.mark.parametrize(
    ("shuffle", "order"),
    [
        (True, Exact(50, 4)),
        ("exact", Exact(50, 4)),
        (False, Sequential(50)),
        ("blocks", Blocks(50, 4)),
        (Blocks(50, 4, 5, 2), Blocks(50, 4, 5, 2)),
    ],
)
def test_batches_come_in_the_order_of_the_epoch(threads: int, shuffle: Shuffle, order: Exact) -> None:
    loader = Loader(MemoryDataset(50), 7, shuffle=shuffle, seed=4, threads=threads)
    for epoch in range(3):
        assert loader.epoch == epoch
        assert sum(numbers(loader), []) == order.take(epoch, np.arange(50)).tolist()


def test_two_epochs_differ_and_two_loaders_do_not() -> None:
    loader, twin = (Loader(MemoryDataset(100), 10, shuffle=True, seed=1) for _ in range(2))
    first, second = numbers(loader), numbers(loader)
    assert first != second
    assert [numbers(twin), numbers(twin)] == [first, second]
    assert numbers(Loader(MemoryDataset(100), 10, shuffle=True, seed=2)) != first


def test_random_transforms_are_the_same_for_any_number_of_workers() -> None:
    runs = []
    for threads, batch_size in ((0, 6), (1, 6), (2, 6), (8, 6), (2, 9)):
        loader = Loader(
            MemoryDataset(40), batch_size, shuffle=True, seed=3, threads=threads, transforms={"vector": [jitter]}
        )
        runs.append([np.concatenate([batch["vector"] for batch in loader]) for _ in range(2)])
    for run in runs[1:]:
        assert np.array_equal(run[0], runs[0][0])
        assert np.array_equal(run[1], runs[0][1])
    first = dict(zip(Exact(40, 3).take(0, np.arange(40)).tolist(), runs[0][0] % 1, strict=True))
    second = dict(zip(Exact(40, 3).take(1, np.arange(40)).tolist(), runs[0][1] % 1, strict=True))
    assert not any(np.array_equal(first[sample], second[sample]) for sample in range(40))
    assert len(np.unique(np.concatenate([*first.values()]))) == 120


def test_transforms_are_applied_in_turn_to_decoded_values() -> None:
    transforms = {"number": [lambda n: n + 1, lambda n: n * 10], "name": [str.upper]}
    [batch] = Loader(MemoryDataset(2), 2, transforms=transforms)
    assert batch["number"].tolist() == [10, 20]
    assert batch["name"] == ["NAME 0", "NAME 1"]


def test_fields_and_stored_bytes() -> None:
    [batch] = Loader(MemoryDataset(2), 2, fields=["number"], decode=False)
    assert batch == {"__key__": ["key 0", "key 1"], "number": [b"0", b"1"]}


def test_collation_can_be_chosen() -> None:
    [batch] = Loader(MemoryDataset(2), 2, collate={"number": "list", "vector": Padded(-1, (4,))})
    assert batch["number"] == [0, 1]
    assert batch["vector"].tolist() == [[0, 0, 0, -1], [1, 1, 1, -1]]
    counts: Loader[int] = Loader(MemoryDataset(3), 2, collate=len)
    assert list(counts) == [2, 1]
    arrays: Loader[Any] = Loader(MemoryDataset(3), 2, batch_transform=lambda batch: batch["number"])
    assert [array.sum() for array in arrays] == [1, 2]


def test_lengths() -> None:
    assert len(Loader(MemoryDataset(10), 4)) == 3
    assert len(Loader(MemoryDataset(10), 4, drop_last=True)) == 2
    assert [len(Loader(MemoryDataset(10), 4, rank=rank, world_size=2, pad="wrap")) for rank in (0, 1)] == [2, 2]
    assert len(Loader(MemoryDataset(0), 4)) == 0
    assert list(Loader(MemoryDataset(0), 4)) == []


def test_break_leaves_the_epoch_and_the_next_for_begins_another() -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle=True)
    for number, _ in enumerate(loader, 1):
        if number == 2:
            break
    assert loader.state_dict()["epoch"] == 0
    assert loader.state_dict()["samples"] == 10
    assert sum(numbers(loader), []) == Exact(20).take(1, np.arange(20)).tolist()


def test_every_for_is_an_epoch_however_early_it_is_left() -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle=True)
    iter(loader)  # no batch was asked for, so no epoch has begun
    for epoch in range(4):
        for batch in loader:
            assert batch["number"].tolist() == Exact(20).take(epoch, np.arange(5)).tolist()
            break
        assert (loader.epoch, loader.state_dict()["epoch"], loader.state_dict()["samples"]) == (epoch, epoch, 5)
    assert sum(numbers(loader), []) == Exact(20).take(4, np.arange(20)).tolist()


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1}], ids=str)
def test_a_peek_is_not_counted(options: dict[str, Any]) -> None:
    dataset = MemoryDataset(20, undecodable=[7])
    more = {"transforms": {"vector": jitter}, "on_error": "skip", **options}
    plain, peeked = (Loader(dataset, 5, shuffle=True, **more) for _ in range(2))
    for place in range(3):  # before, in the middle and after
        states = [plain.state_dict(), peeked.state_dict()]
        before = peeked.epoch, peeked.errors, peeked.stats()
        looks = [peeked.peek(), peeked.peek()]
        assert (peeked.epoch, peeked.errors, peeked.stats()) == before
        assert [plain.state_dict(), peeked.state_dict()] == states
        first, *_ = batches = [list(plain), list(peeked)]
        for look in looks:
            np.testing.assert_array_equal(look["vector"], first[0]["vector"])
        assert str(batches[0]) == str(batches[1])
        for loader in (plain, peeked):
            if place == 0:
                loader.load_state_dict({**loader.state_dict(), "samples": 10})
            elif place == 1:  # left early: the next is the next epoch
                next(iter(loader))


def test_a_peek_while_a_loop_runs_shows_the_next_epoch() -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle=True)
    seen = []
    for batch in loader:
        look = loader.peek()["number"].tolist()
        seen += batch["number"].tolist()
    assert look == Exact(20).take(1, np.arange(5)).tolist()
    assert seen == Exact(20).take(0, np.arange(20)).tolist()
    assert Loader(MemoryDataset(4), None, threads=0).peek()["number"] == 0
    with pytest.raises(ValueError, match="epoch 0 has no batch to peek at"):
        Loader(MemoryDataset(0), 2).peek()


def test_a_state_does_not_depend_on_how_early_loops_were_left() -> None:
    loader, again = Loader(MemoryDataset(20), 5, shuffle=True), Loader(MemoryDataset(20), 5, shuffle=True)
    loader.load_state_dict({**loader.state_dict(), "samples": 10})
    next(iter(loader))
    state = loader.state_dict()
    assert (state["epoch"], state["samples"], loader.steps_left) == (0, 15, 1)
    again.load_state_dict(state)
    assert numbers(again) == [Exact(20).take(0, np.arange(15, 20)).tolist()]
    assert sum(numbers(loader), []) == Exact(20).take(1, np.arange(20)).tolist()


def test_an_old_iterator_does_not_move_a_newer_one() -> None:
    loader = Loader(MemoryDataset(20), 5)
    old = iter(loader)
    next(old)
    new = iter(loader)
    assert [next(new)["number"][0], next(new)["number"][0]] == [0, 5]
    assert [batch["number"][0] for batch in old] == [5, 10, 15]
    assert (loader.epoch, loader.state_dict()["samples"]) == (1, 10)


def test_an_iteration_that_fails_leaves_its_place_in_the_state() -> None:
    loader = Loader(MemoryDataset(10, unreadable=[7]), 5, threads=0)
    with pytest.raises(CorruptError):
        list(loader)
    assert (loader.state_dict()["epoch"], loader.state_dict()["samples"]) == (0, 5)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(CorruptError):
        list(loader)
    assert loader.epoch == 0


def test_the_epoch_can_be_set() -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle=True)
    next(iter(loader))
    loader.epoch = 3
    assert (loader.state_dict()["epoch"], loader.state_dict()["samples"]) == (3, 0)
    assert sum(numbers(loader), []) == Exact(20).take(3, np.arange(20)).tolist()
    assert (loader.epoch, len(loader), loader.batch_size) == (4, 4, 5)
    with pytest.raises(ValueError, match="epoch=-1"):
        loader.epoch = -1
    with pytest.raises(AttributeError, match="batch_size"):
        loader.batch_size = 6  # type: ignore[misc]


def test_the_length_is_that_of_an_epoch_also_after_resuming() -> None:
    loader = Loader(MemoryDataset(20), 5)
    loader.load_state_dict({**loader.state_dict(), "samples": 10})
    assert (len(loader), loader.steps_left) == (4, 2)
    assert len(list(loader)) == 2
    assert loader.steps_left == 4


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_goes_on_by_itself(copied: Any) -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle=Exact(20, 9), keys=False, rank=0, world_size=1)
    iterator = iter(loader)
    next(iterator)
    other = copied(loader)
    assert other.state_dict() == loader.state_dict()
    assert (other.seed, other.keys) == (9, False)
    rest = [batch["number"].tolist() for batch in iterator]
    assert numbers(other) == rest
    assert numbers(loader) == numbers(other)
    assert (loader.epoch, other.epoch) == (2, 2)


def test_state_counts_what_the_trainer_got_and_not_what_is_prefetched() -> None:
    dataset = MemoryDataset(100)
    loader = Loader(dataset, 5, shuffle=True, seed=6, prefetch=8, rank=0, world_size=2)
    states = [loader.state_dict()]
    states += [loader.state_dict() for _ in loader]
    assert states[0] == {"version": "exact/1", "fingerprint": "memory", "seed": 6, "epoch": 0, "samples": 0}
    assert [state["samples"] for state in states[1:-1]] == list(range(10, 100, 10))
    assert (states[-1]["epoch"], states[-1]["samples"]) == (1, 0)
    assert loader.state_dict() == states[-1]


def test_the_end_of_an_epoch_is_the_start_of_the_next_with_drop_last_too() -> None:
    loader = Loader(MemoryDataset(11), 5, drop_last=True)
    states = [loader.state_dict() for _ in loader]
    assert [(state["epoch"], state["samples"]) for state in states] == [(0, 5), (1, 0)]
    resumed = Loader(MemoryDataset(11), 5, drop_last=True)
    resumed.load_state_dict(states[-1])
    assert resumed.epoch == 1
    assert len(list(resumed)) == 2


@settings(max_examples=30, deadline=None)
@given(
    samples=st.integers(1, 60),
    before=st.tuples(st.integers(1, 9), st.integers(1, 4), st.integers(0, 5)),
    after=st.tuples(st.integers(1, 9), st.integers(1, 4)),
    epoch=st.integers(0, 2),
)
def test_resuming_on_other_ranks_and_batches_gives_exactly_the_rest(
    samples: int, before: tuple[int, int, int], after: tuple[int, int], epoch: int
) -> None:
    dataset = MemoryDataset(samples)
    batch_size, world_size, steps = before
    states, seen = [], list[int]()
    for rank in range(world_size):
        loader = Loader(dataset, batch_size, shuffle=True, seed=8, rank=rank, world_size=world_size, threads=0)
        loader.load_state_dict({**loader.state_dict(), "epoch": epoch})
        iterator = iter(loader)
        for _ in range(steps):
            seen += [number for batch in [next(iterator, None)] if batch for number in batch["number"].tolist()]
        states.append(loader.state_dict())
    if (state := states[-1])["epoch"] != epoch:
        assert sorted(seen) == list(range(samples))
        return
    for rank in range(after[1]):
        resumed = Loader(dataset, after[0], shuffle=True, rank=rank, world_size=after[1], threads=0)
        resumed.load_state_dict(state)
        seen += sum(numbers(resumed), [])
        assert resumed.epoch == epoch + 1
    assert sorted(seen) == list(range(samples))


def test_a_resumed_loader_goes_on_as_the_first_would_have() -> None:
    def make(threads: int) -> Loader:
        return Loader(MemoryDataset(64), 4, shuffle="blocks", seed=2, threads=threads, transforms={"vector": [jitter]})

    whole = make(2)
    expected = [(batch["number"].tolist(), batch["vector"].tolist()) for _ in range(2) for batch in whole]
    first, got = make(8), []
    for batch in first:
        got.append((batch["number"].tolist(), batch["vector"].tolist()))
        if len(got) == 5:
            break
    second = make(1)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    got += [(batch["number"].tolist(), batch["vector"].tolist()) for _ in range(2) for batch in second]
    assert got == expected


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"fingerprint": "other"}, "another dataset .*other.*memory"),
        ({"version": "exact/2"}, "order 'exact/2'.*'exact/1'"),
        ({"version": "sequential/1"}, "order 'sequential/1'"),
        ({"samples": 11}, "has only 10"),
        ({"samples": -1}, "`samples`"),
        ({"epoch": "0"}, "`epoch`"),
        ({"seed": True}, "`seed`"),
        ({"fingerprint": None}, "`fingerprint`"),
    ],
)
def test_a_state_from_elsewhere_is_refused(change: dict[str, Any], says: str) -> None:
    loader = Loader(MemoryDataset(10), 2, shuffle=True)
    with pytest.raises(StateError, match=says):
        loader.load_state_dict({**loader.state_dict(), **change})
    assert loader.state_dict()["samples"] == 0


def test_the_seed_comes_from_the_state() -> None:
    saved, loader = Loader(MemoryDataset(30), 5, shuffle=True, seed=5), Loader(MemoryDataset(30), 5, shuffle=True)
    loader.load_state_dict(saved.state_dict())
    assert loader.seed == 5
    assert numbers(loader) == numbers(saved)


@pytest.mark.parametrize("steps", [0, 1, 3, 4, 5, 11])
def test_skip_goes_where_iterating_would(steps: int) -> None:
    dataset = MemoryDataset(10)
    walked, skipped = Loader(MemoryDataset(10), 3, shuffle=True), Loader(dataset, 3, shuffle=True)
    batches = [batch["number"].tolist() for _ in range(5) for batch in walked]
    skipped.skip(steps)
    assert not dataset.reads
    assert (skipped.epoch, skipped.state_dict()["samples"]) == (steps // 4, steps % 4 * 3)
    assert numbers(skipped) + numbers(skipped) == batches[steps : (steps // 4 + 2) * 4]


@pytest.mark.parametrize(("threads", "processes"), [(0, 0), (2, 0), (1, 2)])
def test_samples_one_by_one(threads: int, processes: int) -> None:
    order = Exact(150, 2).take(0, np.arange(150)).tolist()
    for world_size in (1, 2):
        seen = []
        for rank in range(world_size):
            loader = Loader(
                MemoryDataset(150),
                None,
                shuffle=True,
                seed=2,
                rank=rank,
                world_size=world_size,
                threads=threads,
                processes=processes,
            )
            assert len(loader) == 150 // world_size
            for number, sample in enumerate(loader, 1):
                assert sample["vector"].shape == (3,)
                seen.append(sample["number"])
                state = loader.state_dict()
                assert (state["epoch"], state["samples"]) in ((0, number * world_size), (1, 0))
        assert [*seen[::world_size]] == seen if world_size == 1 else sorted(seen) == sorted(order)
        assert seen == [order[p] for rank in range(world_size) for p in range(rank, 150, world_size)]


def test_samples_one_by_one_resume_after_those_that_were_skipped() -> None:
    loader = Loader(MemoryDataset(10, unreadable=[1, 2, 6]), None, on_error="skip")
    iterator = iter(loader)
    assert [next(iterator)["number"], next(iterator)["number"]] == [0, 3]
    assert loader.state_dict()["samples"] == 4
    resumed = Loader(MemoryDataset(10, unreadable=[1, 2, 6]), None, on_error="skip")
    resumed.load_state_dict(loader.state_dict())
    assert [sample["number"] for sample in resumed] == [4, 5, 7, 8, 9]


def test_skip_in_mid_iteration_applies_to_the_next_for() -> None:
    loader = Loader(MemoryDataset(20), 5)
    for _ in loader:
        loader.skip(1)
        break
    assert numbers(loader) == [[10, 11, 12, 13, 14], [15, 16, 17, 18, 19]]
    with pytest.raises(ValueError, match="expected a whole number from 0"):
        loader.skip(-1)


def test_what_comes_is_announced_before_it_is_read() -> None:
    dataset = MemoryDataset(40)
    iterator = iter(Loader(dataset, 4, shuffle=True, prefetch=2, threads=1))
    next(iterator)
    assert len(dataset.prefetched) == 4 * 4
    assert sum(dataset.reads) <= 2 * 4
    iterator.close()
    assert dataset.reads[0] == 4


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({"transforms": {"nose": [len]}}, SpecError, "'nose'.*'number', 'name', 'vector'"),
        ({"transforms": {"name": ["upper"]}}, TypeError, "'name'.*'upper', which is not callable"),
        ({"collate": {"nose": "list"}}, SpecError, "nose"),
        ({"transforms": [len]}, SpecError, "no image field.*'number', 'name', 'vector'"),
        ({"shuffle": "random"}, ValueError, "shuffle"),
        ({"shuffle": 7}, TypeError, "shuffle=True, seed=7"),
        ({"shuffle": Exact(9)}, ValueError, "9 samples"),
        ({"shuffle": Exact(10, 3), "seed": 2}, ValueError, "seed 3"),
        ({"batch_size": None, "collate": len}, ValueError, "batch_size=None"),
        ({"batch_size": None, "pad": "wrap"}, ValueError, "batch_size=None"),
        ({"processes": 1, "threads": 0}, ValueError, "threads"),
        ({"to": "tensorflow"}, ValueError, "numpy, torch, jax"),
        ({"pin_memory": True}, ValueError, "pin_memory"),
        ({"device": "cpu"}, ValueError, "device"),
        ({"exclude": ["no such key"]}, ValueError, "no such key"),
        ({"on_error": "ignore"}, ValueError, "'raise', 'skip', 'replace'"),
        ({"on_error": "skipp"}, ValueError, "did you mean 'skip'"),
        ({"collate": {"name": "stak"}}, ValueError, "'stak'.*did you mean 'stack'"),
        ({"collate": {"nam": "stack"}}, SpecError, "'nam'.*did you mean 'name'"),
        ({"collate": {"vector": Padded}}, TypeError, r"Padded\(\)"),
        ({"collate": {"vector": 3}}, TypeError, "'vector': 3.*a function"),
        ({"collate": "stack"}, TypeError, "a mapping"),
        ({"fields": ["vectr"]}, SpecError, "'vectr'.*did you mean 'vector'"),
        ({"fields": "vector"}, TypeError, r"fields=\['vector'\]"),
        ({"fields": ["name"], "transforms": {"vector": [len]}}, SpecError, "'vector', which fields= does not read"),
        ({"transforms": {"vectr": [len]}}, SpecError, "did you mean 'vector'"),
        ({"shuffle": True, "weights": [1] * 10}, ValueError, "leave out shuffle=True"),
        ({"dataset": "packed"}, TypeError, r"open it first.*bushel.open\('packed'\)"),
        ({"dataset": Path("packed")}, TypeError, r"open it first.*bushel.open\('packed'\)"),
        ({"dataset": [{"name": "a"}]}, TypeError, "this list is not a dataset"),
        ({"seed": None}, TypeError, "seed=None.*secrets.randbits"),
        ({"seed": -1}, ValueError, "seed=-1"),
        ({"batch_size": "2"}, TypeError, "batch_size='2'"),
        ({"batch_size": 2.0}, TypeError, "batch_size=2.0"),
        ({"threads": 1.5}, TypeError, "threads=1.5"),
        ({"processes": -1}, ValueError, "processes=-1"),
        ({"batch_transform": 3}, TypeError, "batch_transform=3"),
        ({"on_error": "skip", "rank": 0, "world_size": 2}, ValueError, 'give on_error="replace"'),
        ({"on_error": "skip", "drop_last": True}, ValueError, 'give on_error="replace"'),
        ({"on_error": "skip", "pad": "wrap"}, ValueError, 'give on_error="replace"'),
        ({"exclude": ["key 1"], "rank": 0, "world_size": 2}, ValueError, 'give on_error="replace"'),
        ({"threads": -1}, ValueError, "threads"),
        ({"prefetch": 0}, ValueError, "prefetch"),
        ({"max_errors": -1}, ValueError, "max_errors"),
        ({"max_errors": 1.5}, ValueError, "above 1"),
        ({"max_errors": "1"}, TypeError, "max_errors"),
        ({"batch_size": 0}, ValueError, "batch_size"),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Loader(**{"dataset": MemoryDataset(10), "batch_size": 2, **arguments})


@pytest.mark.parametrize("loader", [Loader, StreamLoader, MapView])
def test_every_python_shows_all_options(loader: type) -> None:
    for function in (loader, loader.__init__):  # type: ignore[misc]
        shown = inspect.signature(function).parameters
        assert set(Options.__dataclass_fields__) < set(shown)
        assert not any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in shown.values())
        assert all(one.annotation for one in shown.values() if one.name != "self")
        assert (shown["seed"].default, shown["reducing_gap"].default) == (0, 2.0)
        if loader is not MapView:
            assert set(BatchOptions.__dataclass_fields__) < set(shown)
    assert "__signature__" not in vars(loader)
    with pytest.raises(TypeError, match=rf"{loader.__name__}\(\) got an unexpected .*'seeds': did you mean 'seed'"):
        loader(MemoryDataset(1), seeds=3)


def test_an_option_that_is_not_there_names_the_loader_and_the_nearest_option() -> None:
    with pytest.raises(TypeError, match=r"^Loader\(\) got .* 'batchsize': did you mean 'batch_size'\?"):
        Loader(MemoryDataset(1), batchsize=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^Loader\(\) missing 1 required positional argument: 'dataset'$"):
        Loader()  # type: ignore[call-arg]


def test_reprs_can_be_read() -> None:
    loader = Loader(MemoryDataset(20), 5, shuffle="blocks", seed=3, threads=2, rank=0, world_size=1)
    next(iter(loader))
    assert repr(loader).startswith("<bushel.Loader: batches of 5 from ")
    assert "order blocks(256,16)/1, seed 3, rank 0 of 1, 2 threads; epoch 0, 5 of 20 samples" in repr(loader)
    assert repr(loader.stats()).startswith("<bushel.loader.LoaderStats: 5 samples in 1 batches")
    assert "single samples" in repr(Loader(MemoryDataset(20), None, processes=1, threads=1))


def test_a_list_of_transforms_is_for_the_only_image_field() -> None:
    loader = Loader(MemoryDataset(4), 2, transforms=[])
    assert len(numbers(loader)) == 2

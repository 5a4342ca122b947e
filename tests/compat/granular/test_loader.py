import json
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.granular.points import fail_at_three, label, write

from bushel.compat import granular
from bushel.compat.granular.sources import permutation


class Numbers:
    """A source that counts its requests."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> dict[str, Any]:
        self.asked.append(index)
        return {"n": index}


def test_the_order_of_every_epoch(golden: Path) -> None:
    orders = json.loads((golden / "orders.json").read_text())["granular-0.20.3"]
    for row in orders["permutation"]:
        assert permutation(row["n"], row["seed"], row["epoch"]).tolist() == row["order"]
    for row in orders["loader"]:
        loader = granular.Loader(
            Numbers(row["n"]), row["batch"], shard_id=row["host"], num_shards=row["hosts"], seed=row["seed"], workers=2
        )
        seen: list[int] = []
        for batch in loader:
            seen += batch["n"].tolist()
            if len(seen) >= len(row["order"]):
                break
        assert seen == row["order"]
        assert loader.save() == row["state"]
        loader.close()


def test_without_shuffle(tmp_path: Path) -> None:
    with granular.Loader(Numbers(5), 3, shuffle=False, workers=2, prefetch=0) as loader:
        batches = iter(loader)
        assert [next(batches)["n"].tolist() for _ in range(4)] == [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1]]


def test_functions_get_arrays_and_a_seed_of_their_own(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)
    seeds: dict[int, Any] = {}

    def first(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        assert all(isinstance(value, np.ndarray) for value in datapoint.values())
        assert datapoint.keys() == {"foo", "bar", "baz", "abc", "xyz"}
        seeds[int(seed[1])] = seed
        return {"foo": datapoint["foo"], "image": datapoint["abc"]}

    def second(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {"twice": 2 * datapoint["foo"], "step": seed[1], "shape": datapoint["image"].shape}

    with granular.Loader(reader, 4, [first, second], seed=9, workers=3) as loader:
        spec: dict[str, Any] = dict(loader.spec)
        assert spec == {"twice": (np.int64, ()), "step": (np.int64, ()), "shape": (np.int64, (3,))}
        batches = iter(loader)
        found = [next(batches) for _ in range(3)]
    assert [batch["step"].tolist() for batch in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    order = [*permutation(10, 9, 0).tolist(), *permutation(10, 9, 1).tolist()]
    assert [n for batch in found for n in batch["twice"].tolist()] == [2 * n for n in order[:12]]
    assert found[0]["shape"].tolist() == [[60, 80, 3]] * 4
    assert all(seeds[step] == [9, step] for step in range(12))


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)
    found = []
    for workers, prefetch in ((1, 0), (2, 8), (64, 3)):
        with granular.Loader(reader, 6, [label], workers=workers, prefetch=prefetch, seed=2) as loader:
            batches = iter(loader)
            found.append([{key: value.tolist() for key, value in next(batches).items()} for _ in range(8)])
    assert found[0] == found[1] == found[2]


def test_resuming_is_exact_at_every_step(tmp_path: Path) -> None:
    with granular.Loader(Numbers(7), 3, workers=2, seed=1) as loader:
        batches, wanted, states = iter(loader), [], []
        for _ in range(9):
            states.append(loader.save())
            wanted.append(next(batches)["n"].tolist())
        for number, state in enumerate(states):
            loader.load(state)
            assert loader.save() == state
            assert [next(batches)["n"].tolist() for _ in range(9 - number)] == wanted[number:]
        loader.load({"step": 3, "seed": 4})
        assert next(batches)["n"].tolist() == permutation(7, 4, 0).tolist()[3:6]
        assert loader.save() == {"step": 6, "seed": 4}


def test_it_does_not_run_away(tmp_path: Path) -> None:
    source = Numbers(1000)
    with granular.Loader(source, 4, prefetch=2, workers=2) as loader:
        batches = iter(loader)
        for number in range(1, 6):
            next(batches)
            assert len(source.asked) <= 1 + 4 * (number + 3)  # one more for spec


def test_close_joins_its_threads() -> None:
    before = set(threading.enumerate())
    loader = granular.Loader(Numbers(100), 4, workers=8)
    next(iter(loader))
    assert set(threading.enumerate()) - before
    loader.close()
    loader.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(AssertionError, match="closed"):
        next(loader)


def test_recycled_arrays() -> None:
    with granular.Loader(Numbers(100), 2, recycle_after=3, workers=2, shuffle=False) as loader:
        batches = iter(loader)
        found = [next(batches)["n"] for _ in range(60)]
        assert len({id(array) for array in found}) < 20
        assert found[-1].tolist() == [18, 19]
    with granular.Loader(Numbers(100), 2, workers=2, shuffle=False) as loader:
        batches = iter(loader)
        found = [next(batches)["n"] for _ in range(60)]
        assert [array.tolist() for array in found] == [[2 * i % 100, 2 * i % 100 + 1] for i in range(60)]


def test_an_error_in_a_worker_reaches_the_reader(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), {**granular.decoders})

    def chosen(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return fail_at_three({"foo": datapoint["foo"]}, seed)

    before = set(threading.enumerate())
    loader = granular.Loader(reader, 4, [chosen], shuffle=False, workers=2)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: three") as error:
        next(iter(loader))
    assert isinstance(error.value.__cause__, ZeroDivisionError)
    assert set(threading.enumerate()) <= before


def test_datapoints_that_do_not_fit_together(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders)

    def ragged(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {"xyz": datapoint["xyz"]}

    with pytest.raises(RuntimeError, match=r"key 'xyz' has the shape \(\d+,\), where the first has \(1,\)"):
        next(granular.Loader(reader, 4, [ragged], workers=2))

    def fickle(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {f"key{int(datapoint['foo']) % 2}": datapoint["foo"]}

    with pytest.raises(RuntimeError, match="a datapoint with the keys key1, where the first has key0"):
        next(granular.Loader(reader, 4, [fickle], workers=2))

    def fraction(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {"n": datapoint["foo"] / 2 if datapoint["foo"] else 0}

    with pytest.raises(RuntimeError, match="key 'n' has the dtype float64, where the first has int64"):
        next(granular.Loader(reader, 4, [fraction], workers=2))

    def nothing(datapoint: dict[str, Any], seed: Any) -> Any:
        return None

    with pytest.raises(TypeError, match="where a datapoint is a dict"):
        next(granular.Loader(reader, 4, [nothing], workers=2))


def test_wrong_arguments() -> None:
    for wrong in ({"batch": 0}, {"batch": 2, "shard_id": 2, "num_shards": 2}, {"batch": 2, "prefetch": -1}):
        arguments: dict[str, Any] = wrong
        with pytest.raises(AssertionError):
            granular.Loader(Numbers(3), **arguments)
    with pytest.raises(AssertionError, match="no datapoints"):
        granular.Loader(Numbers(0), 3)
    with pytest.raises(TypeError, match="v24"):
        granular.Loader(lambda step: {"n": step}, 3)


def test_worker_processes(tmp_path: Path) -> None:
    reader = granular.DatasetReader(write(tmp_path / "d"), granular.decoders, cache_keys=("foo",))
    context = multiprocessing.get_context("spawn")
    with granular.Loader(reader, 4, [label], workers=2, prefetch=2) as threads:
        batches = iter(threads)
        wanted = [{key: value.tolist() for key, value in next(batches).items()} for _ in range(4)]
    with granular.Loader(reader, 4, [label], workers=2, prefetch=2, mp=context) as processes:
        batches = iter(processes)
        found = [{key: value.tolist() for key, value in next(batches).items()} for _ in range(4)]
        processes.load({"step": 0, "seed": 3})
        assert next(batches)["label"].tolist() == permutation(10, 3, 0)[:4].tolist()
    assert found == wanted
    assert not multiprocessing.active_children()


def test_a_fork_goes_on_by_itself() -> None:
    with granular.Loader(Numbers(10), 3, workers=2) as loader:
        next(loader)
        child = os.fork()
        if child == 0:
            right = next(loader)["n"].tolist() == [7, 3, 5] and loader.save() == {"step": 6, "seed": 0}
            loader.close()
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert next(loader)["n"].tolist() == [7, 3, 5]


def test_an_error_in_a_worker_process(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "d", {"foo": "int"}, granular.encoders) as writer:
        for number in range(5):
            writer.append({"foo": number})
    reader = granular.DatasetReader(tmp_path / "d", granular.decoders)
    context = multiprocessing.get_context("spawn")
    loader = granular.Loader(reader, 4, [fail_at_three], workers=1, shuffle=False, mp=context)
    with pytest.raises(RuntimeError, match="ZeroDivisionError: three"):
        next(iter(loader))
    assert not multiprocessing.active_children()

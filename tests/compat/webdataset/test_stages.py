"""Stages: what the script that the original runs too does not show."""

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel.compat.webdataset as wds
from bushel.compat.webdataset import filters


def test_the_order_of_shuffle_is_the_originals() -> None:
    assert list(filters._shuffle(range(10), 5, 3, seed=0)) == [3, 4, 0, 2, 8, 5, 9, 1, 7, 6]
    stage = wds.detshuffle(5, 3)
    assert list(stage.run(range(10))) == [3, 4, 0, 2, 8, 5, 9, 1, 7, 6]
    assert list(stage.run(range(10))) == [1, 5, 0, 2, 6, 4, 9, 3, 7, 8]


def test_orders_are_golden(golden: Path) -> None:
    orders = json.loads((golden / "orders.json").read_text())
    found = next(value for name, value in orders.items() if name.startswith("webdataset"))
    assert found
    for kind, cases in found.items():
        for case in cases:
            options = {name: case[name] for name in ("bufsize", "initial", "seed") if name in case}
            if kind == "shuffle":
                assert list(filters._shuffle(range(case["n"]), **options)) == case["order"], case
            elif kind == "detshuffle":
                epoch = case["epoch"] - 1
                assert list(wds.detshuffle(**options, epoch=epoch).run(range(case["n"]))) == case["order"], case


def test_shuffle_takes_a_seed_or_a_generator() -> None:
    assert sorted(filters._shuffle(range(10))) == list(range(10))
    assert list(filters._shuffle(range(10), 5, 3, rng=random.Random(0)))[:3] == [3, 4, 0]
    with pytest.raises(ValueError, match="not both"):
        list(filters._shuffle([], rng=random.Random(0), seed=0))


def test_stages_pickle_and_say_what_they_are() -> None:
    stage = wds.shuffle(5, initial=3, seed=0)
    assert repr(stage) == "<_shuffle (5,) {'initial': 3, 'seed': 0}>"
    assert list(pickle.loads(pickle.dumps(stage))(range(10)))[:3] == [3, 4, 0]


def test_a_function_becomes_a_stage() -> None:
    def every(data: Any, step: int) -> Any:
        """Take some."""
        return data[::step]

    stage = wds.pipelinefilter(every)
    assert stage.__doc__ == "Take some."
    assert list(stage(2)([1, 2, 3])) == [1, 3]


def test_map_leaves_out_none_and_keeps_the_key() -> None:
    source = [{"__key__": "a", "x": 1}, {"__key__": "b", "x": 2}]
    assert list(wds.map(lambda s: {"y": s["x"]} if s["x"] == 2 else None)(source)) == [{"y": 2, "__key__": "b"}]


@pytest.mark.parametrize(
    ("stage", "error", "message"),
    [
        (wds.map_dict(), ValueError, "at least one"),
        (wds.map_dict(x=3), TypeError, "takes a function"),
        (wds.map_tuple(3), TypeError, "takes functions"),
        (wds.map_tuple(len), TypeError, "call to_tuple before"),
        (wds.to_tuple("y"), ValueError, r"didn't find \['y'\] in \['__key__', 'x'\]"),
        (wds.extract_keys("*.y"), ValueError, "Cannot find"),
        (wds.extract_keys("*"), ValueError, "Multiple sample keys"),
        (wds.rename_keys(z="y*"), ValueError, "Not all patterns"),
        (wds.rename_keys(z="*"), ValueError, "Duplicate value"),
        (wds.rename(z="y"), ValueError, "didn't find"),
        (wds.xdecode(), ValueError, "No decoder found for x"),
        (wds.rsample(2), ValueError, "probability"),
        (wds.unlisted(), TypeError, "takes lists"),
    ],
)
def test_wrong_use(stage: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        list(stage([{"__key__": "a", "x": b"1"}]))


def test_none_is_no_value_of_a_tuple_unless_allowed() -> None:
    with pytest.raises(ValueError, match="None"):
        list(wds.to_tuple("x")([{"x": None}]))
    assert list(wds.to_tuple("x", "y", missing_is_error=False)([{"x": None}])) == [(None, None)]
    assert list(wds.to_tuple("x y;z")([{"x": 1, "z": 2}])) == [(1, 2)]


@pytest.mark.parametrize("handler", [wds.ignore_and_continue, wds.ignore_and_stop])
def test_handlers_go_on_or_stop(handler: Any) -> None:
    source = [{"x": i} for i in (1, 0, 2)]
    stages = [
        wds.map(lambda s: {"x": 2 // s["x"]}, handler=handler),
        wds.map_dict(x=lambda x: 2 // x, handler=handler),
        wds.DataPipeline([s["x"] for s in source]).iterator1,
    ]
    wanted = [2, 1] if handler is wds.ignore_and_continue else [2]
    for stage in stages[:2]:
        assert [sample["x"] for sample in stage([dict(s) for s in source])] == wanted  # type: ignore[operator]
    assert list(wds.map_tuple(lambda x: 2 // x, handler=handler)([(1,), (0,), (2,)])) == [(x,) for x in wanted]


def test_collation_stacks_numbers_and_arrays() -> None:
    batch = wds.default_collation_fn([(1, 2.5, "a", np.ones(2)), (2, 3.5, "b", np.zeros(2))])
    assert batch[0].tolist() == [1, 2]
    assert batch[1].dtype == np.float64
    assert batch[2] == ["a", "b"]
    assert batch[3].tolist() == [[1, 1], [0, 0]]
    as_dict = wds.default_collation_fn([{"__key__": "a", "n": 1}, {"__key__": "b", "n": 2}], combine_scalars=False)
    assert as_dict == {"__key__": ["a", "b"], "n": [1, 2]}
    with pytest.raises(ValueError, match="shapes must be equal"):
        wds.default_collation_fn([(np.ones(2),), (np.ones(3),)])
    with pytest.raises(ValueError, match="keys don't match"):
        wds.default_collation_fn([{"a": 1}, {"b": 1}])


def test_collation_stacks_tensors() -> None:
    torch = pytest.importorskip("torch")
    [batch] = wds.default_collation_fn([(torch.ones(2),), (torch.zeros(2),)])
    assert batch.tolist() == [[1, 1], [0, 0]]


@pytest.mark.parametrize(("partial", "sizes"), [(True, [4, 4, 2]), (False, [4, 4])])
def test_batches_and_lists(partial: bool, sizes: list[int]) -> None:
    source = [(i, str(i)) for i in range(10)]
    batches = list(wds.batched(4, partial=partial)(source))
    assert [len(batch[0]) for batch in batches] == sizes
    assert list(wds.unbatched()(batches)) == source[: sum(sizes)]
    lists = list(wds.batched(4, collation_fn=None, partial=partial)(source))
    assert list(filters.unlisted()(lists)) == source[: sum(sizes)]


def test_unbatching_refuses_uneven_batches() -> None:
    with pytest.raises(IndexError, match=r"\[1, 2\] values"):
        list(wds.unbatched()([([1], [1, 2])]))
    with pytest.raises(ValueError, match="unknown sample type"):
        list(wds.unbatched()([3]))


def test_info_prints_the_first_samples(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(list(wds.info(n=1, name="here")([{"a": 1}, {"a": 2}]))) == 2
    assert capsys.readouterr().err == "--- here\na 1\n"
    list(wds.info(fmt="a={a}", n=0, every=2)([{"a": 1}, {"a": 2}]))
    assert capsys.readouterr().err == "a=2\n"


def test_log_keys(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert len(list(wds.log_keys(str(log))([{"__key__": "a"}, {"__key__": "b", "__rank__": 1}]))) == 2
    assert log.read_text() == "0\tNone\tNone\ta\n1\tNone\t1\tb\n"
    assert list(wds.log_keys()([{"x": 1}])) == [{"x": 1}]


def test_associate_takes_a_function_too() -> None:
    assert list(wds.associate(lambda key: {"n": len(key)})([{"__key__": "abc"}])) == [{"__key__": "abc", "n": 3}]


def test_transform_with() -> None:
    assert wds.transform_with([1, 2, 3], [None, str]) == [1, "2", 3]
    assert wds.transform_with([1], None) == [1]
    with pytest.raises(ValueError, match="2 functions for 1 values"):
        wds.transform_with([1], [str, str])


def test_xdecode_gives_streams_to_the_last_match() -> None:
    sample = {"__key__": "a", "x.txt": b"t", "bin": b"b", "y": 3, "keep": b"k"}
    stage = wds.xdecode(("*.txt", lambda s: s.read().upper()), ("keep", False), y=lambda v: v + 1)
    assert list(stage([sample])) == [{"__key__": "a", "x.txt": b"T", "bin": b"b", "y": 4, "keep": b"k"}]


def test_a_cache_is_used_once_it_is_whole() -> None:
    stage, runs = wds.Cached(), []

    def source() -> Any:
        runs.append(1)
        yield from range(3)

    iterator = stage.run(source())
    next(iterator)
    assert list(stage.run(source())) == [0, 1, 2]
    assert list(stage.run(source())) == [0, 1, 2]
    assert len(runs) == 2


def test_a_cache_in_lmdb_keeps_equal_keys_and_the_order(tmp_path: Path) -> None:
    pytest.importorskip("lmdb")
    samples = [{"__key__": key, "n": n} for n, key in enumerate("caba")]
    stage = wds.LMDBCached(str(tmp_path / "db"), map_size=1e7, chunksize=2)
    assert list(stage.run(iter(samples))) == samples
    assert stage.is_complete()
    assert list(stage.run(iter([]))) == samples
    stage.close()


def test_repeating() -> None:
    assert list(wds.repeatedly([1, 2], nepochs=2)) == [1, 2, 1, 2]
    assert list(wds.repeatedly([1, 2], nbatches=3)) == [1, 2, 1]
    assert list(wds.repeatedly([([1, 2],), ([3],)], nsamples=4)) == [([1, 2],), ([3],), ([1, 2],)]
    assert list(wds.repeatedly([])) == []


def test_mixing_needs_a_probability_for_each() -> None:
    with pytest.raises(ValueError, match="1 probabilities for 2"):
        list(wds.RandomMix([[1], [2]], probs=[1]))
    assert list(wds.RandomMix([[1, 2], [3]], probs=[1, 0], longest=True)) == [1, 2]
    assert list(wds.RoundRobin([])) == []
    assert list(wds.RoundRobin([[1, 2, 3], [4]])) == [1, 4, 2]
    assert list(wds.RoundRobin([[1, 2, 3], [4]], longest=True)) == [1, 4, 2, 3]


def test_datasets_for_tests() -> None:
    assert list(wds.MockDataset("x", 3)) == ["x"] * 3
    stretched = wds.with_epoch([1, 2, 3], 2)
    assert [list(stretched) for _ in range(3)] == [[1, 2], [3, 1], [2, 3]]
    assert list(wds.with_epoch([], 2)) == []
    assert pickle.loads(pickle.dumps(stretched)).source is None
    assert len(wds.with_length([1], 7)) == 7
    assert list(wds.with_length([1], 7)) == [1]

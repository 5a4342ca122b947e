"""Mixtures with names: where samples come from, weights that change, transforms, resuming with another future."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import write

import bushel
from bushel.errors import StateError


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bushel.Dataset]:
    root = tmp_path_factory.mktemp("mixtures")
    return {name: numbered(root / name, size, 1000 * place) for place, (name, size) in enumerate(SIZES.items())}


SIZES = {"web": 60, "code": 40, "news": 30}


def numbered(path: Path, size: int, first: int) -> bushel.Dataset:
    with bushel.Writer(path, {"label": "int", "vector": "array(float32,3)"}, container="bag") as writer:
        for number in range(size):
            writer.append({"label": first + number, "vector": np.full(3, number, np.float32)}, key=f"{first + number}")
    return bushel.open(path)


def labels(loader: Any) -> list[int]:
    return [int(label) for batch in loader for label in batch["label"]]


def source_of(label: int) -> str:
    return list(SIZES)[label // 1000]


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1, "threads": 1}])
@pytest.mark.parametrize("fields", [None, ["label"]])
def test_samples_say_where_they_are_from(sets: dict[str, bushel.Dataset], options: Any, fields: Any) -> None:
    mixture = bushel.mix(sets, weights={"web": 0.5, "code": 0.3, "news": 0.2}, seed=3, until=200)
    assert "3 changes" not in repr(mixture)
    assert "'web' of 60, 'code' of 40, 'news' of 30 samples by 0.5 : 0.3 : 0.2; 200 samples per epoch" in repr(mixture)
    loader = bushel.Loader(mixture, 16, fields=fields, **options)
    batches = list(loader)
    for batch in batches:
        assert batch["__source__"] == [source_of(label) for label in batch["label"].tolist()]
    drawn = [name for batch in batches for name in batch["__source__"]]
    assert {name: drawn.count(name) for name in sets} == {"web": 100, "code": 60, "news": 40}
    for single in bushel.Loader(mixture, keys=False):
        assert single["__source__"] == source_of(single["label"])
        assert "__key__" not in single


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("threads", [0, 2])
def test_stored_samples_say_where_they_are_from(tmp_path: Path, threads: int, batch_size: int | None) -> None:
    parts = {}
    for name in "ab":
        with bushel.Writer(tmp_path / name, {"numbers": "int[]"}, container="bag") as writer:
            for number in range(8):
                writer.append({"numbers": [number]}, key=f"{name}{number}")
        parts[name] = bushel.open(tmp_path / name)
    mixture = bushel.mix(parts, {"a": 1, "b": 1})
    for item in bushel.Loader(mixture, batch_size, decode=False, threads=threads):
        keys = item["__key__"] if batch_size else [item["__key__"]]
        names = item["__source__"] if batch_size else [item["__source__"]]
        assert names == [key[0] for key in keys]


def test_an_epoch_ends_with_a_dataset(sets: dict[str, bushel.Dataset]) -> None:
    weights = {"web": 0.5, "code": 0.3, "news": 0.2}
    first = labels(bushel.Loader(bushel.mix(sets, weights=weights), 8))
    assert len(set(first)) == len(first)
    assert abs(len(first) - 120) <= 1  # all of web at one half
    every = labels(bushel.Loader(bushel.mix(sets, weights, until="all"), 8))
    assert len(set(every)) == 130
    assert len(set(every[:-1])) == 129
    with pytest.raises(ValueError, match="'news' is never read completely"):
        bushel.mix(sets, {"web": 1, "code": 1, "news": 0}, until="all")


def test_weights_change_on_the_sample(sets: dict[str, bushel.Dataset]) -> None:
    schedule: Any = [(0, {"web": 1}), (50, {"web": 0.5, "code": 0.5}), (150, {"news": 1})]
    drawn = [source_of(each) for each in labels(bushel.Loader(bushel.mix(sets, schedule=schedule, until=200), 8))]
    assert set(drawn[:50]) == {"web"}
    assert set(drawn[150:]) == {"news"}
    for place in range(50, 151):
        assert abs(drawn[50:place].count("code") - (place - 50) / 2) < 1
    ramp = [(0, {"web": 1}), (200, {"code": 1})]
    drawn = [
        source_of(each) for each in labels(bushel.Loader(bushel.mix(sets, schedule=ramp, ramp=True, until=400), 8))
    ]
    for place in range(0, 201, 10):
        assert abs(drawn[:place].count("code") - place * place / 400) < 2
    assert set(drawn[201:]) == {"code"}


def negative(label: int) -> int:
    return -label


def noisy(vector: Any, rng: np.random.Generator) -> Any:
    return vector + rng.random(3, np.float32)


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1, "threads": 1}])
def test_transforms_of_a_source(sets: dict[str, bushel.Dataset], options: Any) -> None:
    mixture = bushel.mix(
        sets, {"web": 1, "code": 1, "news": 1}, until=90, transforms={"code": {"label": negative}, "news": {}}
    )
    loader = bushel.Loader(mixture, 8, transforms={"vector": noisy}, **options)
    for batch in loader:
        for label, vector, name in zip(batch["label"], batch["vector"], batch["__source__"], strict=True):
            assert (label < 0 or label == 1000) == (name == "code")
            assert (vector % 1 != 0).any() == (name == "web")
    whole = [batch["vector"].tolist() for batch in bushel.Loader(mixture, 8, transforms={"vector": noisy})]
    assert whole == [
        batch["vector"].tolist() for batch in bushel.Loader(mixture, 8, transforms={"vector": noisy}, **options)
    ]


def test_mixtures_are_mixed_again(sets: dict[str, bushel.Dataset]) -> None:
    text = bushel.mix({"web": sets["web"], "news": sets["news"]}, {"web": 1, "news": 1}, seed=1, until=60)
    parts: dict[str, Any] = {"text": text, "code": sets["code"]}
    both = bushel.mix(parts, {"text": 0.5, "code": 0.5}, until=80)
    drawn = [name for batch in bushel.Loader(both, 8) for name in batch["__source__"]]
    assert {name: drawn.count(name) for name in set(drawn)} == {"text/web": 20, "text/news": 20, "code": 40}
    assert isinstance(both.dataset, bushel.Dataset)
    assert labels(bushel.Loader(both, 8)) == [
        int(label) for label in both.dataset.column("label")[both.order.take(0, np.arange(80))]
    ]


def test_resume_with_the_same_past(sets: dict[str, bushel.Dataset]) -> None:
    before: dict[str, Any] = {"schedule": [(0, {"web": 1}), (40, {"web": 1, "code": 1})], "until": 120}
    whole = bushel.Loader(bushel.mix(sets, **before), 8)
    seen, state = [], {}
    for batch in whole:
        seen += batch["label"].tolist()
        if len(seen) == 64:
            state = whole.state_dict()
            break
    for rank in range(2):  # the same future, on two ranks
        same = bushel.Loader(bushel.mix(sets, **before), 4, rank=rank, world_size=2)
        same.load_state_dict(state)
        full = labels(bushel.Loader(bushel.mix(sets, **before), 8))
        wanted = [full[at : at + 4] for at in range(64 + 4 * rank, 120, 8)]
        assert labels(same) == [label for part in wanted for label in part]
    after = {**before, "schedule": [*before["schedule"], (64, {"news": 1})]}
    other = bushel.Loader(bushel.mix(sets, **after), 8)
    other.load_state_dict(state)
    assert {source_of(label) for label in labels(other)} == {"news"}
    assert labels(bushel.Loader(bushel.mix(sets, **after), 8))[:64] == seen
    for schedule, says in (
        ([(0, {"web": 1}), (40, {"web": 1, "code": 1}), (63, {"news": 1})], "from sample 63 on, and 64 were drawn"),
        ([(0, {"web": 1}), (39, {"web": 1, "code": 1})], "from sample 39 on"),
        ([(0, {"web": 1}), (40, {"web": 1, "code": 2})], "from sample 40 on"),
    ):
        with pytest.raises(StateError, match=says):
            bushel.Loader(bushel.mix(sets, schedule=schedule, until=120), 8).load_state_dict(state)
    later = {**state, "epoch": 1, "samples": 8}
    with pytest.raises(StateError, match="give until=120"):
        bushel.Loader(bushel.mix(sets, **{**before, "until": 121}), 8).load_state_dict(later)
    with pytest.raises(StateError, match="another dataset"):
        bushel.Loader(bushel.mix({**sets, "news": sets["web"]}, **before), 8).load_state_dict(state)
    first = str(state["version"]).removesuffix("2") + "1"  # of the mixtures before the first release
    with pytest.raises(StateError, match="but this loader has 'scheduled"):
        bushel.Loader(bushel.mix(sets, **before), 8).load_state_dict({**state, "version": first})
    with pytest.raises(StateError, match="the order 'exact/1'"):
        bushel.Loader(bushel.mix(sets, **before), 8).load_state_dict({**state, "version": "exact/1"})


def test_packs_of_a_schedule_resume_with_another_future(tmp_path: Path) -> None:
    ds = write(tmp_path / "a", [(number * 7) % 30 + 1 for number in range(3000)], container="bag")
    sets = {"a": ds[:1500], "b": ds[1500:]}
    options: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": 64}
    loader = bushel.Loader(bushel.mix(sets, {"a": 1, "b": 0}, until=9000), 8, **options)
    first = next(iter(loader))
    assert first["__source__"][0] == ["a"] * len(first["__key__"][0])
    state = loader.state_dict()
    later = bushel.Loader(bushel.mix(sets, schedule=[(0, {"a": 1}), (4096, {"b": 1})], until=9000), 8, **options)
    later.load_state_dict(state)
    assert later.peek()["__key__"] == loader.who(1)
    sooner = bushel.Loader(bushel.mix(sets, schedule=[(0, {"a": 1}), (4095, {"b": 1})], until=9000), 8, **options)
    with pytest.raises(StateError, match="from sample 4095 on, and 4096 were drawn"):
        sooner.load_state_dict(state)


def test_mistakes_are_explained(sets: dict[str, bushel.Dataset]) -> None:
    one = {"web": 1.0, "code": 1.0, "news": 1.0}
    for given, options, error, says in (
        (sets, {}, ValueError, "needs weights= or schedule="),
        (sets, {"weights": one, "schedule": [(0, one)]}, ValueError, "and not both"),
        (sets, {"weights": {"wb": 1}}, KeyError, "'wb', which is not mixed"),
        (sets, {"weights": {"web": 1}}, KeyError, "weights= has no weight for 'code': 0 leaves it out"),
        (sets, {"weights": {"web": -1}}, ValueError, "invalid weights"),
        (sets, {"weights": {"web": 0}}, ValueError, "one above 0"),
        (sets, {"weights": [1, 2]}, TypeError, "expected a mapping"),
        (sets, {"schedule": [(5, one)]}, ValueError, "from 0 samples on"),
        (sets, {"schedule": [(0, one), (9, one), (9, one)]}, ValueError, "ascending"),
        (sets, {"weights": one, "transforms": {"dog": {}}}, KeyError, "'dog'"),
        (sets, {"weights": one, "until": "last"}, ValueError, "unknown until="),
        ({}, {"weights": {}}, ValueError, "needs datasets"),
        (list(sets.values()), {"weights": one}, TypeError, "takes a mapping of names"),
        ({"a/b": sets["web"]}, {"weights": {"a/b": 1}}, TypeError, "without '/'"),
        ({"a": sets["web"].map(dict)}, {"weights": {"a": 1}}, TypeError, "'a' is a Mapped"),
        ({"a": sets["web"][:0]}, {"weights": {"a": 1}}, ValueError, "empty: 'a'"),
        ({sets["web"]: 1.0}, {}, TypeError, "weights by name: write bushel.mix"),
        ({"": sets["web"]}, {"weights": {"": 1}}, TypeError, "takes a mapping of names"),
    ):
        arguments: Any = given
        keywords: dict[str, Any] = {**options}
        with pytest.raises(error, match=says):
            bushel.mix(arguments, **keywords)
    with pytest.raises(ValueError, match="at most"):
        bushel.mix(sets, schedule=[(0, {"web": 1}), (1 << 47, {"code": 1})], ramp=True)

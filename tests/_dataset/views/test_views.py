from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests._dataset.views.models import CONTAINERS, SPARSE, Sample, expected, make_samples, opened, plain, write

import bushel
from bushel._dataset.views.dataset import Dataset

NAMES = ("label", "text", "parts")


class Views(RuleBasedStateMachine):
    """A dataset and its views do what a list of dicts does."""

    datasets: Callable[[], list[tuple[Dataset, list[Sample]]]]

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        self.view, self.model = data.draw(st.sampled_from(self.datasets()))
        self.names = list(self.view.spec)

    def some(self, data: st.DataObject) -> list[int]:
        size = len(self.model)
        return data.draw(st.lists(st.integers(-size, size - 1), max_size=9)) if size else []

    def shown(self, samples: list[Sample]) -> list[Sample]:
        return [{n: v for n, v in sample.items() if n in self.names or n == "__key__"} for sample in samples]

    # Views of views

    @rule(data=st.data())
    def slice(self, data: st.DataObject) -> None:
        part = data.draw(st.slices(len(self.model)))
        self.view, self.model = self.view[part], self.model[part]

    @rule(data=st.data(), kind=st.sampled_from([list, tuple, np.array]))
    def choose(self, data: st.DataObject, kind: Any) -> None:
        positions = self.some(data)
        if kind is tuple:
            self.view = self.view[iter(positions)]  # type: ignore[call-overload]
        else:
            self.view = self.view[kind(positions)]
        self.model = [self.model[position] for position in positions]

    @rule(data=st.data(), as_array=st.booleans())
    def mask(self, data: st.DataObject, as_array: bool) -> None:
        size = len(self.model)
        bits = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
        self.view = self.view[np.array(bits, np.bool_) if as_array else bits]
        self.model = [sample for sample, bit in zip(self.model, bits, strict=True) if bit]

    @rule(data=st.data())
    def select(self, data: st.DataObject) -> None:
        keys = [self.model[position]["__key__"] for position in self.some(data)]
        self.view = self.view.select_keys(keys)
        firsts = [next(sample for sample in self.model if sample["__key__"] == key) for key in keys]
        self.model = firsts

    @rule(modulus=st.integers(1, 3))
    def filter(self, modulus: int) -> None:
        mask = ["label"] if "label" in self.names else []
        self.view = self.view.filter(lambda sample: sample.get("label", 0) % modulus == 0, mask)
        kept = self.shown(self.model)
        self.model = [
            whole for whole, seen in zip(self.model, kept, strict=True) if seen.get("label", 0) % modulus == 0
        ]

    @rule(data=st.data())
    def shard(self, data: st.DataObject) -> None:
        count = data.draw(st.integers(1, 3))
        parts = [self.view.shard(number, count) for number in range(count)]
        lengths = [len(part) for part in parts]
        assert sum(lengths) == len(self.model)
        assert max(lengths) - min(lengths) <= 1
        number = data.draw(st.integers(0, count - 1))
        start = sum(lengths[:number])
        self.view, self.model = parts[number], self.model[start : start + lengths[number]]

    @rule(data=st.data())
    def fields(self, data: st.DataObject) -> None:
        self.names = data.draw(st.lists(st.sampled_from(self.names), unique=True)) if self.names else []
        self.view = self.view.select_fields(self.names)

    @precondition(lambda self: len(self.model) < 60)
    @rule(again=st.slices(8), before=st.booleans())
    def concat(self, again: Any, before: bool) -> None:
        more, model = self.view[again], self.model[again]
        self.view = bushel.concat([more, self.view] if before else [self.view, more])
        self.model = model + self.model if before else self.model + model

    @rule()
    def pickle(self) -> None:
        self.view = pickle.loads(pickle.dumps(self.view))

    @rule()
    def close(self) -> None:
        self.view.close()

    # What they hold

    @invariant()
    def has_the_same_keys(self) -> None:
        keys = [sample["__key__"] for sample in self.model]
        assert len(self.view) == len(keys)
        assert list(self.view.spec) == self.names
        assert list(self.view.keys) == keys
        for key in keys[:3]:
            assert self.view.position(key) == keys.index(key)
        assert "k9/9" not in self.view

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        positions = self.some(data)
        wanted = [self.model[position] for position in positions]
        assert plain(self.view.read(positions)) == self.shown(wanted)
        if positions:
            [position, *_] = positions
            assert plain(self.view[position]) == self.shown(wanted)[0]
            key = wanted[0]["__key__"]
            first = next(sample for sample in self.model if sample["__key__"] == key)
            assert plain(self.view[key]) == self.shown([first])[0]

    @rule()
    def iterate(self) -> None:
        assert plain(list(self.view)) == self.shown(self.model)

    @precondition(lambda self: "parts" in self.names)
    @rule(data=st.data(), part=st.slices(5))
    def parts_of_sequences(self, data: st.DataObject, part: Any) -> None:
        positions = self.some(data)
        found = self.view.read(positions, {"parts": part})
        for sample, position in zip(found, positions, strict=True):
            model = self.model[position]
            assert sample["__key__"] == model["__key__"]
            assert ("parts" in sample) == ("parts" in model)
            assert plain(sample.get("parts")) == (model["parts"][part] if "parts" in model else None)

    @precondition(lambda self: "parts" in self.names and any(sample.get("parts") for sample in self.model))
    @rule(data=st.data(), as_range=st.booleans())
    def numbered_elements(self, data: st.DataObject, as_range: bool) -> None:
        full = [position for position, sample in enumerate(self.model) if sample.get("parts")]
        position = data.draw(st.sampled_from(full))
        parts = self.model[position]["parts"]
        numbers: Any = data.draw(st.lists(st.integers(-len(parts), len(parts) - 1), max_size=6))
        if as_range:
            numbers = range(len(parts) - 1, -1, -data.draw(st.integers(1, 3)))
        found = self.view[position, {"parts": numbers}]
        assert plain(found["parts"]) == [parts[number] for number in numbers]
        with pytest.raises(IndexError, match="elements has no elements"):
            self.view[position, {"parts": [len(parts)]}]

    @rule(data=st.data())
    def available(self, data: st.DataObject) -> None:
        for position in self.some(data)[:2]:
            sample = self.shown([self.model[position]])[0]
            found = {
                name: range(len(v)) if name == "parts" else True for name, v in sample.items() if name != "__key__"
            }
            assert self.view.available(position) == found

    @precondition(lambda self: "text" in self.names)
    @rule(data=st.data())
    def gather(self, data: st.DataObject) -> None:
        positions = self.some(data)
        buffer, offsets = self.view.gather(positions, "text")
        found = [buffer[a:b].tobytes() for a, b in zip(offsets[:-1], offsets[1:], strict=True)]
        raw = self.view.read(positions, ["text"], decode=False)
        assert found == [sample.get("text", b"") for sample in raw]
        if self.view.info.container != "gulp":
            assert found == [self.model[position].get("text", "").encode() for position in positions]

    @rule(data=st.data())
    def errors(self, data: st.DataObject) -> None:
        size = len(self.model)
        position = data.draw(st.sampled_from([size, -size - 1, 10**12, -(10**12), 2**63, 2**64 - 1, -(2**63), 10**30]))
        for use in (
            lambda: self.view[position],
            lambda: self.view.read([position]),
            lambda: self.view[[position]],
            lambda: self.view.available(position),
            lambda: self.view[range(position, position + 1)],
        ):
            with pytest.raises(IndexError, match=f"{size} samples"):
                use()
        with pytest.raises(KeyError, match="no sample"):
            self.view["no such key"]
        with pytest.raises(KeyError, match="unknown field"):
            self.view.select_fields(["no such field"])


@pytest.mark.parametrize("container", CONTAINERS)
def test_views_are_lists(container: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp(container)

    @cache
    def datasets() -> list[tuple[Dataset, list[Sample]]]:
        made = []
        for number, shard in enumerate((5, None)):
            samples = make_samples(container, 14, seed=number)
            made.append(
                (write(folder / str(number), container, samples, shard_samples=shard), expected(container, samples))
            )
        return made

    machine = type("Views", (Views,), {"datasets": staticmethod(datasets)})
    examples = max(10, settings().max_examples // 2)
    run_state_machine_as_test(machine, settings=settings(max_examples=examples, stateful_step_count=15, deadline=None))


@pytest.mark.parametrize("container", SPARSE)
def test_samples_without_a_sequence_beside_empty_ones(tmp_path: Path, container: str) -> None:
    samples: list[Sample] = [
        {"__key__": "a", "label": 1, "parts": []},
        {"__key__": "b", "label": 2},
        {"__key__": "c", "label": 3, "parts": [b""]},
        {"__key__": "d", "text": ""},
    ]
    dataset = write(tmp_path / "ds", container, samples)
    assert list(dataset) == samples
    assert [dataset.available(number) for number in range(4)] == [
        {"label": True, "parts": range(0)},
        {"label": True},
        {"label": True, "parts": range(1)},
        {"text": True},
    ]
    assert dataset.read([1, 3, 2], {"parts": [0]}) == [
        {"__key__": "b"},
        {"__key__": "d"},
        {"__key__": "c", "parts": [b""]},
    ]


def keyed_and_not(tmp_path: Path) -> Iterator[Dataset]:
    for name, keys in (("keyed", ["7", "x", "1"]), ("plain", [None] * 4)):
        with bushel.Writer(tmp_path / name, {"label": "int"}, container="bag", sync=False) as writer:
            for number, key in enumerate(keys):
                writer.append({"label": number}, key=key)
        dataset = bushel.open(tmp_path / name)
        yield dataset


def test_the_first_of_several_samples_with_a_key(tmp_path: Path) -> None:
    keyed, plain_ = keyed_and_not(tmp_path)
    for both, keys in (
        (bushel.concat([keyed, plain_, plain_]), ["7", "x", "1", "3", "4", "5", "6", "7", "8", "9", "10"]),
        (bushel.concat([plain_, keyed]), ["0", "1", "2", "3", "7", "x", "1"]),
    ):
        for view, shown in ((both, keys), (both[::-1], keys[::-1]), (both[list(range(len(keys)))[::-1]], keys[::-1])):
            assert list(view.keys) == shown
            for key in {*keys, "11", "01", "9" * 5000, "\ud800"}:
                assert (key in view) == (key in keys)
                if key in keys:
                    assert view.position(key) == shown.index(key)


def test_a_mask_goes_with_one_sample(tmp_path: Path) -> None:
    [dataset, _] = keyed_and_not(tmp_path)
    for several in (slice(2), [0, 1], np.array([0, 1]), range(2)):
        with pytest.raises(TypeError, match="one sample"):
            dataset[several, ["label"]]  # type: ignore[index]


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.uint64, np.int64, object])
def test_positions_of_every_kind_of_integer(tmp_path: Path, kind: Any) -> None:
    [dataset, _] = keyed_and_not(tmp_path)
    assert [sample["label"] for sample in dataset.read(np.array([2, 0, 2], kind))] == [2, 0, 2]
    with pytest.raises(IndexError):
        dataset.read(np.array([3], kind))


@pytest.mark.parametrize("wrong", [[0.0], ["0"], [None], [[0]], np.zeros((1, 1), int), np.array([0.0]), [object()]])
def test_positions_that_are_none(tmp_path: Path, wrong: Any) -> None:
    [dataset, _] = keyed_and_not(tmp_path)
    with pytest.raises(TypeError):
        dataset.read(wrong)


def test_a_range_is_checked_before_it_is_spelt_out(tmp_path: Path) -> None:
    [dataset, _] = keyed_and_not(tmp_path)
    with pytest.raises(IndexError):
        dataset.read(range(10**15))
    assert dataset.read(range(5, 5)) == []
    assert [sample["label"] for sample in dataset.read(range(2, -1, -2))] == [2, 0]


def test_fields_of_views_that_are_joined(tmp_path: Path) -> None:
    write(tmp_path / "a", "bag", make_samples("bag", 2))
    write(tmp_path / "b", "bag", make_samples("bag", 2, seed=1))
    a, b = opened(tmp_path / "a"), opened(tmp_path / "b")
    both = bushel.concat([a.select_fields(["label"]), b])
    assert set(both[0]) == {"__key__", "label"}
    assert set(both[2]) == {"__key__", "label", "text", "parts"}


def test_a_list_of_samples_stays_after_an_append_and_never_shows_others(tmp_path: Path) -> None:
    path = tmp_path / "data"

    def write(mode: Any, first: int, factor: int) -> None:
        with bushel.Writer(path, {"x": "int"}, container="bag", shard_samples=4, mode=mode) as writer:
            for number in range(first, first + 8):
                writer.append({"x": number * factor}, key=str(number))

    write("create", 0, 1)
    bushel.open(path)[[6, 1]].save_view("some")
    write("append", 8, 1)
    assert [sample["x"] for sample in bushel.open(path, view="some")] == [6, 1]
    write("overwrite", 0, -1)  # the same keys, and other samples
    with pytest.raises(bushel.errors.StateError, match="stale"):
        bushel.open(path, view="some")
    with pytest.warns(UserWarning, match="0 are left"):
        assert not len(bushel.open(path, view="some", allow_stale=True))

"""Bad samples: raised with their key, skipped, or replaced, and listed once."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import MemoryDataset, refuse_seven

import bushel
from bushel.errors import CorruptError, FormatError, SpecError, TooManyErrors
from bushel.loader import BadSample, Exact, Loader
from bushel.loader.decode.micro_batch import micro_batches
from bushel.loader.run import pipeline
from bushel.loader.values.bad_samples import OnError
from bushel.transforms import RandomResizedCrop, Resize


def damaged(samples: int = 30) -> MemoryDataset:
    return MemoryDataset(samples, unreadable=[3, 12], undecodable=[4])


@pytest.mark.parametrize("threads", [0, 2])
def test_an_unreadable_sample_is_raised_with_its_key(threads: int) -> None:
    loader = Loader(damaged(), 5, threads=threads)
    with pytest.raises(CorruptError, match="bad crc") as caught:
        list(loader)
    assert caught.value.key == "key 3"
    assert caught.value.__notes__ == ["sample 'key 3' (position 3 of the dataset)"]


@pytest.mark.parametrize("threads", [0, 2])
def test_an_error_in_a_transform_is_raised_with_its_own_traceback(threads: int) -> None:
    loader = Loader(MemoryDataset(30), 5, threads=threads, transforms={"number": [refuse_seven]})
    iterator = iter(loader)
    assert next(iterator)["number"].tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(KeyError, match="seven") as caught:
        next(iterator)
    assert caught.traceback[-1].name == "refuse_seven"
    assert "field 'number'" in caught.value.__notes__[0]
    assert "'key 7' (position 7" in caught.value.__notes__[1]


@pytest.mark.parametrize("threads", [0, 3])
def test_skip_leaves_bad_samples_out(threads: int) -> None:
    loader = Loader(damaged(), 5, threads=threads, on_error="skip", transforms={"number": [refuse_seven]})
    name = "tests.loader.memory_dataset.refuse_seven"
    assert [batch["number"].tolist() for batch in loader][:3] == [[0, 1, 2], [5, 6, 8, 9], [10, 11, 13, 14]]
    assert loader.errors == [
        BadSample(3, "key 3", "number", "memory.bin", 24, "CorruptError: memory.bin@24: bad crc"),
        BadSample(4, "key 4", None, "memory.bin", 32, "ValueError: no number"),
        BadSample(7, "key 7", None, "memory.bin", 56, f"KeyError: 'seven' (in the transform {name} of field 'number')"),
        BadSample(12, "key 12", "number", "memory.bin", 96, "CorruptError: memory.bin@96: bad crc"),
    ]
    list(loader)
    assert [bad.sample for bad in loader.errors] == [3, 4, 7, 12]
    assert str(loader.errors[1]) == "sample 'key 4' (memory.bin@32): ValueError: no number"


def test_a_batch_of_bad_samples_only_is_passed_over() -> None:
    loader = Loader(MemoryDataset(6, unreadable=[2, 3]), 2, on_error="skip")
    assert [batch["number"].tolist() for batch in loader] == [[0, 1], [4, 5]]
    assert loader.state_dict()["epoch"] == 1


@pytest.mark.parametrize("threads", [0, 1, 4])
def test_replace_takes_the_next_good_sample_of_the_order(threads: int) -> None:
    order = Exact(30, 2).take(0, np.arange(30)).tolist()
    bad = {order[4], order[5], order[29], order[0]}
    loader = Loader(MemoryDataset(30, unreadable=bad), 5, shuffle=True, seed=2, threads=threads, on_error="replace")
    expected = list(order)
    expected[4] = expected[5] = order[6]
    expected[29] = expected[0] = order[1]
    assert sum((batch["number"].tolist() for batch in loader), []) == expected
    assert {error.sample for error in loader.errors} == bad


def test_replace_keeps_the_steps_of_all_ranks_equal_and_is_the_same_for_any_world_size() -> None:
    def whole(world_size: int) -> list[int]:
        ranks = []
        for rank in range(world_size):
            loader = Loader(
                MemoryDataset(48, range(0, 48, 5), [7]),
                24 // world_size,
                shuffle=True,
                rank=rank,
                world_size=world_size,
                on_error="replace",
            )
            ranks.append([batch["number"].tolist() for batch in loader])
            assert [len(batch) for batch in ranks[-1]] == [24 // world_size] * 2
        return [number for step in zip(*ranks, strict=True) for batch in step for number in batch]

    assert whole(4) == whole(2) == whole(1)


def test_known_bad_samples_are_not_read_again(tmp_path: Path) -> None:
    first = Loader(damaged(), 5, shuffle=True, on_error="replace")
    batches = [batch["number"].tolist() for batch in first]
    first.write_errors(tmp_path / "bad.jsonl")
    for exclude in (tmp_path / "bad.jsonl", str(tmp_path / "bad.jsonl"), first.errors, ["key 3", "key 4", "key 12"]):
        dataset = MemoryDataset(30)
        again = Loader(dataset, 5, shuffle=True, on_error="replace", exclude=exclude)
        assert [batch["number"].tolist() for batch in again] == batches
        assert again.errors == []
    dataset = MemoryDataset(30)
    skipping = Loader(dataset, 5, exclude=["key 1"])
    assert next(iter(skipping))["number"].tolist() == [0, 2, 3, 4]


@pytest.mark.parametrize(
    ("exclude", "error", "says"),
    [
        ([-1], ValueError, "exclude=-1: expected a whole number from 0 to 29, a position"),
        ([30], ValueError, "exclude=30: expected a whole number from 0 to 29, a position"),
        ([True], TypeError, "exclude=True"),
        (3, TypeError, "exclude=3: expected keys, positions, entries of a loader's errors, or the path"),
        (None, TypeError, "exclude=None: expected keys"),
        ("disc/00", FileNotFoundError, r"no such list .*; give the keys of samples in a list: exclude=\['disc/00'\]"),
    ],
)
def test_samples_that_cannot_be_left_out_are_refused(exclude: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        Loader(MemoryDataset(30), 5, exclude=exclude)


def test_positions_of_numpy_are_left_out() -> None:
    loader = Loader(MemoryDataset(30), 5, exclude=np.array([0, 2]))
    assert next(iter(loader))["number"].tolist() == [1, 3, 4]


@pytest.mark.parametrize("line", ["nonsense", "[]", "{}", '{"name": 1}'])
def test_a_broken_list_of_bad_samples_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "bad.jsonl").write_text('{"key": "key 3"}\n' + line + "\n")
    with pytest.raises(FormatError, match=r"bad.jsonl@17: .*JSON"):
        Loader(damaged(), 5, exclude=tmp_path / "bad.jsonl")


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_there_is_a_limit(on_error: OnError) -> None:
    exact = Loader(damaged(), 5, on_error=on_error, max_errors=3)
    assert len(list(exact)) == len(list(exact)) == 6
    loader = Loader(damaged(), 5, on_error=on_error, max_errors=2)
    with pytest.raises(TooManyErrors, match=r"3 bad samples, but max_errors=2.*the last is sample 'key \d+'"):
        list(loader)


def test_nothing_replaces_when_nothing_is_good() -> None:
    with pytest.raises(TooManyErrors, match="all samples of epoch 0 are bad, such as sample 'key"):
        list(Loader(MemoryDataset(5, range(5)), 2, on_error="replace", max_errors=None))


def test_what_is_drawn_is_bad_and_not_all() -> None:
    weights = [1.0] + [0.0] * 9
    with pytest.raises(TooManyErrors, match="all samples that epoch 0 draws are bad, such as sample 'key 0'"):
        list(Loader(MemoryDataset(10, [0]), 2, weights=weights, on_error="replace"))


def fail(value: Any) -> Any:
    raise ValueError("no good")


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 2, "threads": 1}], ids=str)
def test_an_epoch_of_which_nothing_can_be_used_names_the_transform(options: dict[str, Any]) -> None:
    loader = Loader(MemoryDataset(20), 4, on_error="skip", transforms={"vector": fail}, **options)
    says = r"no sample of epoch 0.*'key 0'.*ValueError: no good \(in the transform .*\.fail of field 'vector'\).*all 20"
    with pytest.raises(TooManyErrors, match=says):
        list(loader)


def test_a_rest_of_bad_samples_only_is_no_error() -> None:
    loader = Loader(MemoryDataset(6, [4, 5]), 2, on_error="skip")
    loader.load_state_dict({**loader.state_dict(), "samples": 4})
    assert list(loader) == []
    assert loader.epoch == 1


@pytest.mark.parametrize("taken", range(6))
def test_a_state_after_skipped_samples_loses_none(taken: int) -> None:
    bad = [0, 1, 2, 3, 9, 14, 20, 21]
    whole = Loader(MemoryDataset(24, bad), 4, shuffle=True, on_error="skip")
    expected = [batch["number"].tolist() for batch in whole]
    first, again = (Loader(MemoryDataset(24, bad), 4, shuffle=True, on_error="skip") for _ in range(2))
    iterator = iter(first)
    seen = [next(iterator)["number"].tolist() for _ in range(min(taken, len(expected)))]
    again.load_state_dict(first.state_dict())
    assert seen + [batch["number"].tolist() for batch in again if again.epoch == 0] == expected
    assert sorted(sum(expected, [])) == [number for number in range(24) if number not in bad]


def test_the_notes_of_an_error_in_a_worker_process_come_once() -> None:
    loader = Loader(MemoryDataset(20), 4, transforms={"vector": fail}, processes=1, threads=1)
    with pytest.raises(ValueError, match="no good") as raised:
        list(loader)
    notes = [note for note in raised.value.__notes__ if "worker process" not in note]
    assert len(notes) == len(set(notes)) == 2


@pytest.mark.parametrize("threads", [0, 2])
def test_errors_in_collation_and_batch_transforms_are_raised(threads: int) -> None:
    def broken(batch: Any) -> Any:
        raise ZeroDivisionError("broken")

    with pytest.raises(ZeroDivisionError, match="broken"):
        list(Loader(MemoryDataset(5), 2, threads=threads, batch_transform=broken, on_error="skip"))
    ragged = Loader(
        MemoryDataset(5),
        2,
        threads=threads,
        transforms={"vector": [lambda v: v[: int(v[0])]]},
        collate={"vector": "stack"},
    )
    with pytest.raises(SpecError, match="do not stack"):
        list(ragged)


def refuse_thirds(number: int) -> int:
    if number % 3 == 0:
        raise ValueError("a third")
    return number


def white(_: Any) -> Any:
    return np.full((64, 64, 3), 255, np.uint8)


@pytest.mark.parametrize("threads", [0, 2])
def test_a_replaced_sample_leaves_nothing_in_the_row_of_the_batch(tmp_path: Path, threads: int) -> None:
    """Its image was in the row, and stayed there beside the key of the other sample."""
    datasets: dict[str, bushel.Dataset] = {}
    for name in ("a", "b"):
        with bushel.Writer(tmp_path / name, {"image": "jpg", "x": "int"}, container="bag", sync=False) as writer:
            for number in range(12):
                writer.append({"image": np.full((80, 100, 3), 90, np.uint8), "x": number}, key=f"{name}{number}")
        datasets[name] = bushel.open(tmp_path / name)
    transforms: Any = {"a": {"image": [RandomResizedCrop(64)], "x": [refuse_thirds]}, "b": {"image": [white]}}
    mixture = bushel.mix(datasets, weights={"a": 1, "b": 1}, transforms=transforms)
    loader = Loader(mixture, 8, threads=threads, on_error="replace", max_errors=None)
    rows = [
        (key, np.asarray(image).mean())
        for batch in loader
        for key, image in zip(batch["__key__"], batch["image"], strict=True)
    ]
    assert loader.errors
    assert {mean for key, mean in rows if key.startswith("b")} == {255.0}
    assert all(mean < 100 for key, mean in rows if key.startswith("a"))


def test_samples_of_a_mixture_are_cut_by_their_own_transforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sizes were those of the loader's transforms, by which images that are fused take no memory."""
    with bushel.Writer(tmp_path / "x", {"image": "jpg"}, container="bag", sync=False) as writer:
        for _ in range(16):
            writer.append({"image": np.random.default_rng(0).integers(0, 256, (600, 800, 3), np.uint8)})
    ds = bushel.open(tmp_path / "x")
    mixture = bushel.mix({"a": ds, "b": ds}, weights={"a": 1, "b": 1}, transforms={"b": {"image": [white]}})
    cut: list[int] = []

    def noted(sizes: Any) -> Any:
        cut.append(int(np.asarray(sizes).sum()))
        return micro_batches(sizes)

    monkeypatch.setattr(pipeline, "micro_batches", noted)
    next(iter(Loader(mixture, 16, threads=0, transforms={"image": [Resize((16, 16))]})))
    assert {size > 0 for size in cut} == {False, True}

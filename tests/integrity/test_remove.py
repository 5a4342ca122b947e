"""Removed samples: the list, its binding to shards, and that nothing that reads a dataset shows one."""

from __future__ import annotations

import json
import pickle
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.running import fails, run
from tests.integrity.removed import COUNT, GONE, KEPT, keys, write

import bushel
from bushel._dataset.read.selection import Remaining, joined
from bushel._index.removal_list import RemovalCall
from bushel.loader import MapView

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A dataset of 20 samples in 4 shards, of which 5 are removed."""
    path = write(tmp_path / "data")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    return path


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container_and_every_way(container: str, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    before = bushel.open(path).fingerprint
    assert bushel.remove(path, keys=keys(GONE[:3]), reason="a").samples == 3
    assert bushel.remove(path, positions=np.array([8, -1]), reason="b").samples == 2
    dataset = bushel.open(path)
    assert list(dataset.keys) == keys(KEPT)
    assert len(dataset) == dataset.info.samples == len(KEPT)
    assert (dataset.info.removed, "5 removed" in repr(dataset)) == (5, True)
    assert dataset.fingerprint != before
    assert [sample["__key__"] for sample in dataset] == keys(KEPT)
    assert [dataset.position(key) for key in keys(KEPT)] == list(range(len(KEPT)))
    assert not any(key in dataset for key in keys(GONE))
    with pytest.raises(KeyError):
        dataset["k03"]
    for number in range(container == "bag", 4):  # a shard that is opened alone; the first bag has the manifest of all
        shard = dataset.shards[number]
        alone = bushel.open(shard.path(0).parent if container == "bag" else shard.path(0))
        assert list(alone.keys) == [key for key in keys(KEPT) if number * 6 <= int(key[1:]) < number * 6 + 6]
    assert [one.reason for one in bushel.removals(path)] == ["a", "b"]
    first, second = bushel.removals(path)
    assert bushel.restore(path, first.call).samples == 3
    assert list(bushel.open(path).keys) == keys(number for number in range(COUNT) if number not in (11, 19))
    assert bushel.restore(path, second.call).reason == "b"
    assert bushel.restore(path, second.call).samples == 0  # it is undone already
    assert bushel.open(path).fingerprint == before
    assert bushel.removals(path) == []


@given(st.integers(0, 30).flatmap(lambda total: st.tuples(st.just(total), st.sets(st.integers(0, max(total - 1, 0))))))
def test_positions_that_remain(drawn: tuple[int, set[int]]) -> None:
    total, chosen = drawn
    gone = np.array(sorted(number for number in chosen if number < total), np.int64)
    own = Remaining.of(total, gone, np.zeros(len(gone), np.uint32), (RemovalCall("id", "why", 1),))
    expected = np.delete(np.arange(total), gone)
    assert len(own) == len(expected)
    assert np.asarray(own).tolist() == expected.tolist()
    for part in (slice(None), slice(2, -1), slice(None, None, -2), slice(5, 2)):
        assert own[part].tolist() == expected[part].tolist()
    assert [own[place] for place in range(-len(own), len(own))] == [*expected.tolist(), *expected.tolist()]
    assert own.places(expected).tolist() == list(range(len(own)))
    assert (own.places(gone) == -1).all()
    with pytest.raises(IndexError):
        own[len(own)]
    both = joined([own, range(3), own])
    after = np.concatenate([expected, np.arange(total, total + 3), expected + total + 3])
    assert np.asarray(both).tolist() == after.tolist()


# No reader shows a removed sample


def labels_of_loader(dataset: bushel.Dataset, **options: Any) -> list[int]:
    return sorted(label for batch in bushel.Loader(dataset, 4, **options) for label in batch["label"].tolist())


def of_convert(path: Path) -> list[int]:
    target = path.parent / "copy"
    bushel.convert(path, target, container="recordio", sync=False)
    return [int(sample["label"]) for sample in bushel.open(target)]


def of_repair(path: Path) -> list[int]:
    result = bushel.repair(path, path.parent / "fixed")
    assert (result.samples, result.lost) == (len(KEPT), 0)
    return [int(sample["label"]) for sample in bushel.open(path.parent / "fixed")]


def of_split(path: Path) -> list[int]:
    bushel.split(path, path.parent / "parts", {"a": 0.5, "b": 0.5}, sync=False)
    return [int(s["label"]) for name in "ab" for s in bushel.open(path.parent / "parts" / name)]


def of_parts(path: Path) -> list[int]:
    bushel.convert(path, path.parent / "parts", container="tar", parts=3, sync=False)
    return [int(sample["label"]) for sample in bushel.open(path.parent / "parts")]


def of_viewer(path: Path) -> list[int]:
    from bushel.viewer.selection import Query, select
    from bushel.viewer.shelf import Shown

    dataset = bushel.open(path)
    shown = Shown(0, "data", path, dataset)
    found = [select(shown, query) for query in (Query(), Query(key="k"), Query(where="label >= 0"))]
    assert {one.size for one in found} == {len(KEPT)}
    return [int(dataset[row]["label"]) for row in found[1].part(0, 100)]


def of_processes(path: Path) -> list[int]:
    return labels_of_loader(bushel.open(path), processes=1, shuffle=True)


def of_arrow(path: Path) -> list[int]:
    pytest.importorskip("pyarrow")
    return list(bushel.open(path).to_arrow().column("label").to_pylist())


def of_join(path: Path) -> list[int]:
    other = bushel.open(write(path.parent / "other")).select_fields(["data"])
    both = bushel.join(bushel.open(path).select_fields(["label"]), other, on="key")
    swapped = bushel.join(other, bushel.open(path).select_fields(["label"]), on="key")
    assert list(swapped.keys) == list(both.keys)
    return [sample["label"] for sample in both]


def of_merge(path: Path) -> list[int]:
    bushel.merge([path], path.parent / "merged", sync=False)
    return [s["label"] for s in bushel.open(path.parent / "merged")]


def of_saved_view(path: Path) -> list[int]:
    bushel.open(path).where("label >= 0").save_view("all")
    return [s["label"] for s in bushel.open(path, view="all")]


READERS: dict[str, Callable[[Path], list[int]]] = {
    "dataset": lambda path: [sample["label"] for sample in bushel.open(path)],
    "read": lambda path: [s["label"] for s in bushel.open(path).read(range(len(KEPT)), ["label"])],
    "gather": lambda path: [int(each) for each in _gathered(bushel.open(path))],
    "view": lambda path: [s["label"] for s in bushel.open(path)[:][::-1][::-1]],
    "where": lambda path: bushel.open(path).where("label >= 0").column("label").tolist(),
    "filter": lambda path: bushel.open(path).filter(lambda sample: True).column("label").tolist(),
    "column": lambda path: bushel.open(path).column("label").tolist(),
    "shard": lambda path: [v for n in range(3) for v in bushel.open(path).shard(n, 3).column("label").tolist()],
    "concat": lambda path: bushel.concat([bushel.open(path), bushel.open(path)]).column("label").tolist()[15:],
    "pickle": lambda path: [s["label"] for s in pickle.loads(pickle.dumps(bushel.open(path)))],
    "loader": lambda path: labels_of_loader(bushel.open(path), shuffle=True),
    "blocks": lambda path: labels_of_loader(bushel.open(path), shuffle="blocks"),
    "processes": of_processes,
    "map view": lambda path: [int(MapView(bushel.open(path))[n]["label"]) for n in range(len(KEPT))],
    "stream": lambda path: [s["label"] for s in bushel.open_stream(str(path / "*.tar"))],
    "indexed": lambda path: [s["label"] for s in bushel.index(path, force=True, keys=True)],
    "files": lambda path: [s["label"] for s in bushel.open(sorted(path.glob("*.tar")))],
    "in memory": lambda path: [s["label"] for s in bushel.open(path, index="memory")],
    "join": of_join,
    "convert": of_convert,
    "parts": of_parts,
    "split": of_split,
    "repair": of_repair,
    "viewer": of_viewer,
    "arrow": of_arrow,
    "merge": of_merge,
    "saved view": of_saved_view,
}


def _gathered(dataset: bushel.Dataset) -> list[bytes]:
    data, offsets = dataset.gather(range(len(dataset)), "label")
    return [data[first:last].tobytes() for first, last in zip(offsets[:-1], offsets[1:], strict=True)]


@pytest.mark.parametrize("reader", READERS)
def test_no_reader_shows_a_removed_sample(reader: str, path: Path) -> None:
    assert READERS[reader](path) == KEPT


def test_nothing_lies_beside_the_folders_of_bags(tmp_path: Path) -> None:
    """Granular takes all beside them for a bag."""
    path = write(tmp_path / "data", "bag")
    bushel.remove(path, keys=keys(GONE[:2]), reason="opt-out")
    bushel.open(path).where("label > 5").save_view("some")
    bushel.erase(path)
    bushel.remove(path, keys=keys([12]), reason="later")
    assert {each.name for each in path.iterdir()} == {"000000", "000001", "000002", "000003"}
    assert {"removed.safetensors", "views"} < {each.name for each in (path / "000000/.bushel").iterdir()}
    assert [view.name for view in bushel.list_views(path)] == ["some"]
    assert len(bushel.open(path / "000002")) == 5
    assert [(call.samples, call.missing) for call in bushel.removals(path)] == [(0, 2), (1, 0)]


def test_the_commands_pass_over_them(path: Path, tmp_path: Path) -> None:
    assert run("ls", path).count("\n") == len(KEPT)
    assert [json.loads(line)["__key__"] for line in run("cat", path).splitlines()] == keys(KEPT)
    assert json.loads(run("info", path, "--json"))["removed"] == len(GONE)
    assert "removed    5" in run("info", path)
    assert "k03" in fails("get", path, "k03", code=2)
    assert json.loads(run("diff", write(tmp_path / "all"), path, "--json", code=1))["differences"][0]["samples"] == 5
    assert bushel.verify(path).ok


def test_a_dataset_that_was_opened_before_and_a_mixture(path: Path) -> None:
    old = bushel.open(path)
    bushel.remove(path, keys=["k05"], reason="later")
    assert len(old) == len(KEPT)  # until it is opened again
    new = bushel.open(path)
    mixture = bushel.mix({"a": new, "b": new}, weights={"a": 1, "b": 1})
    seen = [key for batch in bushel.Loader(mixture, 4) for key in batch["__key__"]]
    assert seen
    assert not set(seen) & {*keys(GONE), "k05"}


# States of loaders


def rest_of(loader: Any) -> list[str]:
    return [key for batch in loader for key in batch["__key__"]]


@pytest.mark.parametrize("shuffle", [True, False, "blocks"])
@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
def test_a_state_from_before_goes_on_in_its_order(shuffle: Any, on_error: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=shuffle, seed=7, on_error=on_error)
    batches = iter(loader)
    next(batches)
    state, expected = loader.state_dict(), [key for batch in batches for key in batch["__key__"]]
    bushel.remove(path, keys=keys(GONE[:2]), reason="opt-out")
    bushel.remove(path, keys=keys(GONE[2:]), reason="later")
    resumed = bushel.Loader(bushel.open(path), 4, shuffle=shuffle, seed=7, on_error=on_error)
    with pytest.raises(
        bushel.errors.StateError, match=r"5 samples were removed .* by 2 calls, .*'opt-out'.*allow_removed=True"
    ):
        resumed.load_state_dict(state)
    resumed.load_state_dict(state, allow_removed=True)
    copied = pickle.loads(pickle.dumps(resumed))
    found = rest_of(resumed)
    assert not set(found) & set(keys(GONE))
    if on_error == "replace":
        assert len(found) == len(expected)
        assert [key for key in expected if key in found][:1] == [key for key in expected if key not in keys(GONE)][:1]
    else:
        assert found == [key for key in expected if key not in keys(GONE)]
    assert rest_of(copied) == found
    assert not set(rest_of(resumed)) & set(keys(GONE))  # the next epoch, too


def test_a_state_between_two_calls(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    bushel.remove(path, keys=["k00", "k19"], reason="first")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    state, expected = loader.state_dict(), [key for batch in batches for key in batch["__key__"]]
    bushel.remove(path, keys=["k05", "k06"], reason="second")
    resumed = bushel.Loader(bushel.open(path), 4, shuffle=True)
    resumed.load_state_dict(state, allow_removed=True)
    assert rest_of(resumed) == [key for key in expected if key not in ("k05", "k06")]
    other = bushel.Loader(bushel.open(write(tmp_path / "other", count=9)), 4, shuffle=True)
    with pytest.raises(bushel.errors.StateError, match="another dataset"):
        other.load_state_dict(state, allow_removed=True)


def test_a_state_from_before_of_a_dataset_with_a_function(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    loader = bushel.Loader(bushel.open(path).map(dict), 4, shuffle=True)
    batches = iter(loader)
    next(batches)
    state, expected = loader.state_dict(), [key for batch in batches for key in batch["__key__"]]
    bushel.remove(path, keys=["k05", "k06"], reason="opt-out")
    resumed = bushel.Loader(bushel.open(path).map(dict), 4, shuffle=True)
    resumed.load_state_dict(state, allow_removed=True)
    assert rest_of(resumed) == [key for key in expected if key not in ("k05", "k06")]


def test_a_state_from_before_an_erasure_says_why_it_cannot_go_on(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    loader = bushel.Loader(bushel.open(path), 4, shuffle=True)
    state = loader.state_dict()
    bushel.remove(path, keys=["k05", "k06"], reason="opt-out")
    between = bushel.Loader(bushel.open(path), 4, shuffle=True).state_dict()
    bushel.erase(path)
    after = bushel.Loader(bushel.open(path), 4, shuffle=True)
    for earlier in (state, between):
        with pytest.raises(bushel.errors.StateError, match=r"erased \(2 are not stored any more\).*without the state"):
            after.load_state_dict(earlier, allow_removed=True, allow_appended=True)
    after.load_state_dict(after.state_dict())


# The list


def test_a_damaged_list_hides_nothing_in_silence(path: Path) -> None:
    place = path / ".bushel/removed.safetensors"
    whole = place.read_bytes()
    for damaged in (whole[:-3], whole[:40], b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        place.write_bytes(damaged)
        with pytest.raises(bushel.errors.FormatError, match="list of removed samples"):
            bushel.open(path)
    place.write_bytes(whole)
    assert len(bushel.open(path)) == len(KEPT)


def test_refusals(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="exactly one"):
        bushel.remove(path, reason="x")
    with pytest.raises(ValueError, match="needs a reason"):
        bushel.remove(path, keys=["k05"], reason=" ")
    with pytest.raises(TypeError, match="as a list"):
        bushel.remove(path, keys="k05", reason="x")
    with pytest.raises(KeyError, match="no sample has the key 'zz' and 1 others"):
        bushel.remove(path, keys=["k05", "zz", "yy"], reason="x")
    assert bushel.remove(path, keys=["k05", "zz"], reason="x", ignore_missing=True).samples == 1
    assert bushel.remove(path, keys=["k05"], reason="x").samples == 1  # which is the same call
    assert [one.reason for one in bushel.removals(path)] == ["opt-out", "x"]
    with pytest.raises(IndexError):
        bushel.remove(path, positions=[99], reason="x")
    with bushel.Writer(path, mode="append"), pytest.raises(bushel.errors.InUseError):
        bushel.remove(path, keys=["k06"], reason="x")
    two = [path, write(tmp_path / "other")]
    with pytest.raises(bushel.errors.UnsupportedError, match="several folders"):
        bushel.remove(two, keys=["k06"], reason="x")


def test_all_samples_no_samples_and_equal_keys(tmp_path: Path) -> None:
    path = write(tmp_path / "data", count=3)
    assert bushel.remove(path, where="label > 99", reason="none").samples == 0
    assert bushel.removals(path) == []
    bushel.remove(path, where="label >= 0", reason="all")
    dataset = bushel.open(path)
    assert (len(dataset), list(dataset), dataset.column("label").tolist()) == (0, [], [])
    assert len(dataset[:]) == 0
    other = tmp_path / "unkeyed"
    with bushel.Writer(other, {"label": "int"}, container="recordio", sync=False) as writer:
        for number in range(5):
            writer.append({"label": number})
    bushel.remove(other, keys=["1", "3"], reason="by position")
    dataset = bushel.open(other)
    assert (list(dataset.keys), dataset.position("4")) == (["0", "2", "4"], 2)  # keys stay those of the positions


def test_a_key_that_is_the_position_of_another_sample_names_both(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"label": 0}\n{"label": 1}\n{"label": 2}\n')
    (tmp_path / "b.jsonl").write_text('{"__key__": "2", "label": 3}\n{"__key__": "9", "label": 4}\n')
    assert bushel.remove(tmp_path, keys=["2"], reason="both").samples == 2
    assert [sample["label"] for sample in bushel.open(tmp_path)] == [0, 1, 4]


def test_parts_of_a_run_and_an_index_elsewhere(tmp_path: Path) -> None:
    bushel.convert(write(tmp_path / "data"), tmp_path / "parts", container="tar", parts=3, sync=False)
    bushel.remove(tmp_path / "parts", keys=keys(GONE), reason="x")
    assert list(bushel.open(tmp_path / "parts").keys) == keys(KEPT)
    assert not set(bushel.open(tmp_path / "parts/part-00000").keys) & set(keys(GONE))
    place = tmp_path / "index"
    bushel.index(tmp_path / "data", index=place)
    bushel.remove(tmp_path / "data", keys=["k01"], reason="x", index=place)
    assert "k01" not in bushel.open(tmp_path / "data", index=place)
    assert "k01" in bushel.open(tmp_path / "data")
    assert bushel.removals(tmp_path / "data", index=place)[0].samples == 1


def test_very_many_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bushel._dataset.read import listed

    monkeypatch.setattr(listed, "_MANY", 3)
    monkeypatch.setattr(listed, "_SETTLED_NS", 0)
    from bushel._dataset.open import open as opening  # noqa: F401 - the list of shards is kept by it

    path = write(tmp_path / "data", shard_samples=2)
    bushel.remove(path, keys=keys(GONE), reason="x")
    for _ in range(3):
        dataset = bushel.open(path)
        assert list(dataset.keys) == keys(KEPT)
        assert dataset.column("label").tolist() == KEPT


@pytest.mark.parametrize("with_key_file", [False, True])
def test_many_keys_at_once(with_key_file: bool, tmp_path: Path) -> None:
    path = write(tmp_path / "data", count=500, shard_samples=40)
    if with_key_file:
        bushel.index(path, keys=True)
    gone = [f"k{number:02}" for number in range(0, 500, 3)]
    assert bushel.remove(path, keys=iter(gone), reason="x").samples == len(gone)
    assert list(bushel.open(path).keys) == [key for key in keys(range(500)) if key not in set(gone)]


def test_the_command(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    (tmp_path / "keys.txt").write_text("k00\nk03\n\n")
    assert "2 samples removed" in run("remove", path, "--keys", tmp_path / "keys.txt", "--reason", "opt-out")
    assert json.loads(run("remove", path, "--where", "label == 7", "--reason", "seven", "--json"))["samples"] == 1
    assert "1 sample removed" in run("remove", path, "--position", "0", "--reason", "first")
    lines = run("remove", path, "--list").splitlines()
    assert [line.split("  ")[2:] for line in lines] == [["2", "opt-out"], ["1", "seven"], ["1", "first"]]
    assert "1 sample restored" in run("remove", path, "--undo", lines[1].split()[0])
    assert [one["reason"] for one in json.loads(run("remove", path, "--list", "--json"))] == ["opt-out", "first"]
    assert "exactly one of" in fails("remove", path, "--reason", "x")
    assert "give a reason" in fails("remove", path, "--position", "0")
    assert "to leave them out, --ignore-missing" in fails(
        "remove", path, "--keys", _file(tmp_path, "zz"), "--reason", "x", code=2
    )


@pytest.mark.parametrize(
    ("name", "what"), [("k 1", "k 1 is not a file"), (".", ". is a folder"), ("keys.txt/k", "not a file")]
)
def test_a_key_where_a_file_is_expected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "data")
    (tmp_path / "keys.txt").write_text("k00\n")
    said = fails("remove", "data", "--keys", name, "--reason", "x")
    assert what in said
    assert f"echo {shlex.quote(name)} | bushel remove data --keys -" in said


def _file(folder: Path, *lines: str) -> Path:
    path = folder / "lines.txt"
    path.write_text("\n".join(lines))
    return path

"""How views were made, views by name, and views through a function."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.integrity.removed import COUNT, keys, write

import bushel
from bushel.loader import MapView


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "data")


def test_views_say_how_they_were_made(path: Path) -> None:
    dataset = bushel.open(path)
    assert repr(dataset).endswith("label: int>")
    shown = {
        "where label == 3, then [0:100]": dataset.where("label == 3")[0:100],
        "[:-1:2]": dataset[:-1:2],
        "2 chosen keys": dataset.select_keys(["k01", "k00"]),
        "3 chosen positions, then part 0 of 2": dataset[[1, 1, 2]].shard(0, 2),
        "val of a split by label, seed 3": dataset.split(train=0.5, val=0.5, stratify="label", seed=3)["val"],
    }
    for text, view in shown.items():
        assert repr(view).endswith(f"; {text}>")
    assert "filter(" in repr(dataset.filter(lambda sample: True))
    assert dataset.select_fields(["label"])[0:5].where("label > 1").column("label").tolist() == [2, 3, 4]


def test_views_are_saved_and_opened(path: Path) -> None:
    dataset = bushel.open(path)
    views = {
        "query": dataset.where("label >= 15 or label == 2"),
        "some": dataset[[7, 3, 3, 11]].select_fields(["label"]),
        "both": dataset.where("label < 9")[::2],
        "none": dataset[:0],
        "all": dataset,
    }
    for name, view in views.items():
        view.save_view(name)
        again = bushel.open(path, view=name)
        assert (list(again.keys), again.spec) == (list(view.keys), view.spec)
    found = {view.name: (view.made, view.samples, view.stale) for view in bushel.list_views(path)}
    assert found["both"] == ("where label < 9, then [::2]", 5, False)
    assert list(found) == sorted(views)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        dataset.save_view("all")
    dataset[:3].save_view("all", overwrite=True)
    assert len(bushel.open(path, view="all")) == 3
    with pytest.raises(KeyError, match="did you mean 'query'"):
        bushel.open(path, view="qery")
    for name in ("", "../up", "a/b", ".hidden", "x" * 200):
        with pytest.raises(ValueError, match="cannot be the name"):
            dataset.save_view(name)
    with pytest.raises(bushel.errors.UnsupportedError):
        bushel.join(dataset.select_fields(["label"]), dataset.select_fields(["data"]), on="key").save_view("joined")


def test_a_stale_view_is_refused_unless_requested(path: Path) -> None:
    dataset = bushel.open(path)
    dataset.where("label < 5").save_view("query")
    dataset[[7, 3, 3, 11]].save_view("some")
    done = bushel.remove(path, keys=["k03"], reason="opt-out")
    assert {view.stale for view in bushel.list_views(path)} == {True}
    for name, kept in {"query": [0, 1, 2, 4], "some": [7, 11]}.items():
        with pytest.raises(bushel.errors.StateError, match="is stale"):
            bushel.open(path, view=name)
        with pytest.warns(UserWarning, match=f"view '{name}' is stale"):
            assert list(bushel.open(path, view=name, allow_stale=True).keys) == keys(kept)
    bushel.restore(path, done.call)
    assert len(bushel.open(path, view="some")) == 4


def test_a_damaged_view(path: Path) -> None:
    bushel.open(path)[:3].save_view("some")
    place = path / ".bushel/views/some.safetensors"
    whole = place.read_bytes()
    for damaged in (b"", whole[:50], whole[:-1] + b"?"):
        place.write_bytes(damaged)
        with pytest.raises(bushel.errors.FormatError):
            bushel.open(path, view="some")


def test_the_command(path: Path) -> None:
    assert run("views", path) == "no views are saved\n"
    bushel.open(path).where("label == 3").save_view("three")
    assert run("views", path).split() == ["three", "1", "where", "label", "==", "3"]
    assert json.loads(run("views", path, "--json"))[0]["name"] == "three"
    assert "unknown view 'four'" in fails("views", path, "--delete", "four")
    run("views", path, "--delete", "three")
    assert bushel.list_views(path) == []


# Views through a function


def plus(sample: dict[str, Any]) -> dict[str, Any]:
    return {"label": sample["label"] + 100, "more": np.full(3, sample["label"])}


def test_map(path: Path) -> None:
    dataset = bushel.open(path)
    mapped = dataset.map(plus, ["label"])
    assert (len(mapped), list(mapped.keys)[:2], mapped.spec) == (COUNT, keys([0, 1]), {"label": "int"})
    assert mapped[3]["label"] == mapped["k03"]["label"] == 103
    assert [sample["label"] for sample in mapped[2:5]] == [102, 103, 104]
    assert [sample["label"] for sample in mapped.where("label == 7")] == [107]
    assert [sorted(sample) for sample in mapped.read([0], ["more"])] == [["__key__", "more"]]
    assert mapped.map(lambda sample: {"x": sample["label"] * 2})[1] == {"__key__": "k01", "x": 202}
    assert mapped[3, ["more"]].keys() == mapped["k03", ["more"]].keys() == {"__key__", "more"}
    with pytest.raises(TypeError, match="a mask applies to one sample"):
        mapped[[3, 1], ["more"]]
    for fields in ("more", {"label": False, "more": True}, {"label": slice(0, 1)}, 4):
        for wrong in (lambda fields: mapped.read([0], fields), lambda fields: mapped[3, fields]):
            with pytest.raises(TypeError, match=f"fields={re.escape(repr(fields))}: give a list of names"):
                wrong(fields)
    with pytest.raises(TypeError, match="fields='more': give a list of names"):
        mapped.select_fields("more")
    chosen = mapped.select_fields({"more": "array(int64,3)"})
    for view, name, there in ((mapped, "nope", "label, more"), (chosen, "label", "more")):
        with pytest.raises(KeyError, match=f"it returned no field '{name}', but {there}") as caught:
            view[3, [name]]
        assert caught.value.__notes__ == ["in the function of ds.map, for sample 'k03'"]
    assert mapped.read([], ["nope"]) == []
    assert chosen[3, []] == {"__key__": "k03"}
    assert "plus" in repr(mapped)
    assert MapView(mapped)[4]["label"] == 104


def test_keys_are_found_without_calls_of_the_function(path: Path) -> None:
    mapped = bushel.open(path).map(lambda sample: sample["nothing"])
    assert "k03" in mapped
    assert "nobody" not in mapped


@pytest.mark.parametrize("processes", [0, 1])
def test_map_in_a_loader_keeps_order_and_seeds(processes: int, path: Path) -> None:
    dataset = bushel.open(path)
    add = 100
    mapped = dataset.map(lambda sample: {"label": sample["label"] + add}, ["label"])
    options: dict[str, Any] = {"shuffle": True, "seed": 3, "processes": processes}
    plain, through = bushel.Loader(dataset, 4, **options), bushel.Loader(mapped, 4, **options)
    one, other = iter(plain), iter(through)
    first = next(other)
    assert first["label"].tolist() == (next(one)["label"] + add).tolist()
    state = through.state_dict()
    assert state == plain.state_dict()
    rest = [label for batch in other for label in batch["label"].tolist()]
    resumed = bushel.Loader(mapped, 4, **options)
    resumed.load_state_dict(state)
    assert [label for batch in resumed for label in batch["label"].tolist()] == rest
    assert rest == [label + add for batch in one for label in batch["label"].tolist()]


@pytest.mark.parametrize("processes", [0, 1])
def test_fields_of_the_results(processes: int, path: Path) -> None:
    mapped = bushel.open(path).map(plus)
    [batch] = bushel.Loader(mapped, COUNT, fields=["more"], processes=processes)
    assert list(batch) == ["__key__", "more"]
    assert batch["more"][:, 0].tolist() == list(range(COUNT))
    only = mapped.select_fields(["label"])
    assert (only[2], only.spec) == ({"__key__": "k02", "label": 102}, {"label": "int"})
    assert only.map(lambda sample: {"names": sorted(sample)})[0]["names"] == ["__key__", "label"]


def test_a_function_of_stored_bytes(path: Path) -> None:
    dataset = bushel.open(path)
    stored = dataset.map(lambda sample: {"length": len(sample["data"])}, ["data"], decode=False)
    lengths = [len(sample["data"]) for sample in dataset.read(range(COUNT), ["data"], decode=False)]
    assert [sample["length"] for sample in stored] == lengths
    [batch] = bushel.Loader(stored, COUNT)
    assert batch["length"].tolist() == lengths


@pytest.mark.parametrize("processes", [0, 1])
def test_a_function_of_each_dataset_of_a_mixture(processes: int, path: Path) -> None:
    dataset = bushel.open(path)
    sets: dict[str, Any] = {"plain": dataset[:8], "through": dataset[8:].select_fields(["label"])}
    weights = {"plain": 0.25, "through": 0.75}
    mapped: dict[str, Any] = {**sets, "through": sets["through"].map(dict)}
    with pytest.raises(TypeError, match="'through' is a Mapped.*sample_transform="):
        bushel.mix(mapped, weights=weights)
    functions = {"plain": dict, "through": lambda sample: {**sample, "label": sample["label"] + 100}}
    options: dict[str, Any] = {"fields": ["label"], "processes": processes}
    mixture = bushel.mix(sets, weights=weights)
    through = bushel.Loader(
        mixture, 4, sample_transform=lambda sample: functions[sample["__source__"]](sample), **options
    )
    for expected, found in zip(bushel.Loader(mixture, 4, **options), through, strict=True):
        add = [100 * (name == "through") for name in expected["__source__"]]
        assert found["label"].tolist() == (expected["label"] + add).tolist()


@pytest.mark.parametrize("wrong", [None, 3, []])
def test_map_refuses(wrong: Any, path: Path) -> None:
    dataset = bushel.open(path)
    bad = dataset.map(lambda _: wrong)
    with pytest.raises(TypeError, match="return the sample"):
        bad[0]
    with pytest.raises(TypeError, match="return the sample"):
        list(bushel.Loader(bad, 4))
    mapped = dataset.map(plus, ["label"])
    with pytest.raises(KeyError, match="returned no field 'mroe', but label, more"):
        next(iter(bushel.Loader(mapped, 4, fields=["mroe"])))
    with pytest.raises(TypeError, match="give a list of names"):
        bushel.Loader(mapped, 4, fields={"label": slice(2)})
    with pytest.raises(ValueError, match=r"ds\.map\(function, decode=False\)"):
        bushel.Loader(mapped, 4, decode=False)
    with pytest.raises(KeyError):
        dataset.map(plus, ["zz"])


def test_map_of_images_moves_with_transforms(tmp_path: Path) -> None:
    from tests.sources.folders import jpeg

    from bushel.transforms import CenterCrop

    with bushel.Writer(tmp_path / "x.tar", {"image": "jpg"}, sync=False) as writer:
        for number in range(4):
            writer.append({"image": jpeg(number, 48, 64)}, key=str(number))
    mapped = bushel.open(tmp_path / "x.tar").map(lambda sample: {"image": 255 - sample["image"]})
    [batch] = bushel.Loader(mapped, 4, transforms={"image": [CenterCrop(32)]})
    assert batch["image"].shape == (4, 32, 32, 3)
    assert np.array_equal(batch["image"][1], mapped[1]["image"][8:40, 16:48])

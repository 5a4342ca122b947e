"""Names of classes: kept by every way to write a dataset, and mapped where numbers differ."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.sources.folders import jpeg

import bushel
from bushel._dataset.read.splitting import classes_of, largest_remainders, stratified
from bushel._index.names import Labels, join_names, numbered
from bushel._index.saving import sealed
from bushel._pack import merge, split
from bushel._pack.field_plan import plan_numbers, renumber
from bushel.errors import CodecError
from bushel.sources import ListFile
from bushel.spec import Field
from bushel.storage.publish import _swap

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")
each = pytest.mark.parametrize("container", CONTAINERS)
IMAGE = jpeg(0)


def spec_of(container: str) -> dict[str, str]:
    return {"frames": "jpg[]", "label": "int"} if container == "gulp" else {"image": "jpg", "label": "int"}


def sample(container: str, label: int) -> dict[str, Any]:
    return {"frames": [IMAGE], "label": label} if container == "gulp" else {"image": IMAGE, "label": label}


def write(path: Path, container: str, names: list[str], count: int = 6, **options: Any) -> Path:
    options = {"shard_samples": 3, "labels": {"label": names}, "sync": False, **options}
    with bushel.Writer(path, spec_of(container), container=container, **options) as writer:
        for number in range(count):
            writer.append(sample(container, number % len(names)), key=f"{path.name}{number}")
    return path


def named(dataset: bushel.Dataset) -> list[str]:
    names = dataset.labels["label"]
    return [names[int(one["label"])] for one in dataset.select_fields(["label"])]


NAMED = ["dog", "cat", "dog"]


COLUMNS: dict[str, Callable[[], Any]] = {
    "list": lambda: NAMED,
    "tuple": lambda: tuple(NAMED),
    "mixed": lambda: [1, "cat", 1],
    "array": lambda: np.array(NAMED),
    "objects": lambda: np.array(NAMED, object),
    "pandas": lambda: pytest.importorskip("pandas").Series(NAMED),
    "arrow": lambda: pytest.importorskip("pyarrow").array(NAMED),
}


@pytest.mark.parametrize("form", COLUMNS)
def test_columns_take_names_of_classes(tmp_path: Path, form: str) -> None:
    column = COLUMNS[form]()
    labels = {"y": ["cat", "dog"]}
    with bushel.Writer(tmp_path / "x", {"y": "int"}, container="tar", labels=labels, sync=False) as out:
        out.extend({"y": column})
        out.append({"y": "cat"})
        with pytest.raises(CodecError, match="field 'y', sample 1 of the column: .*'bird'"):
            out.extend({"y": ["cat", "bird"]})
    assert bushel.open(tmp_path / "x").column("y").tolist() == [1, 0, 1, 0]


def test_sequences_take_names_of_classes(tmp_path: Path) -> None:
    labels = {"y": ["cat", "dog"]}
    with bushel.Writer(tmp_path / "x", {"y": "int[]"}, container="tar", labels=labels, sync=False) as out:
        out.extend({"y": [["dog"], ["cat", "dog"]]})
        out.append({"y": ["dog", 0]})
    assert [sample["y"] for sample in bushel.open(tmp_path / "x")] == [[1], [0, 1], [1, 0]]


@pytest.mark.parametrize("form", ["list", "stream", "pandas"])
def test_pack_takes_names_of_classes(tmp_path: Path, form: str) -> None:
    makers: dict[str, Callable[[Any], Any]] = {"list": list, "stream": iter}
    make = makers.get(form) or pytest.importorskip("pandas").DataFrame
    rows = [{"y": name} for name in NAMED]
    options: dict[str, Any] = {"spec": {"y": "int"}, "container": "tar", "sync": False}
    bushel.pack(make(rows), tmp_path / "x", labels={"y": ["cat", "dog"]}, **options)
    assert bushel.open(tmp_path / "x").labels == {"y": ("cat", "dog")}
    bushel.pack(make(rows[1:]), tmp_path / "x", mode="append", **options)
    assert bushel.open(tmp_path / "x").column("y").tolist() == [1, 0, 1, 0, 1]
    with pytest.raises(bushel.errors.TooManyErrors, match="position 0: .*field 'y'.*'bird'"):
        bushel.pack(make([{"y": "bird"}]), tmp_path / "z", labels={"y": ["cat", "dog"]}, **options)


@each
class TestEveryContainer:
    def test_written_opened_and_appended(self, tmp_path: Path, container: str) -> None:
        path = write(tmp_path / "a", container, ["cat", "dog"])
        dataset = bushel.open(path)
        assert dataset.labels == dataset[2:4].labels == dataset.shard(0, 2).labels == {"label": ("cat", "dog")}
        assert dataset.select_fields([name for name in dataset.spec if name != "label"]).labels == {}
        assert bushel.concat([dataset, dataset]).labels == dataset.labels
        with bushel.Writer(path, mode="append", container=container, shard_samples=3) as writer:
            writer.append(sample(container, 1), key="more")
        assert bushel.open(path).labels == {"label": ("cat", "dog")}
        with bushel.Writer(
            path, mode="append", container=container, shard_samples=3, labels={"label": ["cat", "dog", "eel"]}
        ) as writer:
            writer.append(sample(container, 2), key="last")
        assert bushel.open(path).labels == {"label": ("cat", "dog", "eel")}
        with pytest.raises(
            bushel.errors.StateError, match="class 0 is 'cat' in .*, and|class 0 is 'cat' in .* and 'dog'"
        ):
            bushel.Writer(path, mode="append", container=container, labels={"label": ["dog", "cat"]})

    def test_one_shard_alone_and_a_dataset_without_sidecars_keep_them(self, tmp_path: Path, container: str) -> None:
        path = write(tmp_path / "a", container, ["cat", "dog"])
        spec = spec_of(container)
        shard = bushel.open(path).shards[0].shard
        alone = tmp_path / "alone"
        (alone / shard.sidecars).mkdir(parents=True)
        for name in (*shard.files, f"{shard.sidecars}/{shard.sidecar.name}"):
            (alone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path / name, alone / name)
        assert bushel.open(alone).labels == {"label": ("cat", "dog")}
        for sidecar in path.rglob("*.safetensors"):
            sidecar.unlink()
        assert bushel.open(path, spec=spec, index="memory").labels == {"label": ("cat", "dog")}
        assert bushel.index(path, spec=spec).labels == {"label": ("cat", "dog")}
        assert bushel.open(path).labels == {"label": ("cat", "dog")}

    def test_merge_maps_numbers_and_copies_the_rest(self, tmp_path: Path, container: str) -> None:
        first = write(tmp_path / "a", container, ["cat", "dog"])
        second = write(tmp_path / "b", container, ["cow", "dog", "eel"])
        with pytest.raises(bushel.errors.SpecError, match="class 0 is 'cat' in .* and 'cow' in .*bushel merge"):
            bushel.concat([bushel.open(first), bushel.open(second)])
        merge([first, second], tmp_path / "m", shard_samples=5, sync=False)
        merged = bushel.open(tmp_path / "m")
        assert merged.labels == {"label": ("cat", "dog", "cow", "eel")}
        assert named(merged) == ["cat", "dog"] * 3 + ["cow", "dog", "eel"] * 2
        [name] = [name for name in merged.spec if name != "label"]
        stored = merged.read(range(len(merged)), [name], decode=False)
        assert {bytes(one[name][0] if container == "gulp" else one[name]) for one in stored} == {IMAGE}
        merge([first, second], tmp_path / "m", shard_samples=5, mode="resume", sync=False)
        assert named(bushel.open(tmp_path / "m")) == named(merged)

    def test_convert_append_split_and_repair(self, tmp_path: Path, container: str) -> None:
        path = write(tmp_path / "a", container, ["cat", "dog"])
        write(tmp_path / "b", container, ["dog", "cat"])
        bushel.convert(tmp_path / "b", path, container=container, mode="append", shard_samples=3, sync=False)
        assert named(bushel.open(path)) == ["cat", "dog"] * 3 + ["dog", "cat"] * 3
        bushel.repair(path, tmp_path / "fixed")
        assert named(bushel.open(tmp_path / "fixed")) == named(bushel.open(path))
        split(path, tmp_path / "parts", {"train": 0.5, "val": 0.5}, stratify="label", shuffle=True, seed=3, sync=False)
        for part in ("train", "val"):
            assert Counter(named(bushel.open(tmp_path / "parts" / part))) == {"cat": 3, "dog": 3}
        for other in CONTAINERS:
            bushel.convert(path, tmp_path / f"as-{other}", container=other, sync=False)
            assert named(bushel.open(tmp_path / f"as-{other}")) == named(bushel.open(path))
        for other in ("tar", "bag"):
            bushel.convert(path, tmp_path / f"new-{other}", container=other, rename={"label": "kind"}, sync=False)
            assert bushel.open(tmp_path / f"new-{other}").labels == {"kind": ("cat", "dog")}

    def test_resume_keeps_the_numbers(self, tmp_path: Path, container: str) -> None:
        writer = bushel.Writer(
            tmp_path / "a", spec_of(container), container=container, shard_samples=1, labels={"label": ["cat", "dog"]}
        )
        writer.append(sample(container, 1), key="one")
        writer.suspend()
        options = {"container": container, "shard_samples": 9, "mode": "resume"}
        with pytest.raises(bushel.errors.StateError, match="class 0 is 'cat'"):
            bushel.Writer(tmp_path / "a", labels={"label": ["ant", "cat"]}, **options)  # type: ignore[arg-type]
        with bushel.Writer(tmp_path / "a", **options) as again:  # type: ignore[arg-type]
            again.append(sample(container, 0), key="two")
        assert named(bushel.open(tmp_path / "a")) == ["dog", "cat"]


def test_numbers_without_a_name_cannot_be_mapped(tmp_path: Path) -> None:
    write(tmp_path / "a", "tar", ["cat", "dog"])
    with bushel.Writer(tmp_path / "b", spec_of("tar"), container="tar", labels={"label": ["cow"]}) as writer:
        writer.append(sample("tar", 3), key="x")
    with pytest.raises(bushel.errors.SpecError, match=r"sample 'x', field 'label': class 3 has no name"):
        merge([tmp_path / "a", tmp_path / "b"], tmp_path / "m")
    with bushel.Writer(tmp_path / "c", spec_of("tar"), container="tar") as writer:
        writer.append(sample("tar", 3), key="x")
    done = merge([tmp_path / "a", tmp_path / "c"], tmp_path / "m2")
    assert "some samples have no class names for label: their numbers are unchanged" in done.limits


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({"kind": ["a"]}, "'kind', which is not in the spec"),
        ({"image": ["a"]}, "'image', which is jpg"),
        ({"label": "abc"}, "must be a list of text, not str"),
        (["cat", "dog"], r"such as \{'label': \['cat', 'dog'\]\}, not a list"),
        ({"label": ["a", 3]}, "must be text, not int"),
        ({"label": ["a", "b", "a"]}, "classes 0 and 2 of field 'label' have the same name 'a'"),
        ({"label": ["a" * 1025]}, "1,025 characters"),
        ({"label": ["\udcff"]}, "not UTF-8"),
    ],
)
def test_names_that_are_refused(tmp_path: Path, labels: Any, message: str) -> None:
    with pytest.raises(bushel.errors.SpecError, match=message):
        bushel.Writer(tmp_path / "x.tar", spec_of("tar"), labels=labels)


def test_forged_names_in_a_manifest_and_a_sidecar(tmp_path: Path) -> None:
    path = write(tmp_path / "a", "ffrecord", ["cat", "dog"])
    place = path / ".bushel/manifest.json"
    manifest = json.loads(place.read_text())
    for sidecar in path.rglob("*.safetensors"):
        sidecar.unlink()
    for forged in (
        7,
        {"label": "cat"},
        {"label": [1, 2]},
        {"label": ["x", "x"]},
        {"label": ["n" * 2000]},
        {"label": None},
    ):
        place.write_bytes(sealed(json.dumps({**manifest, "labels": forged}).encode()))
        with pytest.raises(bushel.errors.FormatError, match=r"manifest\.json"):
            bushel.open(path, spec=spec_of("ffrecord"), index="memory")
    del manifest["labels"]
    place.write_bytes(sealed(json.dumps(manifest).encode()))
    assert bushel.open(path, spec=spec_of("ffrecord"), index="memory").labels == {}


def test_the_names_of_gulpio2(tmp_path: Path) -> None:
    [folder] = Path(__file__).parent.parent.glob("golden/gulpio2-*/image-folder/data")
    shutil.copytree(folder, tmp_path / "gulp")
    dataset = bushel.open(tmp_path / "gulp")
    assert dataset.labels == {"meta.label": ("cat food", "dog", "zèbre")}
    bushel.convert(dataset, tmp_path / "x.ffr")
    assert bushel.open(tmp_path / "x.ffr").labels == dataset.labels
    for text in ('{"a": -1}', '{"a": 1, "b": 1}', '{"a": 99999999}', "[1]", '{"a": true}', "{"):
        (tmp_path / "gulp/label2idx.json").write_text(text)
        assert bushel.open(tmp_path / "gulp").labels == {}


def test_names_of_packed_sources(tmp_path: Path) -> None:
    for number, name in enumerate(("cat", "dog", "dog", "eel")):
        (tmp_path / "photos" / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / "photos" / name / f"{number}.jpg").write_bytes(IMAGE)
    bushel.pack(tmp_path / "photos", tmp_path / "folder.tar")
    assert bushel.open(tmp_path / "folder.tar").labels == {"label": ("cat", "dog", "eel")}
    bushel.pack(tmp_path / "photos", tmp_path / "given.tar", labels={"label": ["eel", "fox"]})
    assert bushel.open(tmp_path / "given.tar").labels == {"label": ("eel", "fox", "cat", "dog")}
    assert named(bushel.open(tmp_path / "given.tar")) == ["cat", "dog", "dog", "eel"]
    bushel.pack(bushel.open(tmp_path / "given.tar"), tmp_path / "again.rec")
    assert named(bushel.open(tmp_path / "again.rec")) == ["cat", "dog", "dog", "eel"]
    lines = ["0\t2\tcat/0.jpg", "1\t0\tdog/1.jpg", "2\t0\tdog/2.jpg"]
    (tmp_path / "x.lst").write_text("\n".join(lines))
    source = ListFile(tmp_path / "x.lst", root=tmp_path / "photos")
    bushel.pack(source, tmp_path / "list.rec")
    assert bushel.open(tmp_path / "list.rec").labels == {"label": ("dog", "", "cat")}
    (tmp_path / "x.lst").write_text("\n".join([*lines, "3\t1\tdog/3.jpg"]))
    assert ListFile(tmp_path / "x.lst").labels == {}
    arrays = {"x": np.arange(4), "label": np.array([0, 1, 1, 0])}
    bushel.pack(arrays, tmp_path / "arrays.tar", labels={"label": ["no", "yes"]})
    assert named(bushel.open(tmp_path / "arrays.tar")) == ["no", "yes", "yes", "no"]
    with pytest.raises(bushel.errors.SpecError, match="'lable', which is not in the spec"):
        bushel.pack(arrays, tmp_path / "typo.tar", labels={"lable": ["no", "yes"]})


def test_a_folder_of_parts_is_a_source(tmp_path: Path) -> None:
    source = bushel.open(write(tmp_path / "a", "bag", ["cat", "dog"]))
    bushel.pack(source, tmp_path / "parts", container="bag", parts=2)
    bushel.pack(tmp_path / "parts", tmp_path / "one.tar")
    assert named(bushel.open(tmp_path / "one.tar")) == ["cat", "dog"] * 3


# Plans, without files

NAMES = st.lists(st.sampled_from([*"abcdef", ""]), max_size=6).map(
    lambda names: tuple(name if names.index(name) == at else "" for at, name in enumerate(names))
)
FIELDS = {"label": Field("label", "int")}


@given(NAMES, st.lists(NAMES, max_size=5))
def test_every_class_keeps_its_name_and_a_second_plan_is_the_same(known: tuple[str, ...], own: list[Any]) -> None:
    shards: list[Labels] = [{"label": names} for names in own]
    plan = plan_numbers({"label": known}, shards, FIELDS)
    final = plan.labels.get("label", ())
    assert join_names(final, known) == tuple(final)  # known classes keep their numbers
    for names, changes in zip(own, plan.changes, strict=True):
        for number, name in enumerate(names):
            if name:
                new = renumber(number, changes["label"], "") if "label" in changes else number
                assert final[new] == name
    again = plan_numbers(plan.labels, shards, FIELDS)
    assert again.labels == plan.labels
    for first, second in zip(plan.changes, again.changes, strict=True):
        assert {name: numbers.tolist() for name, numbers in first.items()} == {
            name: numbers.tolist() for name, numbers in second.items()
        }


@given(NAMES, NAMES)
def test_joined_names_agree_with_both(first: tuple[str, ...], second: tuple[str, ...]) -> None:
    joined = join_names(first, second)
    if joined is None:
        assert any(a and b and a != b for a, b in zip(first, second, strict=False)) or any(
            numbered(first).get(name, number) != number for name, number in numbered(second).items()
        )
        return
    for names in (first, second):
        assert all(joined[number] == name for number, name in enumerate(names) if name)


@given(st.lists(st.integers(0, 4), max_size=60), st.integers(0, 2**32), st.integers(2, 4))
def test_a_stratified_split_divides_every_class(labels: list[int], seed: int, parts: int) -> None:
    shares = {str(part): 1 / parts for part in range(parts)}
    classes = np.array(labels, np.int64)
    order = np.random.default_rng(seed).permutation(len(labels))
    found = stratified(classes, order, shares)
    assert sorted(np.concatenate(list(found.values())).tolist()) == list(range(len(labels)))
    for number in range(5):
        counts = [int((classes[positions] == number).sum()) for positions in found.values()]
        assert counts == largest_remainders(labels.count(number), shares)
        assert max(counts) - min(counts) <= 1


def test_largest_remainders() -> None:
    shares = {"train": 0.8, "val": 0.1, "test": 0.1}
    assert largest_remainders(10, shares) == [8, 1, 1]
    assert largest_remainders(13, shares) == [11, 1, 1]
    assert largest_remainders(4, shares) == [3, 1, 0]
    assert largest_remainders(0, shares) == [0, 0, 0]


def test_stratify_is_deterministic_and_refuses_images(tmp_path: Path) -> None:
    dataset = bushel.open(write(tmp_path / "a", "tar", ["cat", "dog", "eel"], 30))
    shares = {"train": 0.9, "val": 0.1}
    for name in ("one", "two"):
        split(dataset, tmp_path / name, shares, stratify="label", shuffle=True, seed=5)
    one, two = (bushel.open(tmp_path / name / "val") for name in ("one", "two"))
    assert list(one.keys) == list(two.keys)
    assert Counter(named(one)) == {"cat": 1, "dog": 1, "eel": 1}
    with pytest.raises(bushel.errors.SpecError, match="cannot stratify by field 'image'"):
        classes_of(dataset, "image")
    with pytest.raises(KeyError, match="labels"):
        split(dataset, tmp_path / "three", shares, stratify="labels")


@pytest.mark.parametrize("container", ["bag", "gulp", "recordio"])
def test_a_pack_that_was_killed_between_two_renames_is_resumed(
    tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = tmp_path / "photos"
    for name in ("cat", "dog"):
        (photos / name).mkdir(parents=True)
        for number in range(3):
            (photos / name / f"{number}.jpg").write_bytes(IMAGE)

    done = []

    def dies_at_the_third(*arguments: Any, **options: Any) -> None:
        done.append(arguments)
        if len(done) == (1 if container == "bag" else 3):
            raise OSError("as if killed")
        _swap(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("bushel.storage.publish._swap", dies_at_the_third)
        with pytest.raises(OSError, match="as if killed"):
            bushel.pack(photos, tmp_path / "out", container=container, sync=False)
    assert bushel.pack(photos, tmp_path / "out", container=container, mode="resume", sync=False).samples == 0
    dataset = bushel.open(tmp_path / "out")
    assert (len(dataset), dataset.labels) == (6, {"label": ("cat", "dog")})


@pytest.mark.parametrize("number", [-1, 1, 2])
@pytest.mark.parametrize("by_pack", [False, True])
def test_numbers_of_classes_without_a_name_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, number: int, *, by_pack: bool
) -> None:
    labels = {"label": ["cat", "dog"]}
    if by_pack:
        bushel.pack([{"label": number}], tmp_path / "out", container="tar", labels=labels)
    else:
        with bushel.Writer(tmp_path / "out", {"label": "int"}, container="tar", labels=labels) as writer:
            writer.append({"label": number})
    said = "field 'label' has the number 2, but labels= names 2 classes" in caplog.text
    assert said == (number == 2)

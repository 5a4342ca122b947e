"""What a person writes by mistake when data are packed and opened, and what Bushel says."""

from __future__ import annotations

import copy
import json
import pickle
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS
from tests.sources.folders import image_folder

import bushel

untyped: Any = bushel  # wrong calls


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "photos", 3)
    bushel.pack({"n": [1, 2, 3]}, "numbers.tar", sync=False)
    return tmp_path


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_a_sample_with_a_new_field(tmp_path: Path, container: str) -> None:
    samples = [{"x": 1}, {"y": 1}]
    with pytest.raises(bushel.errors.TooManyErrors, match="the sample has the field 'y', which is not in the spec"):
        bushel.pack(samples, tmp_path / "out", container=container, sync=False)


@pytest.mark.parametrize("sample", [3, "text", [1], None])
def test_a_sample_that_is_no_dict(tmp_path: Path, sample: Any) -> None:
    with (
        pytest.raises(bushel.errors.SpecError, match="a sample must be a dict of fields, not"),
        bushel.Writer(tmp_path / "x.tar", {"x": "int"}, sync=False) as writer,
    ):
        writer.append(sample)


@pytest.mark.parametrize("do", [bushel.open, bushel.verify, lambda path: untyped.pack("photos", path, container="tar")])
def test_an_empty_path_is_not_the_current_folder(place: Path, do: Callable[[str], Any]) -> None:
    before = sorted(place.rglob("*"))
    with pytest.raises(ValueError, match=r"the path is empty: .* '\.' is the current folder"):
        do("")
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda: untyped.open("numbers.tar", contaner="tar"), r"open\(\) .*'contaner': did you mean 'container'"),
        (lambda: untyped.pack("photos", "x", contaner="tar"), r"pack\(\) .*'contaner': did you mean 'container'"),
        (lambda: untyped.convert("photos", "x", contaner="tar"), r"convert\(\) .*'contaner': did you mean 'container'"),
        (lambda: untyped.verify("numbers.tar", decod=True), r"verify\(\) .*'decod': did you mean 'decode'"),
        (lambda: untyped.Writer("x", {"n": "int"}, contaner="tar"), r"Writer\(\) .*'contaner': did you mean"),
        (lambda: untyped.open("numbers.tar", format="tar"), r"open\(\) .*'format': did you mean 'container'"),
        (lambda: untyped.open("numbers.tar", columns=["n"]), r"bushel.open\(path\).select_fields\(names\)"),
        (lambda: untyped.Writer("x", {"n": "int"}, format="tar"), r"'format': did you mean 'container'"),
        (lambda: untyped.pack("photos", "x", num_workers=2), r"'num_workers': did you mean 'threads' or 'processes'"),
        (lambda: untyped.pack("photos", "x", resize=256), r"'resize': did you mean 'transforms'"),
        (lambda: untyped.Loader([], sampler=list), r"'sampler': did you mean 'shuffle' or 'weights'"),
        (lambda: untyped.Loader([], num_workers=2), r"'num_workers': did you mean 'threads' or 'processes'"),
        (lambda: untyped.Loader([], collate_fn=list), r"'collate_fn': did you mean 'collate' or 'batch_transform'"),
        (lambda: untyped.Loader([], columns=["n"]), r"'columns': did you mean 'fields'"),
        (lambda: untyped.Writer("x", {"n": "int"}, maxcount=5), r"'maxcount': did you mean 'shard_samples'"),
        (lambda: untyped.Writer("x", {"n": "int"}, overwrite=True), r"'overwrite': did you mean 'mode'"),
        (lambda: untyped.Loader([], epochs=5), r"'epochs': write a `for` over the loader for each epoch"),
        (lambda: untyped.Loader([], generator=5), r"'generator': did you mean 'seed'"),
        (lambda: untyped.split("numbers.tar", "x", train=0.9), r"'train': did you mean 'shares'"),
        (lambda: untyped.open("numbers.tar", shuffle=True), r"'shuffle': write bushel.Loader\(ds, shuffle=True\)"),
        (lambda: untyped.open("numbers.tar", revision="v2"), r"write bushel.open\('hf://datasets/ORG/NAME@REVISION'\)"),
        (
            lambda: untyped.pack("photos", "x.tar", progress="x"),
            r"progress='x': expected True for a bar, or a function",
        ),
        (lambda: untyped.convert("numbers.tar", "x.tar", rename="n"), r"rename='n': expected a mapping of old names"),
        (lambda: untyped.open("numbers.tar", mode="r"), r"'mode'$"),
        (lambda: untyped.verify("numbers.tar", columns=["n"]), r"'columns'$"),
        (lambda: untyped.pack("photos", "x", epochs=2), r"'epochs'$"),
        (lambda: untyped.open("numbers.tar", zzzz=1), r"open\(\) got an unexpected keyword argument 'zzzz'$"),
    ],
)
def test_misspelt_arguments(place: Path, do: Callable[[], Any], said: str) -> None:
    with pytest.raises(TypeError, match=said) as caught:
        do()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None  # one error, and not two


def test_other_wrong_calls_stay_as_python_says_them() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'target'"):
        untyped.pack("photos")
    with pytest.raises(TypeError, match="takes 1 positional argument"):
        untyped.open("photos", "tar")


def test_options_without_their_names(place: Path) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: untyped.pack("photos", "x", "tar"),
        lambda: untyped.remove("numbers.tar", ["000000000"]),
        lambda: untyped.split("numbers.tar", "x", {"a": 1.0}, True),
    ]
    for do in calls:
        with pytest.raises(TypeError, match="were given: options are given by name, as in option=value$"):
            do()


def test_fields_are_no_attributes(place: Path) -> None:
    sample: Any = bushel.open("numbers.tar")[0]
    with pytest.raises(AttributeError, match=r"a sample has no attribute 'n': a field is sample\['n'\]"):
        sample.n  # noqa: B018
    assert copy.deepcopy(sample) == pickle.loads(pickle.dumps(sample)) == sample


def test_warnings_of_open_name_the_line_that_opens(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "ds", {"n": "int"}, container="tar", shard_samples=1, sync=False)
    for n in range(3):
        writer.append({"n": n})
    writer.suspend()
    with pytest.warns(bushel.errors.IncompleteWarning) as warned:
        bushel.open(tmp_path / "ds")
    assert [each.filename for each in warned] == [__file__]


@pytest.mark.parametrize("name", ["pickle", "allow_incomplete", "episodes", "allow_stale"])
def test_a_text_is_no_truth_value(place: Path, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}='no': expected True or False"):
        untyped.open("numbers.tar", **{name: "no"})


@pytest.mark.parametrize("position", [0, np.int64(1), None, 1.5])
def test_one_position_where_a_list_is_wanted(place: Path, position: Any) -> None:
    with pytest.raises(TypeError, match=r"expected a list of positions, not .*: write \["):
        bushel.open("numbers.tar").read(position)


def test_a_key_where_a_list_of_positions_is_wanted(place: Path) -> None:
    with pytest.raises(TypeError, match=r"positions are integers, not texts: ds\.select_keys\(\['000000000'\]\)"):
        untyped.open("numbers.tar").read("000000000")


@pytest.mark.parametrize("do", [untyped.pack, untyped.convert])
def test_one_field_where_a_list_is_wanted(place: Path, do: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"fields='n' is one name: give a list, as in fields=\['n'\]"):
        do(bushel.open("numbers.tar"), "out.tar", fields="n")
    assert not (place / "out.tar").exists()


@pytest.mark.parametrize("path", ["numbers.tar", Path("numbers.tar")])
def test_a_dataset_is_not_made_of_a_path(path: Any) -> None:
    with pytest.raises(TypeError, match=r"write bushel.open\('numbers.tar'\)"):
        bushel.Dataset(path)


ATTRIBUTES = [
    ("writer", "write", "writer.append(sample, key)"),
    ("writer", "add", "writer.append(sample, key)"),
    ("writer", "write_batch", "writer.extend(columns)"),
    ("writer", "finish", "writer.close()"),
    ("dataset", "classes", "ds.labels"),
    ("dataset", "n", "sample['n'] with a sample such as ds[0]"),
    ("dataset", "num_rows", "len(ds)"),
    ("dataset", "remove", "bushel.remove(path, keys=keys, reason=text)"),
    ("dataset", "to_tuple", "ds[0], whose values are decoded"),
    ("dataset", "unique", "numpy.unique(ds.column(name))"),
    ("dataset", "save_to_disk", "bushel.pack(ds, target)"),
    ("dataset", "select", "ds[[5, 1, 1]] for positions"),
    ("dataset", "train_test_split", "ds.split(train=0.9, test=0.1)"),
    ("loader", "set_epoch", "loader.epoch = n"),
    ("loader", "state", "loader.state_dict()"),
    ("stream", "shuffle", "bushel.StreamLoader(stream, batch_size, buffer=1000)"),
    ("stream", "take", "itertools.islice(stream, n)"),
    ("view", "set_epoch", "view.epoch = n"),
]
"""An object, an attribute of another library, and what the error says instead."""


def things(place: Path) -> dict[str, Any]:
    dataset = bushel.open("numbers.tar")
    return {
        "writer": bushel.Writer("x.tar", {"n": "int"}, sync=False),
        "dataset": dataset,
        "loader": bushel.Loader(dataset, 2),
        "stream": bushel.open_stream("numbers.tar"),
        "view": bushel.loader.MapView(dataset),
    }


@pytest.mark.parametrize(("thing", "name", "said"), ATTRIBUTES)
def test_attributes_of_other_libraries(place: Path, thing: str, name: str, said: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(things(place)[thing], name)
    assert f"has no attribute '{name}': write {said}" in str(caught.value)
    # Python proposes similar attributes of the object
    assert caught.value.obj is None


@pytest.mark.parametrize("thing", ["writer", "dataset", "loader", "stream", "view"])
def test_python_proposes_no_private_names(place: Path, thing: str) -> None:
    names = dir(things(place)[thing])
    assert [name for name in names if name.startswith("_") and not name.startswith("__")] == []
    assert {"__class__", "__iter__"} - {"__iter__" if thing in ("writer", "view") else ""} <= {*names}
    with pytest.raises(AttributeError, match="has no attribute 'zzzz'$"):
        things(place)[thing].zzzz  # noqa: B018


def test_a_writer_has_no_samples_to_read(place: Path) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'n'$"):
        things(place)["writer"].n  # noqa: B018


def test_attributes_before_a_constructor_ran(place: Path) -> None:
    class Mine(bushel.Writer):
        def __init__(self, spec: Any) -> None:
            made.append(self)
            self.count: int = getattr(self, "count0", 0)
            super().__init__("x.tar", spec)

    made: list[Any] = []
    with Mine({"a": "int"}) as writer:
        assert writer.count == 0
        writer.append({"a": 1})
    with pytest.raises(bushel.errors.SpecError):
        Mine({"a": "nothing"})
    assert not hasattr(made[1], "foo")
    assert not hasattr(made[1], "spec")
    empty: Any = bushel.Dataset.__new__(bushel.Dataset)
    assert getattr(empty, "features", None) is None
    assert not hasattr(empty, "foo")
    assert not hasattr(empty, "spec")


def test_a_property_that_fails_keeps_its_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bushel.Dataset, "size", property(lambda ds: ds.info.zzzz))
    with pytest.raises(AttributeError, match="'Info' object has no attribute 'zzzz'"):
        bushel.open("numbers.tar").size  # noqa: B018


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("load_dataset", "open"),
        ("DataLoader", "Loader"),
        ("TarWriter", "Writer"),
        ("concatenate_datasets", "concat"),
        ("from_pandas", "pack"),
    ],
)
def test_names_of_other_packages(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=f"module 'bushel' has no attribute '{name}': write bushel.{said}$"):
        getattr(bushel, name)


def test_a_condition_where_a_function_is_wanted(place: Path) -> None:
    dataset: Any = bushel.open("numbers.tar")
    with pytest.raises(TypeError, match=r"filter\(\) takes a function of a sample, .* ds\.where\('n == 1'\) takes"):
        dataset.filter("n == 1")
    with pytest.raises(TypeError, match="filter\\(\\) takes a function of a sample, not 3$"):
        dataset.filter(3)


def test_datasets_where_a_path_is_wanted(place: Path) -> None:
    dataset: Any = bushel.open("numbers.tar")
    with pytest.raises(TypeError, match="not Dataset: give the path that it was opened by"):
        bushel.verify(dataset)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("x.gulp", "must be named data_<number>.gulp; or name the folder"),
        ("x.tar.gz", "can be read only. Write to a .tar file or a folder"),
        ("x.tgz", "can be read only. Write to a .tar file or a folder"),
    ],
)
def test_names_that_cannot_be_written_are_refused_at_once(place: Path, target: str, said: str) -> None:
    before = sorted(place.rglob("*"))
    for write in (bushel.pack, bushel.convert):
        with pytest.raises(bushel.BushelError, match=said) as caught:
            write("numbers.tar" if write is bushel.convert else "photos", target)
        assert not isinstance(caught.value, bushel.errors.TooManyErrors)
    assert sorted(place.rglob("*")) == before


def test_files_of_the_current_folder(place: Path) -> None:
    (place / "photos/class0/0000.jpg").rename("a.jpg")
    assert bushel.pack(["a.jpg"], "packed", container="tar", sync=False).samples == 1
    for target in ("a.jpg", "."):
        with pytest.raises(FileExistsError, match="is the source itself|contains the source"):
            bushel.pack(["a.jpg"], target, container="tar", sync=False)
    assert (place / "a.jpg").is_file()


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_truth_values_stay(tmp_path: Path, container: str) -> None:
    bushel.pack({"x": [True, False], "n": [1, 0]}, tmp_path / "out", container=container, sync=False)
    found = bushel.open(tmp_path / "out")
    assert [each["x"] for each in found] == [True, False]
    assert {type(each["x"]) for each in found} == {bool}
    assert {type(each["n"]) for each in found} == {int}
    assert len(found.where("n == 1")) == 1


def test_an_array_of_truth_values_is_no_numbers(tmp_path: Path) -> None:
    done = bushel.pack({"x": np.array([True, False])}, tmp_path / "out.tar", sync=False)
    assert done.spec == {"x": "bool"}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("key", ["\ud800", "a\udbffb", "\ud800\ud800"])
def test_keys_that_no_file_can_hold(tmp_path: Path, container: str, key: str) -> None:
    kind = {"frames": "jpg[]"} if container == "gulp" else {"n": "int"}
    sample: dict[str, Any] = {"frames": [b"\xff\xd8\xff"]} if container == "gulp" else {"n": 1}
    with bushel.Writer(tmp_path / "out", kind, container=container, sync=False) as writer:
        with pytest.raises(bushel.errors.SpecError, match="stored as UTF-8: character . is half of a surrogate pair"):
            writer.append(sample, key=key)
        writer.append(sample, key="good")
    assert list(bushel.open(tmp_path / "out").keys) == ["good"]


def test_a_list_that_is_one_value(place: Path) -> None:
    samples: Any = [{"x": [1, "a"], "y": [1, 2], "z": [1, 2]}]
    bushel.pack(samples, "lists.tar", spec={"x": "json", "y": "json", "z": "array"}, sync=False)
    sample = bushel.open("lists.tar")[0]
    assert (sample["x"], sample["y"], sample["z"].tolist()) == ([1, "a"], [1, 2], [1, 2])


def test_a_name_of_a_field_is_a_text(place: Path) -> None:
    samples: Any = [{3: 1}]
    with pytest.raises(bushel.errors.SpecError, match="the name of a field must be a str, not 3"):
        bushel.pack(samples, "x.tar", sync=False)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_half_of_a_surrogate_pair_in_a_key(place: Path, container: str) -> None:
    with pytest.raises(bushel.errors.TooManyErrors, match=r"the key '\\ud800' cannot be stored as UTF-8"):
        bushel.pack([{"__key__": "\ud800", "x": 1}], "out", container=container, sync=False)
    [line] = Path("out.errors.jsonl").read_text().splitlines()
    assert json.loads(line)["key"] == "\ud800"


def test_a_folder_of_datasets_is_named_as_such(place: Path) -> None:
    bushel.split("numbers.tar", "halves", {"a": 2, "b": 1}, sync=False)
    with pytest.raises(
        bushel.errors.FormatError, match=r"its sub-folders are datasets: .*halves/a, .*halves/b\. Name one of them"
    ):
        bushel.open("halves")


def test_datasets_of_different_fields_are_merged_or_refused_in_words(place: Path) -> None:
    bushel.pack([{"__key__": "a", "x": 1}], "x.tar", sync=False)
    bushel.pack([{"__key__": "a", "y": 1}], "y.tar", sync=False)
    bushel.pack([{"__key__": "b", "y": 1}], "z.tar", sync=False)
    with pytest.raises(ValueError, match=r"key 'a' is in the dataset already: .* by keys=False"):
        bushel.merge(["x.tar", "y.tar"], "both.tar", sync=False)
    bushel.merge(["x.tar", "z.tar"], "both.tar", mode="overwrite", sync=False)
    assert [dict(sample) for sample in bushel.open("both.tar")] == [{"__key__": "a", "x": 1}, {"__key__": "b", "y": 1}]


def test_what_views_are_not_made_of(place: Path) -> None:
    dataset: Any = bushel.open("numbers.tar")
    with pytest.raises(KeyError, match=r"unknown column '__key__': keys are not in a column: ds\.select_keys\(keys="):
        dataset.where("__key__ == 'a'")
    with pytest.raises(ValueError, match=r"expected a condition .*: ds\.filter takes a function"):
        dataset.where(lambda sample: True)
    with pytest.raises(TypeError, match=r"split takes shares such as .*, not 'train'"):
        dataset.split("train")


def test_the_codec_of_a_list_of_files_is_named(place: Path) -> None:
    Path("list.jsonl").write_text('{"image": "a.jpg"}\n')
    with pytest.raises(bushel.errors.SpecError, match=r"'jpg\(ulr\)': the quality must be .*'jpg\(url\)' also URLs"):
        bushel.open("list.jsonl", spec={"image": "jpg(ulr)"})


def test_fields_where_the_media_of_a_table_are_wanted(place: Path) -> None:
    wrong: Any = {"image": "jpg"}
    with pytest.raises(TypeError, match=r"media={'image': 'jpg'}: expected Image\(\), Frames\(\), Clip\(\) or another"):
        bushel.sources.Table([{"path": "a.jpg"}], wrong)


def test_a_view_of_a_folder_that_is_gone(place: Path) -> None:
    bushel.pack({"n": [1]}, "set", container="tar", sync=False)
    dataset = bushel.open("set")
    shutil.rmtree("set")
    with pytest.raises(FileNotFoundError, match="the folder of the dataset does not exist"):
        dataset.save_view("all")
    assert not Path("set").exists()


def test_a_link_that_leads_nowhere(place: Path) -> None:
    Path("link.tar").symlink_to("nowhere.tar")
    with pytest.raises(FileNotFoundError, match=r"link\.tar: it is a symbolic link to nowhere\.tar, which does not"):
        bushel.open("link.tar")


def test_errors_of_values_name_field_and_sample(place: Path) -> None:
    spec = {"image": "jpg", "label": "int"}
    with bushel.Writer(place / "named.tar", spec) as writer:
        for name, wrong in {"image": np.zeros((8, 8, 3), np.float32), "label": "cat"}.items():
            whole = {"image": np.zeros((8, 8, 3), np.uint8), "label": 1}
            with pytest.raises(bushel.errors.CodecError) as caught:
                writer.append({**whole, name: wrong}, key="photo/7")
            notes = caught.value.__notes__
            assert (notes[0], notes[-1]) == (f"in the field {name!r}", "in the sample 'photo/7'")
            writer.append(whole, key=name)
    labels = {"label": ["cat", "dog"]}
    with bushel.Writer(place / "animals.tar", {"label": "int"}, labels=labels) as writer:
        for number, label in enumerate((0, "dog", 1)):  # those after the first are collected
            writer.append({"label": label}, key=str(number))
            with pytest.raises(bushel.errors.CodecError) as caught:
                writer.append({"label": "cow"}, key="photo/7")
            notes = caught.value.__notes__
            assert (notes[0], notes[-1]) == ("in the field 'label'", "in the sample 'photo/7'")
            with pytest.raises(bushel.errors.SpecError) as unknown:
                writer.append({"lable": 1}, key="photo/7")
            assert unknown.value.__notes__ == ["in the sample 'photo/7'"]
    assert [sample["label"] for sample in bushel.open(place / "animals.tar")] == [0, 1, 1]
    with pytest.raises(bushel.errors.TooManyErrors, match="field 'label': codec 'cls' expected an integer, found str"):
        bushel.pack([{"label": "cow"}], place / "cow", container="tar", spec={"label": "int"}, sync=False)
    with pytest.raises(KeyError, match=r"unknown field 'imag': did you mean 'image'\? the sample has image, label"):
        bushel.open(place / "named.tar")[0]["imag"]


@pytest.mark.parametrize("write", [bushel.pack, bushel.convert])
def test_names_of_files_are_read_by_open(write: Callable[..., Any], tmp_path: Path) -> None:
    """Otherwise it would say that a text is not an image, or that a table of images has no such field."""
    (tmp_path / "list.csv").write_text("photo,n\na.jpg,1\n")
    with pytest.raises(
        bushel.SpecError, match=r"pack or convert bushel\.open\(source, spec=\{'photo': 'jpg\(path\)'\}\)"
    ):
        write(tmp_path / "list.csv", tmp_path / "out.tar", spec={"photo": "jpg(path)"})


def test_options_of_a_wrong_type(place: Path) -> None:
    for options, message in (
        ({"fields": 3}, "fields=3: expected a list of names"),
        ({"keys": "n"}, "keys='n': expected a bool, or a function of a key"),
        ({"spec": 3}, "a spec is a mapping of field names to types"),
        ({"spec": {"n": 3}}, "field 'n' has the malformed type 3"),
        ({"forget_removed": True}, "forget_removed=True needs mode='overwrite'"),
        ({"generation": "B"}, "unknown generation 'B': tar has none"),
    ):
        for write in (untyped.pack, untyped.convert):
            with pytest.raises((TypeError, ValueError, bushel.SpecError), match=re.escape(message)):
                write("numbers.tar", "out.tar", **options)
    assert not Path("out.tar").exists()
    for shares, message in (
        ({"a": "x", "b": 1}, "a share must be a number, not 'x'"),
        ({"a": 9, "b": None}, r"\{'a': 9\} are more than 3, and leave no rest"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            untyped.split("numbers.tar", "out", shares)


def test_an_error_of_a_transform_names_it(place: Path) -> None:
    def broken(number: int) -> int:
        raise ZeroDivisionError(number)

    with pytest.raises(ZeroDivisionError) as caught:
        bushel.convert("numbers.tar", "out.tar", transforms={"n": [broken]})
    assert caught.value.__notes__[0].endswith("broken of field 'n'")
    with pytest.raises(bushel.errors.TooManyErrors, match=r"ZeroDivisionError: 1 \(in the transform .*broken of field"):
        bushel.pack("numbers.tar", "out.tar", transforms={"n": [broken]})

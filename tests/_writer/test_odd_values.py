"""Samples and datasets out of the ordinary, and what is written for them."""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import opened

import bushel
from bushel.errors import CodecError, TooManyErrors


@pytest.mark.parametrize("container", ["tar", "ffrecord", "recordio", "bag"])
def test_strided_memory(tmp_path: Path, container: str) -> None:
    value = memoryview(b"0123456789")[::2]
    with bushel.Writer(tmp_path / "ds", {"raw": "bytes", "parts": "bytes[]"}, container=container) as writer:
        writer.append({"raw": value, "parts": [value, b"x"]}, key="a")
    [found] = opened(tmp_path / "ds")
    assert (found["raw"], found["parts"]) == (b"02468", [b"02468", b"x"])


@pytest.mark.parametrize("name", ["x.tar", "bag"])
def test_appending_to_a_dataset_whose_index_has_no_checksums(tmp_path: Path, name: str) -> None:
    container = "tar" if name == "x.tar" else "bag"
    size = 0 if container == "bag" else None
    with bushel.Writer(tmp_path / name, {"txt": "utf8", "cls": "int"}, container=container, shard_bytes=size) as writer:
        for number in range(3):
            writer.append({"txt": f"text {number}", "cls": number}, key=f"k{number}")
    for sidecar in tmp_path.rglob("*.safetensors"):
        sidecar.unlink()
    assert not bushel.index(tmp_path / name, checksums=False).info.checksums
    with bushel.Writer(tmp_path / name, mode="append", shard_bytes=size) as writer:
        writer.append({"txt": "text 3", "cls": 3}, key="k3")
    found = opened(tmp_path / name)
    assert found.info.checksums
    assert [(sample["txt"], sample["cls"]) for sample in found] == [(f"text {number}", number) for number in range(4)]


def test_appending_a_field_that_the_samples_so_far_lack(tmp_path: Path) -> None:
    spec = {"txt": "utf8", "cls": "int", "parts": "bytes[]"}
    with bushel.Writer(tmp_path / "x.tar", spec) as writer:
        for number in range(3):
            writer.append({"txt": f"text {number}"}, key=f"k{number}")
    for sidecar in tmp_path.rglob("*.safetensors"):
        sidecar.unlink()
    with bushel.Writer(tmp_path / "x.tar", spec, mode="append") as writer:
        writer.append({"txt": None, "cls": 3, "parts": [b"a", b"bc"]}, key="k3")
    found = [(sample.get("txt"), sample.get("cls"), sample.get("parts")) for sample in opened(tmp_path / "x.tar")]
    # the archive says that there are `parts`, but not of which samples: only the index tells missing from empty
    assert found == [("text 0", None, []), ("text 1", None, []), ("text 2", None, []), (None, 3, [b"a", b"bc"])]


@pytest.mark.parametrize("container", ["tar", "ffrecord", "recordio", "bag"])
@pytest.mark.parametrize("value", [memoryview(array("i", range(5))), memoryview(b"")], ids=["int32", "empty"])
def test_views_of_memory_of_any_type(tmp_path: Path, container: str, value: memoryview) -> None:
    with bushel.Writer(tmp_path / "ds", {"raw": "bytes", "parts": "bytes[]"}, container=container) as writer:
        writer.append({"raw": value, "parts": [value, b"x", value]}, key="a")
        writer.append({"raw": b"next", "parts": []}, key="b")
    first, second = opened(tmp_path / "ds")
    assert (first["raw"], first["parts"]) == (value.tobytes(), [value.tobytes(), b"x", value.tobytes()])
    assert second["raw"] == b"next"


def test_a_key_that_no_file_can_hold(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"a": "int"}, container="bag") as writer:
        with pytest.raises((ValueError, bushel.errors.SpecError)):
            writer.append({"a": 1}, key="\ud800")
        writer.append({"a": 1}, key="fine")
    assert list(opened(tmp_path / "ds").keys) == ["fine"]


@pytest.mark.parametrize("container", ["tar", "bag", "recordio", "ffrecord"])
@pytest.mark.parametrize(
    ("declared", "value"),
    [
        ("array(float32,3)", np.zeros(4, np.float32)),
        ("array(float32,3)", np.zeros(3)),
        ("array(uint8,-1)", np.array([300])),
        ("u64", -1),
        ("i64", 2**63),
        ("uint", -1),
        ("int(1)", 300),
        ("bool", 2),
    ],
)
def test_a_value_that_its_declared_type_does_not_take(
    container: str, declared: str, value: Any, tmp_path: Path
) -> None:
    for number, column in enumerate([[value], np.array([value])]):
        target = tmp_path / f"extend{number}"
        with pytest.raises(CodecError), bushel.Writer(target, {"y": declared}, container=container) as writer:
            writer.extend({"y": column})
    target = tmp_path / "append"
    with pytest.raises(CodecError), bushel.Writer(target, {"y": declared}, container=container) as writer:
        writer.append({"y": value})
    with pytest.raises(TooManyErrors, match="none of the 1 items can be packed"):
        bushel.pack([{"y": value}], tmp_path / "packed", spec={"y": declared}, container=container, max_errors=1)


@pytest.mark.parametrize(
    ("labels", "hint"),
    [
        (None, "labels={'label': [names of classes]} stores names as numbers"),
        ({"label": ["cat", "dog"]}, "its classes are 'cat', 'dog'"),
    ],
)
def test_an_unknown_class_is_told_the_classes_or_how_to_give_some(
    tmp_path: Path, labels: dict[str, list[str]] | None, hint: str
) -> None:
    with bushel.Writer(tmp_path / "x.tar", {"label": "int"}, labels=labels) as writer:
        with pytest.raises(CodecError, match="expected an integer") as caught:
            writer.append({"label": "cow"})
        writer.append({"label": 1})
    assert hint in caught.value.__notes__

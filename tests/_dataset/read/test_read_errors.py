"""What a dataset does not take is refused with the call that works."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.errors import FormatError


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("wrong") / "packed"
    with bushel.Writer(root, {"image": "bytes", "label": "int"}, container="tar") as writer:
        for number in range(3):
            writer.append({"image": b"x", "label": number}, key=f"k{number}")
    return root


CALLS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "float": (lambda ds: ds[1.0], TypeError, r"must be an integer, not 1\.0: use ds\[1\]"),
    "half": (lambda ds: ds[0.5], TypeError, r"must be an integer, not 0\.5; a key is a str"),
    "none": (lambda ds: ds[None], TypeError, r"must be an integer, not None"),
    "object": (lambda ds: ds[object()], TypeError, r"must be an integer"),
    "field": (lambda ds: ds["image"], KeyError, r"'image' is a field: .*ds\.select_fields\(\['image'\]\)"),
    "key": (lambda ds: ds["k7"], KeyError, r"no sample has the key 'k7'; the dataset has 3 samples"),
    "keys": (lambda ds: ds[["k1", "k2"]], TypeError, r"ds\.select_keys\(\['k1', 'k2'\]\) is a view of the samples"),
    "fields": (lambda ds: ds[["image", "label"]], TypeError, r"ds\.select_fields\(\['image', 'label'\]\) is a view"),
    "array of keys": (lambda ds: ds[np.array(["k1"])], TypeError, r"ds\.select_keys\(\['k1'\]\)"),
    "many keys": (lambda ds: ds[list("abcde")], TypeError, r"ds\.select_keys\(\['a', 'b', 'c', …\]\)"),
    "one field": (lambda ds: ds[0, "label"], TypeError, r"such as \['label'\]"),
    "number as mask": (lambda ds: ds[0, 1], TypeError, r"a list of names or a dict, not 1"),
    "fields of a text": (lambda ds: ds.select_fields("label"), TypeError, r"such as \['label'\]"),
    "select of a text": (lambda ds: ds.select_keys("k1"), TypeError, r"such as \['k1'\]; ds\['k1'\] is the sample"),
    "concat of two": (lambda ds: bushel.concat(ds, ds), TypeError, r"write bushel\.concat\(\[a, b\]\)"),
    "concat of one": (lambda ds: bushel.concat(ds), TypeError, r"write bushel\.concat\(\[a, b\]\)"),
    "concat of paths": (
        lambda ds: bushel.concat(["a", ds][:1]),
        TypeError,
        r"not of str: open paths with bushel\.open",
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_refused_calls_name_the_one_that_works(root: Path, call: str) -> None:
    function, error, message = CALLS[call]
    with pytest.raises(error, match=message):
        function(bushel.open(root))


def test_keys_in_a_list_may_be_anything_that_is_a_position(root: Path) -> None:
    dataset = bushel.open(root)
    assert dataset[np.int64(1)]["label"] == dataset[np.array(1)]["label"] == dataset[[1]][0]["label"] == 1
    assert len(dataset[[]]) == 0


def test_a_name_that_is_nearly_that_of_a_dataset(root: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no such file or folder: .*packd: did you mean 'packed'\?"):
        bushel.open(root.with_name("packd"))
    with pytest.raises(FileNotFoundError, match=r"zzzz$"):
        bushel.open(root.with_name("zzzz"))
    with pytest.raises(FileNotFoundError, match=r": .* has no folder$"):
        bushel.open(root.parent / "folder" / "deeper" / "packed")


def test_another_container(root: Path) -> None:
    with pytest.raises(
        FormatError, match=r"this is a dataset in the container 'tar', not 'bag' \(leave out container="
    ):
        bushel.open(root, container="bag")
    assert len(bushel.open(root, container="tar")) == 3


@pytest.mark.parametrize("kind", [str, Path])
def test_a_tilde_is_the_home_directory(root: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Any]) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    assert len(bushel.open(kind("~/packed"))) == 3
    assert len(bushel.open("~/packed/*.tar")) == 3
    assert len(list(bushel.open_stream("~/packed/*.tar"))) == 3
    assert bushel.verify(kind("~/packed")).ok
    own = kind.__name__
    bushel.convert(kind("~/packed"), kind(f"~/bag of {own}"), container="bag")
    assert len(bushel.open(root.parent / f"bag of {own}")) == 3
    with bushel.Writer(kind(f"~/{own}.tar"), {"x": "int"}) as writer:
        writer.append({"x": 1})
    assert (root.parent / f"{own}.tar").is_file()
    with pytest.raises(FileNotFoundError, match="~nobody-has-this-name"):
        bushel.open(kind("~nobody-has-this-name/packed"))

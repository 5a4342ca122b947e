"""Names of members: keys, extensions, and what webdataset 1.0.2 makes of them."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.containers.tar.names import Naming, check_key, extension_of, split_name
from bushel.errors import SpecError
from bushel.kernels import SampleNames
from bushel.spec import Field


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a.jpg", ("a", "jpg")),
        ("a.left.jpg", ("a", "left.jpg")),
        ("dir.x/a.b", ("dir.x/a", "b")),
        ("a.", ("a", "")),
        ("a", None),
        ("dir/abc", None),
        (".foo", None),
        ("dir/.foo", ("dir/", "foo")),
        ("dir.e/.foo", None),
        ("a.b/c/.foo", ("a.b/c/", "foo")),
        ("./a.txt", ("./a", "txt")),
        ("/.foo", ("/", "foo")),
        ("//.foo", ("//", "foo")),
        ("__meta__", None),
        ("__a.b__", None),
        ("__meta__/a.json", None),
        ("__meta__.json", ("__meta__", "json")),
        ("dataset/__meta__/info.json", ("dataset/__meta__/info", "json")),
        ("_.x", ("_", "x")),
        ("__.x", ("__", "x")),
        ("__/a.x", ("__/a", "x")),
        ("___/a.x", ("___/a", "x")),
        ("____/a.x", None),
        ("", None),
    ],
)
def test_names_are_split_as_webdataset_splits_them(name: str, split: tuple[str, str] | None) -> None:
    wanted = None if split is None else (split[0].encode(), split[1].encode())
    assert split_name(name.encode()) == wanted
    assert original_split(name) == split


def original_split(name: str) -> tuple[str, str] | None:
    """The rules of webdataset 1.0.2 as documented, on text."""
    if ("/" not in name and name.startswith("__") and name.endswith("__")) or re.match(r"__[^/]*__($|/)", name):
        return None
    match = re.match(r"^((?:.*/|)[^.]+)[.]([^/]*)$", name)
    return None if match is None else (match[1], match[2])


def grouped(names: list[str], calls: int) -> list[tuple[bytes, list[tuple[int, bytes]]]]:
    """Group names by the kernel in some calls: the key of each sample, and number and extension of its names."""
    encoded, groups, found = [name.encode() for name in names], SampleNames(), []
    first = 0
    for call in range(1, calls + 1):
        own = encoded[first : len(encoded) * call // calls]
        text = np.frombuffer(b"".join(own), np.uint8)
        offsets = np.cumsum([0, *map(len, own)]).astype(np.int64)
        used, rows, samples, numbers, keys, ends = groups.group(text, offsets, call == calls)
        members = zip(rows.tolist(), samples.tolist(), numbers.tolist(), strict=True)
        placed = [(row + first, sample, groups.extensions[number]) for row, sample, number in members]
        for sample, (start, end) in enumerate(pairwise([0, *ends.tolist()])):
            found.append((keys[start:end].tobytes(), [(row, ext) for row, of, ext in placed if of == sample]))
        first += used
    assert first == len(encoded)
    return found


@given(names=st.lists(st.text("ab_./é\n", max_size=12), max_size=20), calls=st.integers(1, 4))
def test_grouping_many_names_at_once_is_splitting_each(names: list[str], calls: int) -> None:
    wanted: list[tuple[bytes, list[tuple[int, bytes]]]] = []
    for row, name in enumerate(names):
        if (split := split_name(name.encode())) is not None:
            if not wanted or wanted[-1][0] != split[0]:
                wanted.append((split[0], []))
            wanted[-1][1].append((row, split[1]))
    assert grouped(names, calls) == wanted


@given(name=st.text("ab_./é", max_size=12))
def test_splitting_is_that_of_the_original(name: str) -> None:
    original = original_split(name)
    assert split_name(name.encode()) == (None if original is None else (original[0].encode(), original[1].encode()))


@pytest.mark.parametrize(
    ("name", "codec", "extension", "stored"),
    [
        ("jpg", "jpg", "jpg", "jpg"),
        ("image", "jpg", "image.jpg", "jpg"),
        ("left.jpg", "jpg", "left.jpg", "jpg"),
        ("label", "int", "label.cls", "cls"),
        ("cls", "int", "cls", "cls"),
        ("text", "utf8", "text", "utf8"),
        ("transcript", "utf8", "transcript", "utf8"),
        ("caption", "utf8", "caption.txt", "utf8"),
        ("raw", "bytes", "raw.bin", "bytes"),
        ("depth.png16", "bytes", "depth.png16", "bytes"),
        ("mask", "array", "mask.npy", "npy"),
        ("txt.gz", "gzip(utf8)", "txt.gz", "gzip(utf8)"),
        ("meta", "json", "meta.json", "json"),
    ],
)
def test_fields_become_extensions(name: str, codec: str, extension: str, stored: str) -> None:
    assert extension_of(Field(name, codec)) == (extension, stored)
    assert Naming({name: Field(name, codec)})(extension).field.name == name


@given(key=st.text(st.characters(codec="utf-8"), max_size=12) | st.text("a_./", max_size=8))
def test_every_other_key_comes_back(key: str) -> None:
    try:
        check_key(key)
    except SpecError:
        return
    assert split_name(f"{key}.txt".encode()) == (key.encode(), b"txt")
    assert original_split(f"{key}.txt") == (key, "txt")

"""The table of a packed folder: a pickle that is read without running it."""

from __future__ import annotations

import collections
import os
import pickle
import pickletools
from collections import OrderedDict
from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._runtime.arrays import joined
from bushel.containers.ffrecord.packed_folder import MAGIC, FolderPaths, parse_folder, write_table
from bushel.errors import FormatError, SpecError

TREE: Any = OrderedDict(
    [("a.txt", 0), ("b", OrderedDict([("emptydir", OrderedDict()), ("z.bin", 1)])), ("b.txt", 2), ("é", 3)]
)
PATHS = ["a.txt", "b/z.bin", "b.txt", "é"]


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_that_ffrecord_can_have_used(protocol: int) -> None:
    if protocol == 2:
        with pytest.raises(FormatError, match="not executed"):
            parse_folder(MAGIC + b"\x80\x02(S'text'\n.")
    assert parse_folder(MAGIC + pickle.dumps(TREE, protocol=protocol)) == (PATHS, ["b/emptydir"])


def test_plain_dicts_and_large_numbers() -> None:
    many = {f"{number:06d}": number for number in range(70_000)}
    assert parse_folder(MAGIC + pickle.dumps(many, protocol=4)) == (list(many), [])


def written(paths: Sequence[str], empty: Sequence[str] = ()) -> bytes:
    """Return the table that is written of some paths."""
    pieces: list[bytes] = []
    write_table(pieces.append, *joined([path.encode("utf-8", "surrogateescape") for path in paths]), empty)
    return b"".join(pieces)


def dumped(paths: Sequence[str], empty: Sequence[str] = ()) -> bytes:
    """Return the table that `pickle` makes of some paths."""
    root: Any = {}
    for number, path in enumerate(paths):
        *folders, name = path.split("/")
        reduce(lambda folder, part: folder.setdefault(part, {}), folders, root)[name] = number
    for path in empty:
        reduce(lambda folder, part: folder.setdefault(part, {}), path.split("/"), root)

    def in_order(tree: Any) -> Any:
        if isinstance(tree, int):
            return tree
        return OrderedDict((name, in_order(tree[name])) for name in sorted(tree))

    return MAGIC + pickle.dumps(in_order(root), protocol=4)


@pytest.mark.parametrize(
    ("paths", "empty"),
    [
        ([], []),
        (["a.txt", "b/z.bin", "b.txt", "c.txt"], []),
        ([], ["a/b", "c"]),
        (["a/x"], ["a", "a/b", "a.b"]),
        (["a/b/c", "b/b/c", "b/é", "é", "c/é"], ["d/b"]),  # names of one character are memoized once
        (["\udcff", "\ue000", "\U0001f600", "a/\ud7ff", "a/\udc80"], []),  # names that are not UTF-8
        ([f"{number * 7919 % 70_001:06d}" for number in range(70_000)], ["x"]),  # frames and batches
        ([str(number) for number in range(1_000)], []),
        ([str(number) for number in range(1_001)], []),
        ([f"{number % 7}/{number:05d}" for number in range(9_000)], []),
        ([f"{number:05d}/a" for number in range(3_000)], []),
        (["x" * 70_000, "y" * 300, "z"], []),
    ],
)
def test_written_as_pickle_does(paths: list[str], empty: list[str]) -> None:
    assert written(paths, empty) == dumped(paths, empty)


def test_the_record_of_the_original(golden: Path) -> None:
    data = (golden / "ffrecord-1.4.0" / "packed-folder" / "data" / "packed.ffr").read_bytes()
    record = data[data.rindex(MAGIC) :]
    paths, empty = parse_folder(record)
    assert empty == ["just_another_folder/empty dir"]
    reread = parse_folder(written(paths))
    assert reread == (paths, [])


@given(
    st.lists(
        st.lists(
            st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=4),
            min_size=1,
            max_size=4,
        ),
        max_size=12,
    )
)
def test_paths_come_back_in_the_order_of_records(parts: list[list[str]]) -> None:
    paths: list[str] = []
    together = FolderPaths((), lambda: [paths])
    for path in ("/".join(part) for part in parts):
        try:
            together.add_all([path])
        except SpecError:
            continue
        if path not in paths:
            paths.append(path)
    assert written(paths) == dumped(paths)
    assert parse_folder(written(paths)) == (paths, [])


@pytest.mark.parametrize("path", ["", "/a", "a/", "a//b", "./a", "a/../b", "..", "a\0b", "/".join("a" * 101)])
def test_not_a_path(path: str) -> None:
    with pytest.raises(SpecError, match="not a path"):
        FolderPaths().add_all([path])


@pytest.mark.parametrize(
    ("before", "clashing", "reason"),
    [
        (["a", "b/c"], ["a/x"], "it cannot be both"),
        (["a", "b/c"], ["b"], "the folder of other keys"),
        (["a/b/c"], ["a/b"], "the folder of other keys"),
        (["a/b"], ["a/b/c/d"], "'a/b' is already a file"),
        ([], ["a", "a/x"], "it cannot be both"),
        ([], ["a/x", "a"], "the folder of other keys"),
    ],
)
def test_clashes(before: list[str], clashing: list[str], reason: str) -> None:
    together = FolderPaths((), lambda: [before])
    with pytest.raises(SpecError, match=reason):
        together.add_all(clashing)
    with pytest.raises(SpecError, match="the folder of other keys"):
        FolderPaths(["empty/folder"]).add_all(["empty"])
    together.add_all(["b/d"])
    assert together.files == len(before) + len(clashing)


class Evil:
    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(
    "value",
    [
        Evil(os.system, "touch run-by-a-pickle"),
        {"a": Evil(os.mkdir, "run-by-a-pickle")},
        Evil(collections.OrderedDict, [("a", 0)]),
        Evil(collections.Counter),
        {"a": [0]},
        {"a": b"0"},
        {"a": None},
        {"a": 1.5},
        {1: 0},
        {"a": "b"},
        {"a": True},
        ["a"],
        3,
    ],
)
def test_any_other_pickle_is_refused_and_not_run(
    value: Any, protocol: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FormatError):
        parse_folder(MAGIC + pickle.dumps(value, protocol=protocol))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("tree", [{"a": 0, "b": 0}, {"a": 1}, {"a": -1, "b": 0}, {"a": 0, "b": 2**70}])
def test_record_numbers_that_cannot_be(tree: Any) -> None:
    with pytest.raises(FormatError, match="record number"):
        parse_folder(MAGIC + pickle.dumps(tree))


def test_a_folder_in_two_places_or_in_itself() -> None:
    shared: Any = {"x": 0}
    with pytest.raises(FormatError, match="appears twice"):
        parse_folder(MAGIC + pickle.dumps({"a": shared, "b": shared}))
    shared["x"] = shared
    with pytest.raises(FormatError, match="appears twice"):
        parse_folder(MAGIC + pickle.dumps(shared, protocol=4))


def test_nested_names_do_not_fill_the_memory() -> None:
    depth = 20_000
    opened = b"".join(b"(\x8c\x01n}" for _ in range(depth))
    data = MAGIC + b"\x80\x04}" + opened + b"u" * depth + b"."
    with pytest.raises(FormatError, match="far longer"):
        parse_folder(data)


def test_lengths_that_lie_allocate_nothing() -> None:
    for op in (b"\x8d" + b"\xff" * 7 + b"\x7f", b"X\xff\xff\xff\xff", b"r\xff\xff\xff\xff", b"j\xff\xff\xff\xff"):
        with pytest.raises(FormatError):
            parse_folder(MAGIC + b"\x80\x04" + op + b"}.")


def test_truncation_and_mutation() -> None:
    whole = MAGIC + pickle.dumps(TREE, protocol=4)
    for end in range(len(whole)):
        with pytest.raises(FormatError):
            parse_folder(whole[:end])
    for at in range(len(whole)):
        for byte in (0, 1, 0x28, 0x2E, 0x52, 0x75, 0x7F, 0x80, 0x93, 0x94, 0xFF):
            data = bytearray(whole)
            data[at] = byte
            try:
                paths, empty = parse_folder(bytes(data))
            except FormatError:
                continue
            assert len(paths) == 4
            assert len(empty) <= 2


def test_no_opcode_calls_anything() -> None:
    for op in pickletools.opcodes:
        data = MAGIC + b"\x80\x04}" + op.code.encode("latin-1") + bytes(8) + b"."
        try:
            parse_folder(data)
        except FormatError:
            continue
        assert op.name == "FRAME"

"""Bytes of a tar that belong to no member: the header and the comment with which an archive of Bushel begins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import bushel

SPEC = {"image": "bytes", "label": "int"}
CLASSES = [f"class {number:04d}" for number in range(600)]


def write(folder: Path, classes: list[str]) -> Path:
    with bushel.Writer(folder, SPEC, container="tar", labels={"label": classes}, sync=False) as writer:
        for number in range(3):
            writer.append({"image": b"x" * 100, "label": number % 2}, key=f"k{number}")
    return next(folder.glob("*.tar"))


def flip(path: Path, offset: int, *, keep_time: bool) -> None:
    before, data = path.stat(), bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("keep_time", [True, False], ids=["bit rot", "written"])
def test_each_byte_before_the_first_member_is_checked(tmp_path: Path, keep_time: bool) -> None:
    path = write(tmp_path / "ds", ["cat", "dog"])
    data, before = path.read_bytes(), path.stat()
    for offset in range(int(keep_time), 1024, 11):
        flip(path, offset, keep_time=keep_time)
        assert bushel.verify(path.parent).problems, offset
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert not bushel.verify(path.parent).problems


@pytest.mark.parametrize("keep_time", [True, False], ids=["bit rot", "written"])
@pytest.mark.parametrize(
    ("there", "kind", "said"),
    [
        (b"ustar", "format", "header checksum is wrong"),
        (b"comment=", "index", "belong to no value"),
        (b"fields 1", "index", "belong to no value"),
        (b'{"spec"', "format", "malformed"),
        (b'int"', "format", "malformed"),
        (b"class 0599", "format", "its checksum differs"),
    ],
)
def test_repair_takes_the_names_of_the_index(
    tmp_path: Path, there: bytes, kind: str, said: str, keep_time: bool
) -> None:
    path = write(tmp_path / "ds", CLASSES)
    flip(path, path.read_bytes().index(there), keep_time=keep_time)
    found = bushel.verify(path.parent).problems
    if keep_time or "belong to no value" not in said:
        assert [problem.kind for problem in found if not problem.warning] == [kind]
        assert said in found[0].message
    else:
        assert [problem.kind for problem in found] == ["stale"]
    bushel.repair(path.parent, tmp_path / "fixed")
    assert not bushel.verify(tmp_path / "fixed").problems
    fixed = bushel.open(tmp_path / "fixed")
    assert (fixed.spec, fixed.labels) == (SPEC, {"label": tuple(CLASSES)})
    assert list(fixed) == [{"__key__": f"k{n}", "image": b"x" * 100, "label": n % 2} for n in range(3)]


def test_without_the_index_a_comment_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    path = write(tmp_path / "x", ["cat", "dog"]).rename(tmp_path / "bare.tar")
    flip(path, path.read_bytes().index(b'{"spec"'), keep_time=False)
    [problem] = bushel.verify(path).problems
    assert (problem.kind, problem.warning) == ("format", False)
    assert "the comment that describes its fields is malformed" in problem.message


def test_classes_that_appended_samples_bring_along_are_no_problem(tmp_path: Path) -> None:
    target = tmp_path / "x.tar"
    for mode, classes in (("create", ["cat"]), ("append", ["cat", "dog"])):
        with bushel.Writer(target, SPEC, mode=mode, labels={"label": classes}, sync=False) as writer:  # type: ignore[arg-type]
            writer.append({"image": b"x", "label": len(classes) - 1}, key=mode)
    assert bushel.open(target).labels == {"label": ("cat", "dog")}
    assert not bushel.verify(target).problems

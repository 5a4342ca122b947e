"""Reading the table of an archive: piece by piece, which gives what reading it at once gives."""

from __future__ import annotations

import io
import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel._runtime.arrays import GrowingArrays
from bushel.containers.tar import samples, scan
from bushel.containers.tar.samples import Table, tabulate
from bushel.containers.tar.scan import read_table
from bushel.errors import FormatError
from bushel.kernels import MappedFile
from bushel.spec import Spec, parse_spec
from bushel.storage import File
from bushel.storage.fileobject import FileObject

Member = tuple[str, bytes]


def _write(path: Path, members: list[Member], comments: dict[int, str] | None = None) -> Path:
    """Write an archive, with comments for the whole archive before the members of some numbers."""
    out = io.BytesIO()
    for number, (name, data) in enumerate(members):
        comment = (comments or {}).get(number)
        if comment is not None:
            record = comment.encode()
            length = next(n for n in range(len(record), len(record) + 20) if len(f"{n} comment=\n") + len(record) == n)
            text = b"%d comment=%s\n" % (length, record)
            head = tarfile.TarInfo("pax_global_header")
            head.type, head.size = tarfile.XGLTYPE, len(text)
            out.write(head.tobuf(tarfile.USTAR_FORMAT) + text + bytes(-len(text) % 512))
        info = tarfile.TarInfo(name)
        info.size = len(data)
        out.write(info.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512))
    path.write_bytes(out.getvalue() + bytes(1024))
    return path


def _all_of(table: Table) -> dict[str, Any]:
    keys = table.keys
    found: dict[str, Any] = {
        "keys": [keys[row] for row in range(table.samples)],
        "hashes": keys.hashes.tolist(),
        "order": keys.order.tolist(),
    }
    for name, own in table.columns.items():
        starts = None if own.starts is None else own.starts.tolist()
        found[name] = own.field, own.codec, own.offset.tolist(), own.length.tolist(), starts
    return found


def _at_once(path: Path, spec: Spec | None) -> dict[str, Any]:
    file = MappedFile(str(path))
    return _all_of(tabulate(scan.regular(scan.scan(file), file.path), spec, file.path))


ARCHIVES: dict[str, list[Member]] = {
    "two fields": [(f"{n:04}.{end}", bytes(n % 700)) for n in range(300) for end in ("jpg", "cls")],
    "fields that come late, and go": [
        (f"{n:04}.{end}", bytes(n % 9))
        for n in range(200)
        for end in ("jpg", "cls", "txt")
        if not (end == "txt" and n < 150) and not (end == "cls" and 20 < n < 90)
    ],
    "one sample": [(f"only.f{n}", b"x") for n in range(90)],
    "repeated keys": [(f"{n % 7}.jpg", b"x") for n in range(60)],
    "others between": [
        each
        for n in range(100)
        for each in ((f"{n}.jpg", b"1"), ("__meta__/x.json", b"{}"), ("README", b"r"), (f"{n}.JSON", b"{}"))
    ],
    "no samples": [("README", b"x")] * 30,
    "no members": [],
}


@pytest.mark.parametrize("piece", [1, 2, 7, 64])
@pytest.mark.parametrize("kind", ARCHIVES)
@pytest.mark.parametrize("declared", [None, {"image": "jpg", "extra": "bytes[]"}])
def test_pieces_give_the_table_of_all_members(
    kind: str, piece: int, declared: dict[str, str] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(tmp_path / "a.tar", ARCHIVES[kind])
    spec = None if declared is None else parse_spec(declared)
    wanted = _at_once(path, spec)
    monkeypatch.setattr(scan, "_PIECE", piece)
    monkeypatch.setattr(samples, "_STEP", 16)
    for limit in (0, 1 << 20):
        monkeypatch.setattr(samples, "GrowingArrays", partial(GrowingArrays, limit))
        files: list[File] = [MappedFile(str(path)), FileObject(path)]
        for file in files:
            table, labels = read_table(path, file, spec)
            assert _all_of(table) == wanted
            assert labels == {}


@pytest.mark.parametrize("piece", [1, 5, 1000])
def test_elements_of_sequences_are_in_order(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = parse_spec({"frames": "jpg[]", "label": "int"})
    members = [
        member
        for n in range(40)
        for member in (
            *((f"{n:03}.frames.{k:03}.jpg", bytes(k + 1)) for k in reversed(range(n % 5))),
            (f"{n:03}.label.cls", b"1"),
        )
    ]
    path = _write(tmp_path / "a.tar", members)
    monkeypatch.setattr(scan, "_PIECE", piece)
    monkeypatch.setattr(samples, "GrowingArrays", partial(GrowingArrays, 100))
    table, _ = read_table(path, MappedFile(str(path)), spec)
    assert _all_of(table) == _at_once(path, spec)
    frames = table.columns["frames"]
    assert frames.length.tolist() == [k + 1 for n in range(40) for k in range(n % 5)]
    assert np.diff(frames.starts if frames.starts is not None else []).tolist() == [n % 5 for n in range(40)]


def test_a_large_table_is_in_a_file_without_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    opened = []
    make = GrowingArrays._flush

    def flush(own: GrowingArrays) -> None:
        make(own)
        opened.append(list(folder.iterdir()))

    monkeypatch.setattr(GrowingArrays, "_flush", flush)
    path = _write(tmp_path / "a.tar", [(f"{n:06}.jpg", b"") for n in range(12_000)])
    table, _ = read_table(path, MappedFile(str(path)), None)
    assert table.samples == 12_000
    assert opened
    assert not any(opened)


@pytest.mark.parametrize("piece", [3, 1000])
def test_fields_may_be_described_after_the_first_members(
    piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [(f"{n:03}.label.cls", b"1") for n in range(20)]
    comment = 'bushel-fields 1 {"spec": {"label": "int"}, "labels": {"label": ["no", "yes"]}}'
    monkeypatch.setattr(scan, "_PIECE", piece)
    for comments in ({0: comment}, {18: comment}, {0: comment.replace("int", "text"), 18: comment}):
        path = _write(tmp_path / "a.tar", members, comments)
        table, labels = read_table(path, MappedFile(str(path)), None)
        assert [own.field for own in table.columns.values()] == list(parse_spec({"label": "int"}).values())
        assert labels == {"label": ("no", "yes")}


@pytest.mark.parametrize("piece", [2, 1000])
def test_damage_is_reported_before_other_errors(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_PIECE", piece)
    path = _write(tmp_path / "a.tar", [("a.jpg", b"1"), ("a.jpg", b"2"), ("b.jpg", b"3"), ("c.jpg", b"4")])
    with pytest.raises(FormatError, match=r"'a\.jpg': its sample already has a member for the field 'jpg'"):
        read_table(path, MappedFile(str(path)), None)
    path.write_bytes(path.read_bytes()[:-1024])
    with pytest.raises(FormatError, match="without its two empty blocks"):
        read_table(path, MappedFile(str(path)), None)


@pytest.mark.parametrize("piece", [64, 100_000])
def test_many_extensions_do_not_fill_the_disk(piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_PIECE", piece)
    monkeypatch.setattr(samples, "_MOST_CELLS", 1000)
    monkeypatch.setattr(samples, "_CELLS_PER_MEMBER", 1)
    path = _write(tmp_path / "a.tar", [(f"{n}.x{n}", b"") for n in range(300)])
    with pytest.raises(FormatError, match="different extensions in"):
        read_table(path, MappedFile(str(path)), None)


def _linked(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


LINKS = {
    "cat/b.txt": ("cat/a.txt", tarfile.LNKTYPE),
    "cat/c.txt": ("a.txt", tarfile.SYMTYPE),
    "dog/d.txt": ("../cat/./a.txt", tarfile.SYMTYPE),
    "dog/e.txt": ("d.txt", tarfile.SYMTYPE),
    "dog/f.txt": (f"{'long' * 50}.txt", tarfile.LNKTYPE),
    "dog/g.txt": (f"../{'long' * 50}.txt", tarfile.SYMTYPE),
    "dog/h.txt": ("nowhere.txt", tarfile.SYMTYPE),
    "dog/i.txt": ("x" * 200, tarfile.LNKTYPE),
    "dog/j.txt": ("/cat/a.txt", tarfile.SYMTYPE),
}


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT])
@pytest.mark.parametrize("piece", [3, 1 << 16])
def test_links_are_the_files_they_lead_to(
    form: int, piece: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("bushel.containers.tar.scan._PIECE", piece)
    with tarfile.open(tmp_path / "x.tar", "w", format=form) as archive:
        for name, text in (("cat/a.txt", b"one"), (f"{'long' * 50}.txt", b"two"), ("LICENSE", b"x"), ("dog/.cfg", b"")):
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        for name, link in LINKS.items():
            archive.addfile(_linked(name, *link))
    ds = bushel.open(tmp_path / "x.tar", container="tar")
    texts = {sample["__key__"]: sample["txt"] for sample in ds if "txt" in sample}
    assert list(texts.items())[2:] == [(f"cat/{key}", "one") for key in "bc"] + [
        (f"dog/{key}", text) for key, text in (("d", "one"), ("e", "one"), ("f", "two"), ("g", "two"))
    ]
    assert "left out: 4 files (3 link that leads nowhere, 1 no extension)" in caplog.text
    assert bushel.verify(tmp_path / "x.tar").ok
    assert [sample["__key__"] for sample in bushel.open_stream(tmp_path / "x.tar")][:2] == list(texts)[:2]


def test_an_archive_sorted_by_extension_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keys = [f"{number:02}" for number in range(20)]
    for kinds, said in ((("a", "b"), True), (("a", "b", "c"), True), (("a",), False)):
        members = [(f"{key}.{kind}", b"x") for kind in kinds for key in keys]
        path = _write(tmp_path / f"{len(kinds)}.tar", members)
        caplog.clear()
        assert len(bushel.open(path)) == len(members)
        expected = f"20 samples are {len(members)} pieces, for webdataset, too: extract the archive"
        assert (expected in caplog.text) == said
    path = _write(tmp_path / "w.tar", [*members, *((f"{key}.b", b"x") for key in keys[:9])])
    caplog.clear()
    assert len(bushel.open(path)) == 29
    assert "20 samples are 29 pieces" in caplog.text
    path = _write(tmp_path / "x.tar", [*members, ("07.b", b"x"), ("09.b", b"x")])
    caplog.clear()
    assert len(bushel.open(path)) == 22
    assert "pieces" not in caplog.text

"""SHA-256 of values and files: recorded by `bushel index`, compared by `verify` and `diff`, exported, and forgotten."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors import safe_open
from tests.cli.running import fails, run
from tests.integrity.removed import keys, write

import bushel
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel.cli.app import app


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def same_size_and_time(file: Path, data: bytes) -> None:
    """Replace a file so that only its bytes tell."""
    stat = file.stat()
    file.write_bytes(data)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "gulp", "recordio"])
def test_values_and_files(container: str, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    ds = bushel.index(path, sha256="values,files")
    for name in ds.spec:
        stored = ds.read(range(len(ds)), [name], decode=False)
        found = ds.column(f"{name}.bytes.sha256")
        for sample, own in zip(stored, found, strict=True):
            value = sample[name]
            plain = digest(bytes(value)) if not isinstance(value, list) else None
            assert own == (plain or digest(b"".join(hashlib.sha256(each).digest() for each in value)))
    files = [file for shard in bushel.open(path).shards for file in shard.index.files]
    assert [file.sha256 for file in files] == [digest((path / file.name).read_bytes()) for file in files]
    result = bushel.verify(path)
    assert result.ok
    assert result.digests == len(ds) * len(ds.spec) + len(files)
    before = [(path / ".bushel" / each.name).read_bytes() for each in sorted((path / ".bushel").glob("*.safetensors"))]
    bushel.index(path, sha256=["files", "values"])
    after = [(path / ".bushel" / each.name).read_bytes() for each in sorted((path / ".bushel").glob("*.safetensors"))]
    assert after == before


def test_sequences(tmp_path: Path) -> None:
    with bushel.Writer(
        tmp_path / "data", {"words": "utf8[]"}, container="bag", columns=["auto", "*.bytes.sha256"]
    ) as writer:
        for number, words in enumerate((["a", "bc"], ["ab", "c"], [])):
            writer.append({"words": words}, key=str(number))
    found = bushel.open(tmp_path / "data").column("words.bytes.sha256")
    assert found[0] == digest(b"".join(hashlib.sha256(each).digest() for each in (b"a", b"bc")))
    assert found[0] != found[1]
    assert found[2] == digest(b"")
    assert bushel.verify(tmp_path / "data").digests == 3


def test_missing_and_empty_values(tmp_path: Path) -> None:
    with bushel.Writer(
        tmp_path / "data", {"note": "utf8", "n": "int"}, container="tar", columns=["*.bytes.sha256"]
    ) as writer:
        for number, note in enumerate(("x", None, "", "x")):
            writer.append({"n": number} if note is None else {"n": number, "note": note}, key=str(number))
    ds = bushel.open(tmp_path / "data")
    notes = ds.column("note.bytes.sha256")
    assert notes.tolist() == [digest(b"x"), None, digest(b""), digest(b"x")]
    assert list(ds.where(f"note.bytes.sha256 == '{digest(b'x')}'").keys) == ["0", "3"]
    assert bushel.verify(tmp_path / "data").digests == 3 + 4


def test_a_member_called_sha256_is_a_member(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"meta": "json"}, container="tar") as writer:
        writer.append({"meta": {"sha256": "of the page", "bytes": 3}}, key="a")
    ds = bushel.index(tmp_path / "data", columns="meta.sha256", sha256="values")
    assert ds.column("meta.sha256").tolist() == ["of the page"]
    assert ds.column("meta.bytes.sha256").tolist() == [digest(b'{"sha256":"of the page","bytes":3}')]


def test_what_a_crc_does_not_find(tmp_path: Path) -> None:
    """Bytes that have the recorded CRC-32, or none at all, are found by their SHA-256."""
    path = write(tmp_path / "data", "tar")
    bushel.index(path, sha256="values,files")
    shard = bushel.open(path).shards[0]
    extents = shard.index.fields["data"]
    file = path / "shard-000000.tar"
    data = bytearray(file.read_bytes())
    data[int(extents.offset[1]) + 3] ^= 1
    same_size_and_time(file, bytes(data))
    for sidecar in sorted((path / ".bushel").glob("shard-000000*.safetensors")):  # as somebody would who forges it
        index = load_index(sidecar)
        save_index(replace(index, fields={n: replace(f, crc32=None) for n, f in index.fields.items()}), sidecar)
    problems = bushel.verify(path).problems
    assert [(one.kind, one.field, one.key) for one in problems] == [
        ("checksum", "data", keys([1])[0]),
        ("checksum", None, None),
    ]
    assert all("SHA-256" in one.message for one in problems)
    assert problems[0].offset == int(extents.offset[1])
    assert CliRunner().invoke(app, ["verify", str(path)]).exit_code == 1


def test_diff_compares_them(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.index(path, sha256="values")
    shutil.copytree(path, tmp_path / "copy")
    one, other = bushel.open(path), bushel.open(tmp_path / "copy")
    assert bushel.diff(one, other).same
    assert bushel.diff(one[2:5], other[::-1]).fields["data"].changed.size == 0
    for folder in (path, tmp_path / "copy"):  # without the CRC-32
        for sidecar in (folder / ".bushel").glob("shard-*.safetensors"):
            index = load_index(sidecar)
            save_index(replace(index, fields={n: replace(f, crc32=None) for n, f in index.fields.items()}), sidecar)
    assert bushel.diff(bushel.open(path), bushel.open(tmp_path / "copy")).same
    file = tmp_path / "copy/shard-000000.tar"
    data = bytearray(file.read_bytes())
    data[int(bushel.open(path).shards[0].index.fields["data"].offset[1]) + 3] ^= 1
    file.write_bytes(data)
    bushel.index(tmp_path / "copy", force=True, checksums=False)
    found = bushel.diff(bushel.open(path), bushel.open(tmp_path / "copy"))
    assert found.fields["data"].changed.tolist() == [1]
    assert found.fields["data"].unknown.tolist() == []


def test_they_follow_the_data(tmp_path: Path) -> None:
    """Appended samples get them, a changed file gets another one, and erased values lose theirs."""
    path = write(tmp_path / "data", "tar")
    bushel.index(path, sha256="values,files")
    before = [file.sha256 for shard in bushel.open(path).shards for file in shard.index.files]
    spec = bushel.open(path).spec
    sample = bushel.open(path).read([0], decode=False)[0]
    with bushel.Writer(path, spec, container="tar", mode="append") as writer:
        writer.append({name: value for name, value in sample.items() if name != "__key__"}, key="new")
    ds = bushel.open(path)
    assert ds.column("data.bytes.sha256")[len(ds) - 1] == digest(sample["data"])
    bushel.index(path, sha256="files")
    after = [file.sha256 for shard in bushel.open(path).shards for file in shard.index.files]
    assert after[: len(before) - 1] == before[:-1]
    assert all(each is not None for each in after)
    bushel.remove(path, keys=keys([1]), reason="opt-out")
    bushel.erase(path)
    first, *rest = (file.sha256 for shard in bushel.open(path).shards for file in shard.index.files)
    assert first is None
    assert None not in rest
    assert bushel.open(path).shards[0].index.columns["data.bytes.sha256"].piece(slice(1, 2)).plain() == [None]
    assert bushel.verify(path).ok
    bushel.index(path, sha256="files")
    assert bushel.verify(path).ok


def test_they_are_exported_and_converted(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    ds = bushel.index(path, sha256="values,files")
    bushel.convert(path, tmp_path / "bag", container="bag")
    assert "data.bytes.sha256" in bushel.open(tmp_path / "bag").columns
    assert bushel.open(tmp_path / "bag").column("data.bytes.sha256").tolist() == ds.column("data.bytes.sha256").tolist()
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    file = ds.export_index(tmp_path / "index.parquet")
    assert pq.read_table(file)["data.bytes.sha256"].to_pylist() == ds.column("data.bytes.sha256").tolist()
    again = bushel.open(file)
    assert again.column("data.bytes.sha256").tolist() == ds.column("data.bytes.sha256").tolist()
    assert [f.sha256 for s in again.shards for f in s.index.files] == [
        f.sha256 for s in ds.shards for f in s.index.files
    ]


def test_on_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    run("index", "--sha256", "files", path)
    assert "data.bytes.sha256" not in bushel.open(path).columns
    assert "SHA-256 compared" in run("verify", path)
    assert "give 'values', 'files', or both" in fails("index", "--sha256", "crc", path)
    with safe_open(path / ".bushel/shard-000000.tar.safetensors", "numpy") as sidecar:
        assert '"sha256":["' in sidecar.metadata()["bushel"]


def test_a_forged_header_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.index(path, sha256="files")
    sidecar = path / ".bushel/shard-000000.tar.safetensors"
    index = load_index(sidecar)
    save_index(replace(index, files=tuple(replace(each, sha256="zz") for each in index.files)), sidecar)
    with pytest.raises(bushel.FormatError, match="not an index"):
        load_index(sidecar)

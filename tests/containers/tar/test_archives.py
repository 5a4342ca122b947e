"""The tar container: archives of webdataset 1.0.2 and GNU tar byte for byte, both ways."""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.containers.summed import summed_table
from tests.containers.tar.archives import SMALL, archive, as_webdataset, content, read, shard_of, without_description
from tests.containers.writing import ShardInProgress, same_table, stored_samples, write_shard

from bushel._dataset.open.binding import with_checksums
from bushel._index.shard import Shard
from bushel._index.table import MISSING, opener
from bushel.codecs import get_codec
from bushel.containers.base import ReadOptions, WriteOptions
from bushel.containers.tar import CONTAINER
from bushel.containers.tar.writer import end_of_archive, header_of
from bushel.errors import FormatError, SpecError
from bushel.kernels import crc32
from bushel.spec import parse_spec

# What webdataset 1.0.2 writes for {"__key__": "a", "cls": 3, "txt": "hi"} with mtime=0: all bytes that are not zero.
GOLDEN = {
    0x0000: b"a.cls",
    0x0064: b"0000444\x000000000\x000000000\x00",
    0x007C: b"00000000001\x0000000000000\x00011505\x00 0",
    0x0101: b"ustar\x0000bigdata",
    0x0129: b"bigdata",
    0x0200: b"3",
    0x0400: b"a.txt",
    0x0464: b"0000444\x000000000\x000000000\x00",
    0x047C: b"00000000002\x0000000000000\x00011544\x00 0",
    0x0501: b"ustar\x0000bigdata",
    0x0529: b"bigdata",
    0x0600: b"hi",
}


def golden_bytes() -> bytes:
    archive = bytearray(10240)
    for at, text in GOLDEN.items():
        archive[at : at + len(text)] = text
    return bytes(archive)


# What the originals wrote

READABLE = ["webdataset-1.0.2", "gnu-tar-1.34", "webdataset-0.2.111-wids"]


@pytest.mark.parametrize("writer", READABLE)
def test_golden_datasets_are_read_exactly(golden: Path, writer: str) -> None:
    read_any = False
    for manifest in sorted((golden / writer).glob("*/manifest.json")):
        wanted = json.loads(manifest.read_text())
        if wanted.get("stream"):
            continue
        shards = CONTAINER.shards(manifest.parent / "data")
        assert shards is not None
        assert [shard.name for shard in shards] == sorted(shard.name for shard in shards)
        indexes = [summed_table(CONTAINER, shard) for shard in shards]
        codecs = {name: column.codec for index in indexes for name, column in index.fields.items()}
        samples = [
            sample for shard, index in zip(shards, indexes, strict=True) for sample in stored_samples(shard, index)
        ]
        assert [key for key, _ in samples] == [sample["key"] for sample in wanted["samples"]], manifest
        for (key, fields), sample in zip(samples, wanted["samples"], strict=True):
            assert set(fields) == set(sample["fields"]), key
            for name, value in fields.items():
                expected = sample["fields"][name]
                assert hashlib.sha256(value).hexdigest() == expected["sha256"], (key, name)
                if "value" in expected:
                    assert get_codec(codecs[name]).decode(value) == expected["value"], (key, name)
        read_any = True
    assert read_any


def test_codecs_come_from_extensions(tmp_path: Path) -> None:
    names = ["cls", "left.jpg", "txt.gz", "depth.png16", "pyd"]
    data = archive([(f"a.{name}", b"0") for name in names])
    shard = shard_of(tmp_path, data)
    columns = CONTAINER.index(shard, ReadOptions()).fields
    assert {name: (column.field.type, column.codec) for name, column in columns.items()} == {
        "cls": ("cls", "cls"),
        "left.jpg": ("jpg", "jpg"),
        "txt.gz": ("gzip(utf8)", "gzip(utf8)"),
        "depth.png16": ("bytes", "bytes"),
        "pyd": ("bytes", "bytes"),
    }


# Writing the same bytes


def test_writes_the_golden_bytes(tmp_path: Path) -> None:
    shard, index = write_shard(CONTAINER, tmp_path, {"txt": "utf8", "cls": "int"}, [("a", {"txt": b"hi", "cls": b"3"})])
    assert (tmp_path / shard.files[0]).read_bytes() == golden_bytes()
    assert shard.files == ("shard-000000.tar",)
    assert {name: (int(c.offset[0]), int(c.length[0])) for name, c in index.fields.items()} == {
        "txt": (0x600, 2),
        "cls": (0x200, 1),
    }
    assert index.fields["txt"].crc32 is not None
    assert index.fields["txt"].crc32[0] == crc32(b"hi")


def test_an_archive_without_samples_is_the_original_s(tmp_path: Path) -> None:
    shard, index = write_shard(CONTAINER, tmp_path, {"txt": "utf8"}, [])
    assert (tmp_path / shard.files[0]).read_bytes() == as_webdataset([]) == bytes(10240)
    assert index.samples == 0
    assert CONTAINER.index(shard, ReadOptions()).samples == 0


@pytest.mark.parametrize(
    "name",
    [
        "a.cls",
        "n" * 96 + ".cls",
        "n" * 97 + ".cls",
        "d/" * 120 + "n.cls",
        "été/中文.jpg",
        "\udcff\udcfe.bin",
        "a b.txt",
    ],
)
@pytest.mark.parametrize("size", [0, 1, 511, 512, 8**11 - 1, 8**11, 1 << 40])
def test_headers_are_those_of_tarfile(name: str, size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode, member.uname, member.gname = size, 0o444, "bigdata", "bigdata"
    assert header_of(name, size) == member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(SpecError, match="cannot be encoded as UTF-8"):
        header_of("\ud800.txt", 0)


@pytest.mark.parametrize("position", [0, 512, 1024, 9216, 9728, 10240, 10752])
def test_archives_end_as_tarfile_ends_them(position: int) -> None:
    end = end_of_archive(position)
    assert len(end) >= 1024
    assert not any(end)
    assert (position + len(end)) % 10240 == 0
    assert len(end) < 1024 + 10240


def test_buffers_of_all_kinds_are_written(tmp_path: Path) -> None:
    values = [
        b"abc",
        bytearray(b"abc"),
        memoryview(b"xabcx")[1:4],
        np.frombuffer(b"abc", np.uint8),
        b"",
        memoryview(b""),
    ]
    array = np.arange(6, dtype=np.uint16).reshape(2, 3)
    spec = {"bin": "bytes"}
    samples = [(f"{n:02d}", {"bin": value}) for n, value in enumerate([*values, array])]
    shard, index = write_shard(CONTAINER, tmp_path, spec, samples)
    expected = [b"abc"] * 4 + [b""] * 2 + [array.tobytes()]
    assert [fields["bin"] for _, fields in stored_samples(shard, index)] == expected


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="./\0\n"), min_size=1, max_size=40)
PATHS = st.builds("/".join, st.lists(KEYS, min_size=1, max_size=4))
VALUES = st.one_of(st.binary(max_size=30), st.sampled_from([b"x" * 511, b"x" * 512, b"x" * 513]))
SPEC = {"image": "jpg", "label": "int", "text": "utf8", "left.jpg": "jpg", "raw": "bytes", "frames": "jpg[]"}
SAMPLES = st.lists(
    st.tuples(
        PATHS,
        st.fixed_dictionaries(
            {"label": VALUES},
            optional={
                **dict.fromkeys(["image", "text", "left.jpg", "raw"], VALUES),
                "frames": st.lists(VALUES, max_size=3),
            },
        ),
    ),
    max_size=8,
    unique_by=lambda sample: sample[0],
)


@given(samples=SAMPLES)
def test_a_written_dataset_is_read_without_the_index(
    samples: list[tuple[str, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    for key, _ in samples:
        assume(not re.match(r"__[^/]*__(/|$)", key))
    root = tmp_path_factory.mktemp("tar")
    shard, ours = write_shard(CONTAINER, root, SPEC, samples)
    assert stored_samples(shard, ours) == [(key, fields) for key, fields in samples]
    found = summed_table(CONTAINER, shard, parse_spec(SPEC))
    same_table(ours, found)
    assert stored_samples(shard, found) == [(key, {"frames": [], **fields}) for key, fields in samples]
    for name, column in found.fields.items():
        assert ours.fields[name].field == column.field
        assert ours.fields[name].codec == column.codec
        np.testing.assert_array_equal(ours.fields[name].crc32, column.crc32)
    names = {"image": "image.jpg", "label": "label.cls", "raw": "raw.bin"}
    flat = [
        (
            key,
            {names.get(name, name): value for name, value in fields.items() if name != "frames"}
            | {f"frames.{n:06d}.jpg": value for n, value in enumerate(fields.get("frames", []))},
        )
        for key, fields in samples
    ]
    described = (root / shard.files[0]).read_bytes()
    plain = without_description(described)
    assert plain == as_webdataset(flat)
    assert (described != plain) == bool(samples)
    undeclared = CONTAINER.index(shard, ReadOptions())  # the archive says the same as the spec
    assert stored_samples(shard, undeclared) == [(key, {"frames": [], **fields}) for key, fields in samples if samples]
    (root / shard.files[0]).write_bytes(plain)
    assert stored_samples(shard, CONTAINER.index(shard, ReadOptions())) == flat


def test_a_killed_writer_goes_on(tmp_path: Path) -> None:
    samples = [(f"{n}", {"txt": b"%d" % n * 600, "jpg": b"j" * n}) for n in range(6)]
    spec = {"txt": "utf8", "jpg": "jpg"}
    whole, _ = write_shard(CONTAINER, tmp_path / "whole", spec, samples)
    progress = ShardInProgress(CONTAINER, tmp_path / "killed", spec)
    progress.append(samples[:4])
    progress.kill_and_resume()
    progress.append(samples[4:])
    progress.finish()
    assert content(progress.shard) == content(whole)


def test_an_archive_of_the_original_is_continued(tmp_path: Path) -> None:
    old = [("a", {"jpg": b"1", "emb": b"22"}), ("b", {"jpg": b"333", "emb": b""})]
    new = [("c", {"jpg": b"4" * 700, "emb": b"5"})]
    shard_of(tmp_path, as_webdataset(old), "train.tar")
    progress = ShardInProgress(CONTAINER, tmp_path, {"jpg": "jpg", "emb": "bytes"}, single=True, name="train.tar")
    progress.reopen()
    progress.append(new)
    ours = progress.finish()
    assert (tmp_path / "train.tar").read_bytes() == as_webdataset(old + new)
    assert stored_samples(progress.shard, ours) == old + new
    same_table(ours, CONTAINER.index(progress.shard, ReadOptions()))


def test_members_after_the_last_sample_survive_continuing(tmp_path: Path) -> None:
    shard_of(tmp_path, archive([("a.txt", b"1"), ("README", bytes(2000))]), "x.tar")
    progress = ShardInProgress(CONTAINER, tmp_path, {"txt": "utf8"}, single=True, name="x.tar")
    progress.reopen()
    progress.append([("b", {"txt": b"2"})])
    progress.finish()
    with tarfile.open(tmp_path / "x.tar") as tar:
        assert [(member.name, member.size) for member in tar] == [("a.txt", 1), ("README", 2000), ("b.txt", 1)]


def test_added_shards_spell_plain_bytes_as_the_shards_before(tmp_path: Path) -> None:
    old = shard_of(tmp_path, as_webdataset([("a", {"emb": b"1"})]), "train-7.tar")
    shard, _ = write_shard(CONTAINER, tmp_path, {"emb": "bytes"}, [("b", {"emb": b"2"})], there=[old])
    assert shard.name == "train-8.tar"
    assert content(shard) == as_webdataset([("b", {"emb": b"2"})])
    alone, _ = write_shard(CONTAINER, tmp_path / "new", {"emb": "bytes"}, [("b", {"emb": b"2"})])
    assert without_description(content(alone)) == as_webdataset([("b", {"emb.bin": b"2"})])


def test_a_sample_that_failed_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Any:
        yield b"one"
        raise RuntimeError("the camera is gone")

    progress = ShardInProgress(CONTAINER, tmp_path, {"frames": "jpg[]", "txt": "utf8"})
    progress.append([("a", {"frames": [b"x"], "txt": b"1"})])
    before = progress.staging.positions
    with pytest.raises(RuntimeError, match="camera"):
        progress.append([("b", {"frames": broken(), "txt": b"2"})])
    progress.abandon(1, before)
    progress.append([("c", {"frames": iter([b"y", b"z"]), "txt": b"3"})])
    index = progress.finish()
    assert stored_samples(progress.shard, index) == [
        ("a", {"frames": [b"x"], "txt": b"1"}),
        ("c", {"frames": [b"y", b"z"], "txt": b"3"}),
    ]
    same_table(index, CONTAINER.index(progress.shard, ReadOptions(spec=parse_spec({"frames": "jpg[]", "txt": "utf8"}))))


# Names


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"Image": "jpg"}, "extensions: use 'image'"),
        ({"a/b": "jpg"}, "slash"),
        ({"a..jpg": "jpg"}, "empty part"),
        ({"_x": "jpg"}, "webdataset reserves"),
        ({"image": "jpg", "image.jpg": "jpg"}, "would both have the extension `.image.jpg`"),
        ({"frames": "jpg[]", "frames.000001.jpg": "jpg"}, "would be read as elements of the sequence"),
    ],
)
def test_specs_that_would_not_come_back_are_refused(spec: dict[str, str], reason: str) -> None:
    with pytest.raises(SpecError, match=re.escape(reason)):
        CONTAINER.layout(parse_spec(spec), WriteOptions(keyed=True))


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "empty"),
        ("a.b", "first dot.* keys=lambda key: key.replace"),
        ("d/.", "first dot"),
        ("/a", "slash"),
        ("a/", "slash"),
        ("a/../b", "would leave the folder"),
        ("a\0", "zero byte"),
        ("a\nb", "line break"),
        ("__a__", "skip names"),
        ("__a__/b", "skip names"),
    ],
)
def test_keys_that_would_not_come_back_are_refused(key: str, reason: str, tmp_path: Path) -> None:
    progress = ShardInProgress(CONTAINER, tmp_path, {"txt": "utf8"})
    with pytest.raises(SpecError, match=reason):
        progress.append([(key, {"txt": b"1"})])
    assert progress.staging.positions == {"shard-000000.tar": 0}
    progress.staging.discard()


def test_a_sample_without_members_is_refused(tmp_path: Path) -> None:
    progress = ShardInProgress(CONTAINER, tmp_path, {"frames": "jpg[]"})
    nothings: list[dict[str, list[bytes]]] = [{}, {"frames": []}]
    for nothing in nothings:
        with pytest.raises(SpecError, match="has no fields"):
            progress.append([("a", nothing)])
    with pytest.raises(SpecError, match="under a key"):
        progress.append([(None, {"frames": [b"1"]})])
    progress.staging.discard()


# Grouping


def test_members_are_grouped_by_adjacency_and_fields_come_in_order(tmp_path: Path) -> None:
    data = archive(
        [
            ("a.JPG", b"1"),
            ("ignored", b"x"),
            ("a.cls", b"2"),
            ("b.cls", b"3"),
            ("a.txt", b"4"),
            ("__meta__/x.json", b"x"),
            ("c.", b"5"),
            ("\udcff.bin", b"6"),
            ("d.caf\udce9", b"7"),
        ]
    )
    assert read(tmp_path, data) == [
        ("a", {"jpg": b"1", "cls": b"2"}),
        ("b", {"cls": b"3"}),
        ("a", {"txt": b"4"}),
        ("c", {".": b"5"}),
        ("\udcff", {"bin": b"6"}),
        ("d", {"caf\\xe9": b"7"}),
    ]
    index = CONTAINER.index(shard_of(tmp_path, data), ReadOptions())
    assert list(index.fields) == ["jpg", "cls", "txt", ".", "bin", "caf\\xe9"]
    assert index.fields["jpg"].length.tolist() == [1, *[MISSING] * 5]
    assert index.keys is not None
    assert index.keys.duplicates() == ["a"]


def test_only_files_count(tmp_path: Path) -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        for kind, name in [
            (tarfile.DIRTYPE, "a.d"),
            (tarfile.SYMTYPE, "a.link"),
            (tarfile.LNKTYPE, "a.hard"),
            (tarfile.REGTYPE, "a.txt"),
            (tarfile.AREGTYPE, "a.old"),
            (tarfile.CONTTYPE, "a.cont"),
            (tarfile.FIFOTYPE, "a.fifo"),
        ]:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "x"
            tar.addfile(member)
    assert read(tmp_path, target.getvalue()) == [("a", {"txt": b"", "old": b"", "cont": b""})]


def test_a_spec_gives_fields_other_names_and_joins_sequences(tmp_path: Path) -> None:
    data = archive(
        [
            ("a.frames.000001.jpg", b"1"),
            ("a.frames.000000.jpg", b"0"),
            ("a.frames.10.jpg", b"10"),
            ("a.label.cls", b"3"),
            ("a.extra", b"{}"),
            ("b.frames.x.jpg", b"x"),
            ("b.image.jpg", b"y"),
        ]
    )
    spec = {"frames": "jpg[]", "label": "int", "extra": "json", "image.jpg": "bytes", "absent": "utf8"}
    assert read(tmp_path, data, spec) == [
        ("a", {"frames": [b"0", b"1", b"10"], "label": b"3", "extra": b"{}"}),
        ("b", {"frames": [], "frames.x.jpg": b"x", "image.jpg": b"y"}),
    ]
    index = CONTAINER.index(shard_of(tmp_path, data), ReadOptions(spec=parse_spec(spec)))
    assert {name: (column.field.type, column.codec) for name, column in index.fields.items()} == {
        "frames": ("jpg[]", "jpg"),
        "label": ("int", "cls"),
        "extra": ("json", "json"),
        "frames.x.jpg": ("jpg", "jpg"),
        "image.jpg": ("bytes", "bytes"),
        "absent": ("utf8", "utf8"),
    }


@pytest.mark.parametrize("names", [("a.jpg", "a.JPG"), ("a.frames.1.jpg", "a.frames.01.jpg"), ("a.__key__", "b.txt")])
def test_two_members_for_one_field_are_an_error(tmp_path: Path, names: tuple[str, str]) -> None:
    data = archive([("0.txt", b""), *((name, b"x") for name in names)])
    with pytest.raises(FormatError, match=r"has a member for the field|reserved for the key") as caught:
        read(tmp_path, data, {"frames": "jpg[]"})
    assert caught.value.file == str(tmp_path / "x.tar")
    if "__key__" not in names[0]:
        assert caught.value.offset == 512 + 1024


# Files and folders


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ([], "shard-000000.tar"),
        (["train-000003.tar"], "train-000004.tar"),
        (["a.tar", "b.tar"], "b_000002.tar"),
        (["x9.tar"], "x9_000010.tar"),
        (["x-05.tar", "x-07.tar"], "x-08.tar"),
        (["x-99.tar"], "x-99_000100.tar"),
    ],
)
def test_new_shards_sort_after_the_old(tmp_path: Path, there: list[str], name: str) -> None:
    before = [Shard(tmp_path, old, (old,)) for old in there]
    layout = CONTAINER.layout(parse_spec({"txt": "utf8"}), WriteOptions(keyed=True))
    assert CONTAINER.shard(tmp_path, layout, before, None).name == name
    assert sorted([*there, name])[-1] == name


def test_a_single_file_is_called_as_the_user_says(tmp_path: Path) -> None:
    layout = CONTAINER.layout(parse_spec({"txt": "utf8"}), WriteOptions(keyed=True, single=True))
    assert CONTAINER.shard(tmp_path, layout, (), "val.tar").files == ("val.tar",)
    with pytest.raises(SpecError, match=r"\.tar"):
        CONTAINER.shard(tmp_path, layout, (), "val.zip")


def test_shards_are_tar_files_only(tmp_path: Path) -> None:
    for name in ("b.tar", "a.tar", "a.tar.gz", "notes.txt", ".hidden.tar"):
        (tmp_path / name).write_bytes(b"")
    assert [shard.name for shard in CONTAINER.shards(tmp_path) or []] == ["a.tar", "b.tar"]
    assert [shard.name for shard in CONTAINER.shards(tmp_path / "a.tar.gz") or []] == ["a.tar.gz"]
    assert CONTAINER.shards(tmp_path / "notes.txt") is None
    (tmp_path / "empty").mkdir()
    assert CONTAINER.shards(tmp_path / "empty") is None


def test_archives_at_other_paths_are_scanned_in_windows() -> None:
    upath = pytest.importorskip("upath")
    folder = upath.UPath("memory://bushel-tar")
    folder.mkdir(exist_ok=True)
    samples = [(f"{n:03d}", {"txt": b"%d" % n, "jpg": b"j" * (n * 100)}) for n in range(50)]
    (folder / "x.tar").write_bytes(as_webdataset(samples))
    [shard] = CONTAINER.shards(folder / "x.tar") or []
    index = summed_table(CONTAINER, shard)
    assert [key for key, _ in samples] == [index.keys[n] for n in range(50)] if index.keys else False
    column = index.fields["jpg"]
    assert column.length.tolist() == [n * 100 for n in range(50)]
    assert column.crc32 is not None
    assert column.crc32.tolist() == [crc32(b"j" * (n * 100)) for n in range(50)]


def test_progress_is_reported(tmp_path: Path) -> None:
    seen: list[int] = []
    shard = shard_of(tmp_path, SMALL["plain"])
    index = CONTAINER.index(shard, ReadOptions(report=seen.append))
    assert sum(seen) == len(SMALL["plain"])
    seen.clear()
    with_checksums(index, opener(index, shard), report=seen.append)
    assert sum(seen) == 1 + 2 + 600

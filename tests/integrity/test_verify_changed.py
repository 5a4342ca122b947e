"""verify of shards that changed after they were indexed, and its report of bytes that it cannot compare."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from tests.containers.read_in_place import copy
from tests.formats import each_format
from tests.integrity.small import key, overwrite, reading, write

import bushel
from bushel.errors import CorruptError
from bushel.integrity import VerifyResult

Generation = Literal["B", "C"] | None


def kinds(report: VerifyResult) -> list[str]:
    return [problem.kind for problem in report.problems]


def replace_data(source: Path, target: Path) -> None:
    """Put the data files of one dataset in the place of another's data files, and keep its sidecars."""
    for path in source.rglob("*"):
        if path.is_file() and ".bushel" not in path.parts:
            shutil.copyfile(path, target / path.relative_to(source))


def test_a_photo_that_is_empty_now_is_named(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number in range(6):
        (tmp_path / f"photos/{number}.jpg").write_bytes(b"photo %d" % number)
    bushel.index(tmp_path / "photos")
    for number in (1, 2, 4):
        (tmp_path / f"photos/{number}.jpg").write_bytes(b"")
    named = [problem.file for problem in bushel.verify(tmp_path / "photos").problems]
    assert named == [str(tmp_path / f"photos/{number}.jpg") for number in (1, 2, 4)]
    with pytest.raises(
        CorruptError, match="sample '1', field 'image' at 1.jpg@0; .*'2'.* at 2.jpg@0; .*'4'.* at 4.jpg@0"
    ):
        bushel.index(tmp_path / "photos")


def test_damage_after_a_stored_zip_became_a_compressed_one_is_found(tmp_path: Path) -> None:
    path = tmp_path / "texts.zip"
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        with zipfile.ZipFile(path, "w", method) as archive:
            archive.writestr("a.txt", "".join(map(str, range(999))))
        if method == zipfile.ZIP_STORED:
            bushel.index(path).close()
    assert bushel.open(path)[0]["txt"].startswith("0123")
    assert bushel.verify(path).ok
    overwrite(path, 100, b"damage")
    assert not bushel.verify(path).ok


@each_format
def test_a_value_that_changed_is_named(tmp_path: Path, container: str, generation: Generation) -> None:
    folder = write(tmp_path / "data", container, generation, shard_samples=None)
    file, offset = reading(folder).location(2, "image")
    overwrite(Path(file), offset + 300, b"changed", keep_time=False)
    os.utime(file, ns=(5, 5))
    report = bushel.verify(folder)
    assert not report.ok
    assert report.checksums_checked
    found = {(p.kind, p.key, p.field) for p in report.problems if p.key is not None}
    if container != "ffrecord":  # whose own checksum is that of the whole record
        assert found == {("checksum", key(2), "image")}
        assert report.verdict == "1 problem"
        assert report.problems[0].offset == offset


def test_files_that_fields_name_are_files_of_the_index(tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text("x" * number)
    lines = [f'{{"note": "{number}.txt"}}\n' for number in range(3)]
    (tmp_path / "a.jsonl").write_text("".join(lines))
    ds = bushel.index(tmp_path / "a.jsonl", spec={"note": "utf8(path)"}, columns=["note.length"])
    assert list(ds.column("note.length")) == [0, 1, 2]
    assert bushel.verify(tmp_path / "a.jsonl").problems == ()
    (tmp_path / "1.txt").write_text("y")
    os.utime(tmp_path / "1.txt", ns=(5, 5))
    assert kinds(bushel.verify(tmp_path / "a.jsonl")) == ["checksum"]
    (tmp_path / "1.txt").unlink()
    [problem] = bushel.verify(tmp_path / "a.jsonl").problems
    assert "names files that cannot be found: '1.txt'" in str(problem)


def in_bag(folder: Path) -> Path:
    with bushel.Writer(folder, {"label": "int", "note": "utf8"}, container="bag", shard_samples=3, sync=False) as out:
        for number in range(6):
            out.append({"label": number, "note": f"note {number}"}, key=key(number))
    return folder / "000001/spec.json"


def in_mds(folder: Path) -> Path:
    bushel.index(copy("mds-plain", folder.parent, folder.name))
    return folder / "index.json"


def in_litdata(folder: Path) -> Path:
    bushel.index(copy("litdata-plain", folder.parent, folder.name))
    return folder / "index.json"


@pytest.mark.parametrize("lost", [False, True], ids=["with its index", "without"])
@pytest.mark.parametrize(
    ("make", "field", "was", "is_now"),
    [
        (in_bag, "label", "int", "u64"),
        (in_bag, "label", "int", "bytes"),
        (in_bag, "label", "int", "float"),
        (in_mds, "label", "int", "uint32"),
        (in_mds, "caption", "str", "bytes"),
        (in_litdata, "caption", "str", "bytes"),
        (in_litdata, "label", "int", "float"),
    ],
)
def test_a_type_that_changed_in_the_files_is_named(
    make: Callable[[Path], Path], field: str, was: str, is_now: str, lost: bool, tmp_path: Path
) -> None:
    """No value differs, and `open` gives others: 1.5 for 1, or bytes for a text."""
    file = make(tmp_path / "data")
    assert bushel.verify(tmp_path / "data").verdict == "ok"
    file.write_text(file.read_text().replace(f'"{was}"', f'"{is_now}"'))
    if lost:
        for sidecar in (tmp_path / "data").rglob("*.safetensors"):
            sidecar.unlink()
    problems = [problem for problem in bushel.verify(tmp_path / "data").problems if not problem.warning]
    assert ("index", field) in [(problem.kind, problem.field) for problem in problems]
    assert all("restore them, or accept the new type with `bushel index --force`" in each.message for each in problems)
    if not lost:
        with pytest.raises(bushel.errors.FormatError, match="--force"):
            bushel.index(tmp_path / "data")
    bushel.index(tmp_path / "data", force=True)
    assert bushel.verify(tmp_path / "data").verdict == "ok"


@each_format
def test_samples_that_were_appended(tmp_path: Path, container: str, generation: Generation) -> None:
    folder = write(tmp_path / "a", container, generation, count=4, shard_samples=None)
    replace_data(write(tmp_path / "b", container, generation, count=6, shard_samples=None), folder)
    report = bushel.verify(folder)
    assert kinds(report) == ["appended"]
    assert report.problems[0].message.startswith("2 samples were added")
    assert not report.ok
    without = bushel.verify(folder, checksums=False)
    assert kinds(without) == ["appended"]
    bushel.index(folder)
    assert bushel.verify(folder).verdict == "ok"


@each_format
def test_a_shard_that_was_replaced(tmp_path: Path, container: str, generation: Generation) -> None:
    folder = write(tmp_path / "a", container, generation, count=6, shard_samples=None)
    replace_data(write(tmp_path / "b", container, generation, count=4, shard_samples=None), folder)
    report = bushel.verify(folder)
    assert kinds(report) == ["replaced"]
    assert "2 of 6 recorded samples are gone" in report.problems[0].message
    with pytest.raises(bushel.errors.FormatError, match="--force"):
        bushel.index(folder)
    bushel.index(folder, force=True)
    assert bushel.verify(folder).verdict == "ok"


def test_a_shard_of_other_samples(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "tar", count=3, shard_samples=None)
    with bushel.Writer(tmp_path / "b", {"image": "bytes"}, container="tar", sync=False) as writer:
        writer.append({"image": b"other"}, key="other")
    replace_data(tmp_path / "b", folder)
    report = bushel.verify(folder)
    assert kinds(report) == ["replaced"]
    assert "3 of 3 recorded samples are gone" in report.problems[0].message
    assert "1 samples are new" in report.problems[0].message


def test_a_damaged_structure_does_not_hide_the_values(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "tar", shard_samples=None)
    file = folder / "shard-000000.tar"
    size = file.stat().st_size
    overwrite(file, 0, b"damaged", keep_time=False)
    os.utime(file, ns=(5, 5))
    report = bushel.verify(folder)
    assert kinds(report) == ["format"]
    assert report.checksums_checked, "all values match the recorded checksums"
    os.truncate(file, size // 2)
    report = bushel.verify(folder)
    assert set(kinds(report)) == {"format"}
    assert report.problems[-1].file == str(file)
    assert "it lacks " in report.problems[-1].message


def test_the_file_that_lacks_recorded_values_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "gulp", shard_samples=None)
    [meta] = folder.glob("*.gmeta")
    os.truncate(meta, meta.stat().st_size // 2)
    assert {problem.file for problem in bushel.verify(folder).problems} == {str(meta)}


def test_the_same_values_written_again(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "tar", shard_samples=None)
    with open(folder / "shard-000000.tar", "ab") as file:
        file.write(bytes(512))
    report = bushel.verify(folder)
    assert kinds(report) == ["stale"]
    assert report.verdict == "ok"
    assert report.checksums_checked


@each_format
def test_ok_is_printed_for_bytes_that_were_compared(tmp_path: Path, container: str, generation: Generation) -> None:
    folder = write(tmp_path / "a", container, generation)
    report = bushel.verify(folder)
    assert report.verdict == "ok"
    assert report.bytes_total == report.bytes_checked > 0
    assert report.bytes_unchecked == 0
    report = bushel.verify(folder, checksums=False)
    total = f"{report.bytes_total:,}"
    assert report.verdict == f"intact, but {total} of {total} bytes were not compared with a checksum"
    for sidecars in list(folder.rglob(".bushel")):
        shutil.rmtree(sidecars)
    report = bushel.verify(folder)
    total = f"{report.bytes_total:,}"
    assert report.ok
    if container == "ffrecord":
        assert report.verdict == "ok"
    else:
        assert report.verdict == f"intact, but {total} of {total} bytes have no checksum to compare with"
        assert "intact, but" in repr(report)


def test_one_shard_without_checksums_among_others(tmp_path: Path) -> None:
    folder = write(tmp_path / "a", "tar")
    for name in ("shard-000001.tar.safetensors", "manifest.json"):
        (folder / ".bushel" / name).unlink()
    report = bushel.verify(folder)
    assert report.ok
    assert 0 < report.bytes_unchecked < report.bytes_total
    assert report.verdict.startswith("intact, but ")
    assert not report.checksums_checked


@each_format
def test_repair_leaves_out_values_that_changed(tmp_path: Path, container: str, generation: Generation) -> None:
    """The file grew and changed, so its table is not used to read; its checksums are still compared."""
    folder = write(tmp_path / "a", container, generation, count=4, shard_samples=None)
    replace_data(write(tmp_path / "b", container, generation, count=6, shard_samples=None), folder)
    file, offset = reading(tmp_path / "b").location(2, "image")
    overwrite(folder / Path(file).relative_to(tmp_path / "b"), offset + 300, b"changed", keep_time=False)
    done = bushel.repair(folder, tmp_path / "out")
    if container != "ffrecord":  # a damaged record hides what was appended from the recorded table
        assert (done.samples, done.lost) == (5, 1)
    assert {(each.kind, each.key) for each in done.problems if each.key} <= {("checksum", key(2))}
    assert key(2) not in reading(tmp_path / "out").keys
    assert bushel.verify(tmp_path / "out").verdict == "ok"


def test_keys_that_changed_although_no_value_did(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"data": "bytes"}, container="recordio", sync=False) as writer:
        for number in range(3):
            writer.append({"data": b"value %d" % number})
    [table] = (tmp_path / "in").glob("*.idx")
    table.write_bytes(table.read_bytes().replace(b"1\t", b"one\t"))
    result = bushel.verify(tmp_path / "in")
    assert not result.ok
    [problem] = result.problems
    assert problem.kind == "replaced"
    assert "samples had positions as keys when the file was indexed, and have keys of their own now" in problem.message


def test_an_empty_sequence_whose_name_is_damaged(tmp_path: Path) -> None:
    """No bytes of a value changed, so no checksum differs."""
    with bushel.Writer(tmp_path / "x.rec", spec={"image": "bytes", "tags": "utf8[]"}) as writer:
        for number in range(3):
            writer.append({"image": b"%d" % number, "tags": [] if number == 1 else ["one"]}, key=f"key{number}")
    data = tmp_path / "x.rec"
    place = data.read_bytes().index(b"tags", data.read_bytes().index(b"key1"))
    overwrite(data, place, b"tugs", keep_time=False)
    os.utime(data, ns=(5, 5))
    report = bushel.verify(data)
    assert kinds(report) == ["replaced"]
    assert "1 sequences are recorded as empty and are missing now" in report.problems[0].message
    with pytest.raises(
        bushel.errors.FormatError, match="sequences that were empty and are missing now, or the reverse: 1"
    ):
        bushel.index(data)
    repaired = bushel.repair(data, tmp_path / "y.rec")
    assert [problem.kind for problem in repaired.problems] == ["replaced"]


@each_format
def test_sequences_that_some_samples_lack_and_others_have_empty(
    tmp_path: Path, container: str, generation: Generation
) -> None:
    """Some containers cannot distinguish the two, so a table made from its files differs from its writer's."""
    if container == "gulp" or generation == "C":
        pytest.skip("it has no sequences of texts")
    spec = {"image": "bytes", "tags": "utf8[]"}
    with bushel.Writer(tmp_path / "data", spec, container=container, generation=generation) as writer:
        for number, tags in enumerate((["one"], [], None)):
            if tags is not None:
                writer.append({"image": b"%d" % number, "tags": tags}, key=f"key{number}")
            elif container != "bag":  # whose samples have all fields
                writer.append({"image": b"%d" % number}, key=f"key{number}")
    assert bushel.verify(tmp_path / "data").verdict == "ok"
    for path in (tmp_path / "data").glob("*"):
        os.utime(path, ns=(5, 5))
    assert bushel.verify(tmp_path / "data").verdict == "ok"
    bushel.index(tmp_path / "data")


def test_empty_values_without_checksums_are_not_called_ok(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with bushel.Writer(folder, {"label": "int"}, container="bag", generation="C") as writer:
        for number in range(1, 5):
            writer.append({"label": number})
    shutil.rmtree(folder / ".bushel")
    table = folder / "label.idx"
    table.write_bytes(bytes(table.stat().st_size))
    report = bushel.verify(folder)
    assert (report.bytes_total, report.ok, report.verdict) == (0, True, "intact, but no value has a checksum")
    assert bushel.verify(folder, checksums=False).verdict == "intact, but no value was compared with a checksum"


def test_nothing_is_said_of_values_that_were_not_compared(tmp_path: Path) -> None:
    path = write(tmp_path / "d", "tar")
    shard = next(path.glob("*.tar"))
    offset = shard.read_bytes().index(b"\xff\xd8")  # of the first image
    overwrite(shard, offset + 40, b"changed", keep_time=False)
    os.utime(shard, ns=(1, shard.stat().st_mtime_ns + 10**10))
    [problem] = bushel.verify(path, checksums=False).problems
    assert (problem.kind, problem.message) == (
        "stale",
        "the file changed after it was indexed, and no checksums were compared",
    )


@pytest.mark.parametrize("kinds_in_order", [("int", "json"), ("json", "int")])
def test_classes_of_a_field_of_several_types_are_those_that_index_records(
    tmp_path: Path, kinds_in_order: tuple[str, str]
) -> None:
    for name, kind in zip("ab", kinds_in_order, strict=True):
        labels = {"label": ["cat", "dog"]} if kind == "int" else None
        with bushel.Writer(tmp_path / f"{name}.tar", {"label": kind}, labels=labels, sync=False) as writer:
            for number in range(2):
                writer.append({"label": number}, key=f"{name}{number}")
    bushel.index(tmp_path)
    assert bushel.verify(tmp_path).problems == ()

"""verify on sound datasets and on ones that were damaged in one way each."""

from __future__ import annotations

import json
import os
import shutil
import threading
import zipfile
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from tests.cli.running import run
from tests.formats import each_format
from tests.integrity.small import SPEC, flip, jpeg, key, overwrite, reading, sample, tree, write

import bushel
from bushel._runtime.progress import Progress
from bushel.containers.gulp.gmeta import Gmeta, parse_gmeta
from bushel.errors import FormatError
from bushel.integrity import Problem, VerifyResult


def kinds(report: VerifyResult) -> list[str]:
    return [problem.kind for problem in report.problems]


@each_format
def test_a_sound_dataset_has_no_problems_and_is_not_touched(
    tmp_path: Path, container: str, generation: Literal["B", "C"] | None
) -> None:
    folder = write(tmp_path / "data", container, generation)
    before = tree(folder)
    report = bushel.verify(folder, decode=True)
    assert report.problems == ()
    assert report.ok
    assert (report.samples, report.shards, report.checksums_checked, report.more) == (7, 3, True, 0)
    stored = reading(folder).read(range(7), decode=False)
    assert report.bytes_checked == sum(len(s["image"]) + len(s["label"]) for s in stored)
    assert tree(folder) == before


@each_format
def test_without_an_index_there_is_nothing_to_compare_with(
    tmp_path: Path, container: str, generation: Literal["B", "C"] | None
) -> None:
    folder = write(tmp_path / "data", container, generation)
    for sidecars in list(folder.rglob(".bushel")):
        shutil.rmtree(sidecars)
    report = bushel.verify(folder)
    assert report.problems == ()
    assert report.samples == 7
    # values packed into ffrecord's maps get checksums from the records that were just checked
    assert report.checksums_checked == (container == "ffrecord")
    assert not list(folder.rglob(".bushel"))


@each_format
def test_every_flipped_bit_is_found_with_its_sample_and_field(
    tmp_path: Path, container: str, generation: Literal["B", "C"] | None
) -> None:
    folder = write(tmp_path / "data", container, generation)
    dataset = reading(folder)
    damaged = [(1, "image"), (4, "image"), (5, "image"), (6, "image")]
    places = {place: dataset.location(*place) for place in damaged}
    dataset.close()
    for file, offset in places.values():
        flip(Path(file), offset + 300)
    report = bushel.verify(folder)
    assert not report.ok
    found = {(p.key, p.field): (p.file, p.offset) for p in report.problems if p.kind == "checksum" and p.field}
    assert found == {(key(number), field): places[number, field] for number, field in damaged}
    assert not bushel.verify(folder, checksums=False, threads=1).checksums_checked


def test_an_element_of_a_sequence_is_named(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"frames": "jpg[]"}, container="gulp", sync=False) as writer:
        writer.append({"frames": [jpeg(0), jpeg(1)]}, key="a")
        writer.append({"frames": [jpeg(2), jpeg(3), jpeg(4)]}, key="b")
    dataset = reading(tmp_path / "data")
    column = dataset.shards[0].index.fields["frames"]
    offset = int(column.offset[3])
    crc = int(column.crc32[3]) if column.crc32 is not None else -1
    flip(tmp_path / "data" / "data_0.gulp", offset + 5)
    [problem] = bushel.verify(tmp_path / "data").problems
    assert (problem.kind, problem.key, problem.field, problem.offset) == ("checksum", "b", "frames", offset)
    assert problem.message.startswith(f"element 1 should have the CRC-32 {crc:08x}, found ")


def test_samples_without_keys_are_known_by_their_position(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", SPEC, container="bag", shard_samples=2, sync=False) as writer:
        for number in range(6):
            writer.append(sample(number))
    file, offset = reading(tmp_path / "data").location(5, "image")
    flip(Path(file), offset)
    [problem] = bushel.verify(tmp_path / "data").problems
    assert (problem.kind, problem.key, problem.file, problem.offset) == ("checksum", "5", file, offset)
    assert str(problem).startswith(f"checksum: {file}@{offset}: sample '5', field 'image': should have the CRC-32 ")


def test_a_stale_index_is_a_warning_and_hides_nothing(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "ffrecord", count=2, shard_samples=None)
    file = folder / "000000.ffr"
    os.utime(file, ns=(1, 1))
    report = bushel.verify(folder)
    assert kinds(report) == []
    assert report.checksums_checked
    data = bytearray(file.read_bytes())
    data[-3] ^= 4
    file.write_bytes(data)
    report = bushel.verify(folder)
    assert kinds(report) == ["checksum"]
    assert not report.ok


def test_a_table_that_changed_silently_is_found(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "recordio", shard_samples=None)
    idx = folder / "000000.idx"
    lines = idx.read_text().splitlines()
    overwrite(idx, 0, "\n".join([lines[0].replace("000", "999"), *lines[1:]]).encode() + b"\n")
    [problem] = [p for p in bushel.verify(folder).problems if p.kind == "index"]
    assert problem.key == key(0)
    assert "999" in problem.message


def test_a_damaged_index_is_a_problem_and_the_data_are_checked_without_it(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar", shard_samples=None)
    [sidecar] = folder.glob(".bushel/*.safetensors")
    whole = sidecar.read_bytes()
    sidecar.write_bytes(whole[:100])
    report = bushel.verify(folder)
    assert kinds(report) == ["index"]
    assert report.problems[0].file == str(sidecar)
    assert report.samples == 7
    assert not report.checksums_checked
    at = whole.index(b"class 0/000")  # the text of the keys
    overwrite(sidecar, 0, whole.replace(b"class 0/000", b"class 0/00x"))
    assert whole[at:]
    assert {problem.kind for problem in bushel.verify(folder).problems} == {"index"}


def test_every_byte_of_an_index_may_be_damaged(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "gulp", count=2, shard_samples=None)
    [sidecar] = folder.glob(".bushel/*.safetensors")
    whole = sidecar.read_bytes()
    name = whole.index(b'\\"crc32\\":')
    for at in [*range(0, len(whole), 7), *range(name, name + 20)]:
        sidecar.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        assert "index" in {problem.kind for problem in bushel.verify(folder).problems}, at


def test_keys_that_are_there_twice(tmp_path: Path) -> None:
    write(tmp_path / "one", "tar", count=3, shard_samples=None)
    write(tmp_path / "two", "tar", count=5, shard_samples=None)
    first, second = tmp_path / "one" / "shard-000000.tar", tmp_path / "two" / "shard-000000.tar"
    report = bushel.verify([first, second])
    assert [(p.kind, p.key, p.file) for p in report.problems] == [("key", key(n), str(second)) for n in range(3)]
    assert str(first) in report.problems[0].message


def test_a_key_is_there_twice_beside_a_removed_sample(tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.tar" for name in "abc"]
    for number, path in enumerate(paths):
        with bushel.Writer(path, {"label": "int"}, sync=False) as writer:
            writer.append({"label": number}, key="same")
    bushel.remove(paths[1], keys=["same"], reason="twice")
    [problem] = bushel.verify(paths).problems
    assert (problem.kind, problem.key, problem.file) == ("key", "same", str(paths[2]))
    assert str(paths[0]) in problem.message


def test_two_splits_may_have_the_same_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for split in ("train", "val"):
        write(tmp_path / "in" / split, "tar")
    monkeypatch.chdir(tmp_path)
    for source in (tmp_path / "in", "in/", "./in", ".//in"):
        assert bushel.verify(source).problems == ()
        assert ": ok; 6 shards, 14 samples" in run("verify", source)
    assert ": ok; 6 shards, 14 samples" in run("verify", "in", "--split", "all")
    shutil.copy("in/val/shard-000000.tar", "in/val/shard-000009.tar")
    assert "several samples have this key" not in run("verify", "in", code=1)
    assert {problem.kind for problem in bushel.verify("in").problems} >= {"key", "stray"}
    assert "1 problem" not in run("verify", "in", "--split", "train")


def test_shards_that_number_their_classes_differently(tmp_path: Path) -> None:
    for name, names in (("a", ["cat", "dog"]), ("b", ["cat", "dog"]), ("c", ["dog", "cat"])):
        spec = {"data": "bytes", "label": "int"}
        with bushel.Writer(tmp_path / f"{name}.tar", spec, labels={"label": names}, sync=False) as writer:
            writer.append({"data": b"x", "label": 0}, key=name)
    assert bushel.verify([tmp_path / "a.tar", tmp_path / "b.tar"]).ok
    [problem] = bushel.verify(tmp_path).problems
    assert problem.kind == "labels"
    assert "class 0 is 'cat'" in problem.message
    assert str(tmp_path / "c.tar") in problem.message
    assert not problem.warning
    with pytest.raises(bushel.errors.SpecError, match="different class numbers"):
        bushel.open(tmp_path)


def test_a_shard_that_only_the_manifest_lists(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar")
    os.unlink(folder / "shard-000002.tar")
    shutil.copy(folder / "shard-000000.tar", folder / "shard-000007.tar")
    report = bushel.verify(folder)
    assert [(p.kind, p.file) for p in report.problems[:2]] == [
        ("missing", str(folder / "shard-000002.tar")),
        ("stray", str(folder / "shard-000007.tar")),
    ]
    assert {problem.kind for problem in report.problems[2:]} == {"key"}
    assert not report.problems[1].warning
    assert "`bushel index`" in report.problems[0].message


def test_an_interrupted_write_is_incomplete(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar")
    writer = bushel.Writer(folder, SPEC, container="tar", mode="append", sync=False)
    writer.append(sample(9), key="nine")
    report = bushel.verify(folder)
    writer.suspend()
    assert kinds(report) == ["incomplete", "unfinished"]
    assert not report.ok


def test_broken_shards_do_not_hide_others(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "bag", "B")
    (folder / "000000" / "spec.json").write_text("{")
    file, offset = reading(folder / "000002").location(0, "image")
    flip(Path(file), offset)
    report = bushel.verify(folder)
    assert [(p.kind, p.file) for p in report.problems] == [
        ("format", str(folder / "000000" / "spec.json")),
        ("checksum", file),
    ]
    assert report.samples == 4


def test_a_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "bag", "C", shard_samples=None)
    os.unlink(folder / "label.bag")
    assert [(p.kind, p.file) for p in bushel.verify(folder).problems] == [("missing", str(folder / "label.bag"))]


def test_decode_finds_what_was_broken_before_it_was_packed(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "words": "utf8[]"}, container="bag", sync=False) as writer:
        writer.append({"image": jpeg(0), "words": ["a"]})
        writer.append({"image": jpeg(1)[:200], "words": [b"fine", b"\xff\xfe"]})
        writer.append({"image": b"no image", "words": []})
    assert bushel.verify(tmp_path / "data").ok
    report = bushel.verify(tmp_path / "data", decode=True)
    assert [(p.kind, p.key, p.field) for p in report.problems] == [
        ("decode", "1", "image"),
        ("decode", "1", "words"),
        ("decode", "2", "image"),
    ]
    assert report.problems[1].message.startswith("element 1: codec 'utf8'")


def test_a_value_that_cannot_be_read_hides_none_that_does_not_decode(tmp_path: Path) -> None:
    path = tmp_path / "data.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, text in (("a", "{nonsense}" * 9), ("b", "{}"), ("c", "{}")):
            archive.writestr(f"{key}.json", text)
        damaged = archive.infolist()[1].header_offset + 30 + len("b.json")
    bushel.index(path)
    before, data = path.stat(), bytearray(path.read_bytes())
    data[damaged] = 0xFF  # no kind of a block of deflate
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    problems = bushel.verify(path, decode=True).problems
    assert ("decode", "a") in [(problem.kind, problem.key) for problem in problems]
    assert ("checksum", "b") in [(problem.kind, problem.key) for problem in problems]


def test_no_more_than_max_problems_are_listed_and_the_others_counted(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar", shard_samples=None)
    dataset = reading(folder)
    for position in range(7):
        file, offset = dataset.location(position, "image")
        flip(Path(file), offset)
    report = bushel.verify(folder, max_problems=3)
    assert len(report.problems) == 3
    assert report.more == 4
    assert not report.ok


def test_not_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        bushel.verify(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="this folder is empty"):
        bushel.verify(tmp_path)
    (tmp_path / "notes.doc").write_bytes(b"notes")
    with pytest.raises(FormatError, match="any container that Bushel reads"):
        bushel.verify(tmp_path)
    with pytest.raises(ValueError, match="threads=0: expected a whole number from 1"):
        bushel.verify(tmp_path, threads=0)


def test_progress_reaches_the_size_of_all_files(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "recordio")
    calls: list[tuple[int, int | None]] = []
    bushel.verify(folder, progress=lambda now: calls.append((now.done, now.total)))
    size = reading(folder).size
    assert calls[-1] == (size, size)
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_stopping_leaves_no_thread_behind(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", "tar", count=30, shard_samples=1)
    threads = set(threading.enumerate())

    def stop(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bushel.verify(folder, threads=2, progress=stop)
    assert set(threading.enumerate()) <= threads


def test_problems_read_well() -> None:
    assert str(Problem("x.tar", 512, "a", "jpg", "checksum", "is wrong")) == (
        "checksum: x.tar@512: sample 'a', field 'jpg': is wrong"
    )
    assert str(Problem(None, None, None, None, "format", "is wrong")) == "format: is wrong"
    assert Problem(None, None, None, None, "stale", "").warning


# Golden data


def test_pristine_golden_datasets_have_no_problems(golden: Path) -> None:
    seen = 0
    for manifest in sorted(golden.rglob("manifest.json")):
        content = json.loads(manifest.read_text())
        if content["container"] == "lst" or content.get("stream"):
            continue
        report = bushel.verify(str(manifest.parent / content["open"]), decode=True)
        assert report.problems == (), manifest
        assert report.samples == len(content["samples"]), manifest
        seen += 1
    assert seen > 40


def test_every_damaged_golden_dataset_is_found(golden: Path, tmp_path: Path) -> None:
    damaged = golden / "damaged"
    cases = json.loads((damaged / "damaged.json").read_text())["cases"]
    assert len(cases) > 60
    for case in cases:
        if case["revealed_by"] == "index":
            folder = tmp_path / case["base"] / case["name"]
            shutil.copytree(damaged / "base" / case["base"] / "data", folder, copy_function=shutil.copyfile)
            bushel.index(folder)
            assert bushel.verify(folder).problems == ()
            overwrite(folder / case["file"], 0, (damaged / case["open"] / case["file"]).read_bytes())
        else:
            folder = damaged / case["open"]
        report = bushel.verify(folder)
        assert not report.ok, case
        assert {Path(p.file).name for p in report.problems if p.file} & set(case["named"]), (case, report.problems)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_json_that_strict_parsers_refuse(tmp_path: Path, value: float) -> None:
    """Python writes NaN and Infinity as JSON, as GulpIO2 does, and the parser that finds extents refuses them."""
    folder = tmp_path / "data"
    with bushel.Writer(folder, {"frames": "jpg[]", "meta": "json"}, container="gulp") as writer:
        for number, score in enumerate((1.0, value)):
            image = np.full((8, 8, 3), number, np.uint8)
            writer.append({"frames": [image], "meta": {"score": score, "label": number}}, key=f"key{number}")
    assert bushel.verify(folder).verdict == "ok"
    path = folder / "meta_0.gmeta"
    overwrite(path, path.read_bytes().index(b"label"), b"lapel", keep_time=True)
    assert {(problem.kind, problem.key) for problem in bushel.verify(folder).problems} == {("checksum", "key0")}


def test_an_index_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    data, place = tmp_path / "data/rows.jsonl", tmp_path / "index"
    data.write_text('{"a": 1}\n{"a": 2}\n')
    bushel.index(data, index=place)
    assert (bushel.verify(data).verdict, bushel.verify(data, index=place).verdict == "ok") == (
        "intact, but 2 of 2 bytes have no checksum to compare with",
        True,
    )
    assert "ok" in run("verify", data, "--index", place)
    before = data.stat()
    data.write_text('{"a": 3}\n{"a": 2}\n')
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kinds(bushel.verify(data, index=place)) == ["checksum"]
    assert "should have the CRC-32" in run("verify", data, "--index", place, code=1)
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["rows.jsonl"]


def test_an_index_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "data", "tar")
    shutil.rmtree(folder / ".bushel")
    monkeypatch.setenv("BUSHEL_TABLES_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BUSHEL_INDEX", "cache")
    bushel.index(folder)
    report = bushel.verify(folder)
    assert report.verdict == "ok"
    assert report.checksums_checked
    shutil.rmtree(tmp_path / "cache")
    assert not bushel.verify(folder).checksums_checked


def test_a_file_that_tells_no_fields_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bushel.Writer(tmp_path / "chunks", {"image": "jpg", "label": "int"}, container="gulp") as writer:
        writer.append({"image": jpeg(1), "label": 5}, key="a")
    parsed = []

    def counted(text: bytes, path: str, *, unpickle: bool = False) -> Gmeta:
        parsed.append(path)
        return parse_gmeta(text, path, unpickle=unpickle)

    monkeypatch.setattr("bushel.containers.gulp.container.parse_gmeta", counted)
    assert bushel.verify(tmp_path / "chunks").verdict == "ok"
    assert len(parsed) == 1


def test_one_of_several_bags_is_not_compared_with_the_manifest_of_all(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path, {"label": "int"}, container="bag", shard_samples=2, sync=False) as writer:
        for label in range(4):
            writer.append({"label": label}, key=f"k{label}")
    for name in ("", "000000", "000001"):
        result = bushel.verify(tmp_path / name)
        assert (result.problems, result.samples) == ((), 2 if name else 4)


@pytest.mark.parametrize("missing", [1, 3])
def test_missing_padding_of_the_last_record_is_a_problem(tmp_path: Path, missing: int) -> None:
    """MXNet refuses that record. It can be read here."""
    path = tmp_path / "a.rec"
    with bushel.Writer(path, {"data": "bytes"}) as writer:
        writer.append({"data": b"12345"}, key="a")
    os.truncate(path, path.stat().st_size - missing)
    [problem] = bushel.verify(path).problems
    assert (problem.kind, problem.message) == ("format", "the padding of the last record is missing")
    assert bushel.open(path)["a"]["data"] == b"12345"
    assert bushel.repair(path, tmp_path / "b.rec").samples == 1
    assert bushel.verify(tmp_path / "b.rec").ok

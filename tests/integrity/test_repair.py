"""The intact samples of a damaged dataset are written again, byte for byte, and the others are named."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from tests.cli.running import run
from tests.formats import each_format
from tests.integrity.small import flip, key, overwrite, reading, sample, tree, write

import bushel
from bushel._runtime.progress import Progress
from bushel.errors import FormatError

Generation = Literal["B", "C"] | None
DATA = {"bag": "image.bag", "tar": "*.tar", "ffrecord": "*.ffr", "gulp": "*.gulp", "recordio": "*.rec"}


def stored(dataset: bushel.Dataset) -> dict[str, Any]:
    return {one["__key__"]: one for one in dataset.read(range(len(dataset)), decode=False)}


def spec_of(dataset: bushel.Dataset) -> dict[str, str]:
    return dict(dataset.spec)


def data_files(folder: Path, container: str) -> list[Path]:
    return sorted(folder.rglob(DATA[container]))


@each_format
def test_a_whole_dataset_comes_out_as_it_went_in(tmp_path: Path, container: str, generation: Generation) -> None:
    source = write(tmp_path / "in", container, generation)
    before = tree(source)
    done = bushel.repair(source, tmp_path / "out")
    assert (done.samples, done.lost, done.problems, done.ok, done.checked) == (7, 0, (), True, True)
    assert tree(source) == before
    fixed = reading(tmp_path / "out")
    assert stored(fixed) == stored(reading(source))
    assert [shard.samples for shard in fixed.shards] == [3, 3, 1]
    assert bushel.verify(tmp_path / "out").ok
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@each_format
def test_a_sample_with_a_flipped_bit_is_left_out(tmp_path: Path, container: str, generation: Generation) -> None:
    source = write(tmp_path / "in", container, generation)
    expected = stored(reading(source))
    file, offset = reading(source).location(4, "image")
    assert file is not None
    assert offset is not None
    flip(Path(file), offset + 30)
    done = bushel.repair(source, tmp_path / "out")
    assert (done.samples, done.lost, done.ok) == (6, 1, False)
    [problem] = done.problems
    assert (problem.kind, problem.key) == ("checksum", key(4))
    del expected[key(4)]
    assert stored(reading(tmp_path / "out")) == expected
    assert bushel.verify(tmp_path / "out").ok


@each_format
def test_a_file_that_was_cut_keeps_what_lies_before_the_cut(
    tmp_path: Path, container: str, generation: Generation
) -> None:
    source = write(tmp_path / "in", container, generation, shard_samples=None)
    expected = stored(reading(source))
    file, offset = reading(source).location(4, "image")
    assert file is not None
    assert offset is not None
    with open(file, "r+b") as handle:
        handle.truncate(offset + 10)
    done = bushel.repair(source, tmp_path / "out")
    assert (done.samples, done.lost) == (4, 3)
    assert stored(reading(tmp_path / "out")) == {name: expected[name] for name in map(key, range(4))}
    assert bushel.verify(tmp_path / "out").ok


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "gulp", "recordio"])
def test_without_bushels_index_the_framing_tells(tmp_path: Path, container: str) -> None:
    source = write(tmp_path / "in", container, "C" if container == "bag" else None, shard_samples=None)
    expected, spec = stored(reading(source)), spec_of(reading(source))
    file, offset = reading(source).location(4, "image")
    assert file is not None
    assert offset is not None
    for sidecars in source.rglob(".bushel"):
        shutil.rmtree(sidecars)
    with open(file, "r+b") as handle:
        handle.truncate(offset + 10)
    done = bushel.repair(source, tmp_path / "out")
    assert done.samples == 4
    assert not done.ok
    fixed = bushel.open(tmp_path / "out", spec=spec).select_fields(list(spec))
    assert stored(fixed) == {name: expected[name] for name in map(key, range(4))}


def test_after_a_damaged_header_of_a_tar_the_next_member_is_found(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "tar", shard_samples=None)
    expected = stored(reading(source))
    file, offset = reading(source).location(3, "image")
    assert file is not None
    assert offset is not None
    shutil.rmtree(source / ".bushel")
    overwrite(Path(file), offset - 512, b"garbage")
    done = bushel.repair(source, tmp_path / "out")
    problems = [problem for problem in done.problems if problem.kind == "format"]
    assert (problems[0].offset, f"sample '{key(3)}' is lost" in problems[1].message) == (offset - 512, True)
    fixed = stored(reading(tmp_path / "out", index="memory"))
    assert {name: one["image"] for name, one in fixed.items()} == {
        name: one["image"] for name, one in expected.items() if name != key(3)
    }
    assert done.lost == 1  # its label is there, but its image is not


@pytest.mark.parametrize(("container", "suffix"), [("gulp", ".gulp"), ("ffrecord", ".ffr"), ("recordio", ".rec")])
def test_samples_cut_off_are_counted_without_an_index(tmp_path: Path, container: str, suffix: str) -> None:
    source = write(tmp_path / "in", container, None, shard_samples=None)
    shutil.rmtree(source / ".bushel")
    [data] = source.rglob(f"*{suffix}")
    data.write_bytes(data.read_bytes()[:-20])
    done = bushel.repair(source, tmp_path / "out")
    assert (done.samples, done.lost) == (6, 1)
    assert len(set(done.problems)) == len(done.problems)


def test_another_containers_suffix_is_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "tar")
    with pytest.raises(ValueError, match="is the name of a recordio file, but the new dataset is tar"):
        bushel.repair(source, tmp_path / "out.rec")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_joined_tars_are_read_to_the_end(tmp_path: Path) -> None:
    one, two = (tmp_path / name for name in ("one.tar", "two.tar"))
    for path, number in ((one, 0), (two, 1)):
        with bushel.Writer(path, {"text": "utf8"}, container="tar") as writer:
            writer.append({"text": f"text {number}"}, key=f"{number}")
    joined = tmp_path / "joined.tar"
    joined.write_bytes(one.read_bytes() + two.read_bytes())
    done = bushel.repair(joined, tmp_path / "fixed.tar")
    assert done.samples == 2
    assert stored(reading(tmp_path / "fixed.tar")) == {
        str(i): {"__key__": str(i), "text": b"text %d" % i} for i in range(2)
    }


def test_after_damage_in_a_rec_the_next_magic_is_found(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "recordio", shard_samples=None)
    expected = stored(reading(source))
    offsets = [int(line.split(b"\t")[1]) for line in next(source.glob("*.idx")).read_bytes().splitlines()]
    shutil.rmtree(source / ".bushel")
    overwrite(next(source.glob("*.rec")), offsets[2], b"garbage!")
    done = bushel.repair(source, tmp_path / "out")
    assert done.samples == 6
    del expected[key(2)]
    fixed = stored(reading(tmp_path / "out"))
    assert {name: one["image"] for name, one in fixed.items()} == {name: one["image"] for name, one in expected.items()}


def test_records_that_an_idx_leaves_out_are_kept_under_their_offset(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "recordio", shard_samples=None)
    [table] = source.glob("*.idx")
    lines = table.read_bytes().splitlines(keepends=True)
    offset = int(lines[5].split(b"\t")[1])
    table.write_bytes(b"".join(lines[:5] + lines[6:]))
    shutil.rmtree(source / ".bushel")
    done = bushel.repair(source, tmp_path / "out")
    assert done.samples == 7
    assert set(reading(tmp_path / "out").keys) == {key(i) for i in range(7) if i != 5} | {f"at-{offset}"}
    assert any(f"at-{offset}" in str(problem) for problem in done.problems)


def test_a_gmeta_without_an_entry_is_helped_by_the_index_alone(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "gulp", shard_samples=None)
    [table] = source.glob("*.gmeta")
    overwrite(table, 0, b"[", keep_time=False)
    shutil.copytree(source, tmp_path / "bare", ignore=shutil.ignore_patterns(".bushel"))
    assert bushel.repair(tmp_path / "bare", tmp_path / "one-bracket").samples == 7
    (tmp_path / "bare" / table.name).write_bytes(bytes(table.stat().st_size))
    with pytest.raises(FormatError, match="no sample is intact"):
        bushel.repair(tmp_path / "bare", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    done = bushel.repair(source, tmp_path / "out")
    assert done.samples == 7  # metadata is in other bytes than the one that was changed


def test_a_shard_that_lacks_a_file_does_not_keep_the_others_from_being_saved(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "bag", "C")
    expected = stored(reading(source))
    (source / "000001" / "image.bag").unlink()
    shutil.rmtree(source / "000001" / ".bushel")
    done = bushel.repair(source, tmp_path / "out")
    assert done.samples == 4
    assert any(str(problem.file).endswith("000001/image.bag") for problem in done.problems)
    assert stored(reading(tmp_path / "out")) == {name: expected[name] for name in map(key, (0, 1, 2, 6))}


def test_keys_that_come_twice_are_both_kept(tmp_path: Path) -> None:
    data = tmp_path / "in"
    for number in range(2):
        write(tmp_path / f"{number}", "tar", shard_samples=None, count=2)
        data.mkdir(exist_ok=True)
        shutil.copy(next((tmp_path / f"{number}").glob("*.tar")), data / f"{number}.tar")
    done = bushel.repair(data, tmp_path / "out")
    assert done.samples == 4
    assert list(reading(tmp_path / "out").keys) == [key(0), key(1), f"{key(0)}~2", f"{key(1)}~2"]
    assert [problem.key for problem in done.problems] == [key(0), key(1)]


def test_values_that_do_not_decode_are_left_out_on_request(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"image": "jpg"}, container="bag") as writer:
        writer.append({"image": sample(0)["image"]})
        writer.append({"image": sample(1)["image"][:300]})
    assert bushel.repair(tmp_path / "in", tmp_path / "all").samples == 2
    done = bushel.repair(tmp_path / "in", tmp_path / "out", decode=True)
    assert (done.samples, done.lost, [problem.kind for problem in done.problems]) == (1, 1, ["decode"])


def test_a_value_that_cannot_be_written_again_costs_its_sample_only(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "in", {"n": "bytes"}, container="bag", sync=False) as writer:
        for size in (8, 20, 8):
            writer.append({"n": b"\1" * size})
    shutil.rmtree(tmp_path / "in" / ".bushel", ignore_errors=True)
    (tmp_path / "in" / "spec.json").write_text('{"n": "int"}')
    done = bushel.repair(tmp_path / "in", tmp_path / "out")
    assert (done.samples, done.lost, [problem.kind for problem in done.problems]) == (2, 1, ["decode"])


def test_an_image_that_does_not_begin_like_one_is_kept_as_it_is(golden: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    source = tmp_path / "in"
    shutil.copytree(golden / "foreign/parquet-none-v1-plain", source)
    file = sorted(source.glob("*.parquet"))[-1]  # the first image of a file decides the type of its field
    data = file.read_bytes()
    file.write_bytes(data.replace(b"\xff\xd8\xff", b"\xff\x1a\xff", 1))
    before = bushel.open(source)
    done = bushel.repair(source, tmp_path / "out", to="recordio")
    assert (done.samples, done.lost, done.problems) == (len(before), 0, ())
    after = bushel.open(tmp_path / "out")
    assert after.spec["image"] == before.spec["image"]
    raw = [
        [one.get("image") for one in each.read(range(len(each)), ["image"], decode=False)] for each in (before, after)
    ]
    assert raw[0] == raw[1]


def test_an_existing_target_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "tar")
    before = tree(write(tmp_path / "out", "tar", count=1))
    with pytest.raises(
        FileExistsError, match="already holds a dataset, but a repair writes a new one: use another path"
    ) as caught:
        bushel.repair(source, tmp_path / "out", progress=lambda now: pytest.fail("it was begun"))
    assert "append" not in str(caught.value)
    assert tree(tmp_path / "out") == before


@each_format
def test_an_interrupted_repair_is_resumed(tmp_path: Path, container: str, generation: Generation) -> None:
    source = write(tmp_path / "in", container, generation)
    whole = bushel.repair(source, tmp_path / "whole")

    def stop(now: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bushel.repair(source, tmp_path / "out", progress=stop)
    with pytest.raises(FileExistsError, match="resume"):
        bushel.repair(source, tmp_path / "out")
    assert bushel.repair(source, tmp_path / "out", mode="resume") == whole
    assert stored(reading(tmp_path / "out")) == stored(reading(tmp_path / "whole"))


def test_a_resumed_repair_gives_keys_that_come_twice_the_same_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bushel._runtime.progress._INTERVAL_SECONDS", 0)
    monkeypatch.setattr("bushel._pack.part._MAX_LISTED_ITEMS", 1)
    data = tmp_path / "in"
    data.mkdir()
    for number in range(2):
        write(tmp_path / f"{number}", "tar", shard_samples=None, count=3)
        shutil.copy(next((tmp_path / f"{number}").glob("*.tar")), data / f"{number}.tar")
    whole = bushel.repair(data, tmp_path / "whole")
    keys = list(reading(tmp_path / "whole").keys)
    assert keys[3:] == [f"{key(number)}~2" for number in range(3)]

    def stop(now: Progress) -> None:
        if now.samples >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bushel.repair(data, tmp_path / "out", shard_samples=2, progress=stop)
    kept = len(bushel.open(tmp_path / "out", allow_incomplete=True))
    assert 0 < kept < 6
    done = bushel.repair(data, tmp_path / "out", shard_samples=2, mode="resume")
    assert done == whole
    assert list(reading(tmp_path / "out").keys) == keys


def test_every_damaged_golden_dataset_is_repaired_or_refused(golden: Path, tmp_path: Path) -> None:
    repaired = 0
    for number, path in enumerate(sorted(path for path in (golden / "damaged").rglob("*") if path.is_file())):
        if path.suffix not in (".tar", ".ffr", ".rec", ".gulp", ".bag"):
            continue
        out = tmp_path / f"{number}{path.suffix if path.suffix not in ('.bag', '.gulp') else ''}"
        try:
            done = bushel.repair(path, out)
        except FormatError:
            assert not out.exists()
            continue
        repaired += 1
        assert done.samples > 0
        assert bushel.verify(out).ok
    assert repaired > 5


def test_the_command_says_what_is_lost_and_ends_with_1(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "tar")
    file, offset = reading(source).location(4, "image")
    assert file is not None
    assert offset is not None
    flip(Path(file), offset + 30)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from bushel.cli import main; main()", "repair", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    done = run("in", "out")
    assert done.returncode == 1
    assert f"sample {key(4)!r}, field 'image'" in done.stdout
    assert done.stdout.splitlines()[-1] == "out: 6 samples written as tar, 1 lost"
    done = run("out", "again", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["samples"] == 6
    assert run("out", "again").returncode == 2


def test_a_sample_that_is_not_on_record_is_kept_and_not_called_checked(tmp_path: Path) -> None:
    """A damaged key looks like a new sample in the place of one that is gone."""
    with bushel.Writer(tmp_path / "in", {"frames": "jpg[]", "label": "int"}, container="gulp") as writer:
        for number in range(3):
            writer.append({"frames": [np.full((8, 8, 3), 9 * number, np.uint8)], "label": number}, key=f"k{number}")
    [table] = (tmp_path / "in").glob("meta_*.gmeta")
    table.write_bytes(table.read_bytes().replace(b'"k1"', b'"kX"').replace(b'"label": 1', b'"label": 71'))
    done = bushel.repair(tmp_path / "in", tmp_path / "out")
    assert (done.samples, done.checked) == (3, False)
    [problem] = done.problems
    assert (problem.kind, "1 of 3 recorded samples are gone; 1 are new" in problem.message) == ("replaced", True)


def test_an_index_in_another_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    data, place = tmp_path / "data/rows.jsonl", tmp_path / "index"
    data.write_text('{"a": 1}\n{"a": 2}\n{"a": 5}\n')
    bushel.index(data, index=place)
    before = data.stat()
    data.write_text('{"a": 1}\n{"a": 3}\n{"a": 5}\n')
    os.utime(data, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert bushel.repair(data, tmp_path / "blind.rec").samples == 3
    done = bushel.repair(data, tmp_path / "fixed.rec", index=place)
    assert (done.samples, done.lost, [problem.kind for problem in done.problems]) == (2, 1, ["checksum"])
    assert [sample["a"] for sample in bushel.open(tmp_path / "fixed.rec")] == [1, 5]
    assert "2 samples written" in run("repair", data, tmp_path / "again.rec", "--index", place, code=1)
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["rows.jsonl"]


def test_a_removed_sample_is_not_lost_where_others_are(tmp_path: Path) -> None:
    """Nor is it counted again in the table of what is found in the damaged file."""
    out = tmp_path / "d"
    with bushel.Writer(out, {"x": "bytes"}, container="tar") as writer:
        for number in range(5):
            writer.append({"x": bytes([65 + number]) * 100}, key=f"s{number}")
    bushel.remove(out, keys=["s1"], reason="asked for")
    shard = next(out.glob("*.tar"))
    stamp, data = shard.stat(), bytearray(shard.read_bytes())
    data[data.index(b"D" * 100)] ^= 1  # the value of s3
    data[data.index(b"s4.x") + 150] ^= 0x5A  # the checksum in the header of s4
    shard.write_bytes(data)
    os.utime(shard, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    result = bushel.repair(out, tmp_path / "repaired")
    assert (result.samples, result.lost) == (3, 1)

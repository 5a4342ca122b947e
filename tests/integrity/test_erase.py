"""Erased samples: their bytes are gone, the others are as before, and an interrupted run can be finished."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.containers.bag.samples import SHUFFLED
from tests.integrity.removed import COUNT, GONE, KEPT, keys

import bushel
from bushel._index.removed_rows import BEGUN, load_removed, save_removed
from bushel._index.sidecar import load_index

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")
SECRET = "secret of sample"


def write(path: Path, container: str, spec: dict[str, str] | None = None, **options: Any) -> Path:
    spec = spec or ({"frames": "jpg[]", "text": "utf8", "label": "int"})
    if container != "gulp":
        spec = {"data": "bytes", "text": "utf8", "label": "int"}
    with bushel.Writer(path, spec, container=container, shard_samples=6, sync=False, **options) as writer:
        for number in range(COUNT):
            values: dict[str, Any] = {"text": f"{SECRET} {number:02}", "label": number + 1000}
            values |= {"data": b"%03d data" % number * 50}
            if container == "gulp":
                values["frames"] = [np.full((8, 8, 3), number, np.uint8)]
                del values["data"]
            writer.append(values, key=f"k{number:02}")
    return path


def contents(path: Path) -> list[Any]:
    return [
        (each["__key__"], each["text"], each["label"], each.get("data"), *map(bytes, each.get("frames", ())))
        for each in bushel.open(path, verify=True)
    ]


def everything(path: Path) -> bytes:
    return b"".join(each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file())


def list_of(path: Path, container: str) -> Path:
    """Return the path of the list of removed samples: of several bags, in the folder of the first one."""
    return path / ("000000" if container == "bag" else "") / ".bushel/removed.safetensors"


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container(container: str, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    bushel.index(path, columns="text,label")
    sizes = {each: each.stat().st_size for each in path.rglob("*") if each.is_file() and ".bushel" not in each.parts}
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    before, fingerprint = contents(path), bushel.open(path).fingerprint
    done = bushel.erase(path)
    assert (done.samples, done.partly, done.left) == (len(GONE), 0, ())
    assert done.bytes > 0
    assert contents(path) == before
    assert bushel.open(path).fingerprint == fingerprint
    assert {each: each.stat().st_size for each in sizes} == sizes
    whole = everything(path)
    for number in range(COUNT):
        texts = (f"{SECRET} {number:02}".encode(), b"%03d data" % number)
        there = [text in whole for text in texts if container != "gulp" or b"data" not in text]
        assert there == [number not in GONE] * len(there), number
    result = bushel.verify(path, decode=True)
    assert (result.problems, result.verdict, result.erased) == ((), "ok", len(GONE))
    assert bushel.removals(path)[0].erased == len(GONE)
    with pytest.raises(bushel.UnsupportedError, match="cannot be taken back"):
        bushel.restore(path)
    assert bushel.erase(path) == bushel.Erasure(0, 0, 0)
    assert not list(path.rglob("erasing"))
    if container == "tar":
        with tarfile.open(path / "shard-000000.tar") as archive:
            assert len(archive.getmembers()) == 18
            member = archive.extractfile("k00.text")
            assert member is not None
            assert member.read() == bytes(len(f"{SECRET} 00"))
    for folder in list(path.rglob(".bushel")):  # the structure is the same to a scan of the files
        for each in folder.glob("*.safetensors"):
            if each.name != "removed.safetensors":
                each.unlink()
    bushel.index(path)
    assert list(bushel.open(path).keys) == keys(KEPT)
    assert bushel.verify(path).verdict == "ok"


def test_columns_and_states_are_taken_out_of_the_index(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="tar", sync=False) as writer:
        noise = np.random.default_rng(0)
        for number in range(4):
            image = noise.integers(0, 255, (64, 64, 3), np.uint8)
            writer.append({"image": image, "label": number + 7000}, key=str(number))
    bushel.index(path, columns="label,image.width", seek=True)
    bushel.remove(path, keys=["2"], reason="opt-out")
    bushel.erase(path)
    index = load_index(next((path / ".bushel").glob("*.tar.safetensors")), check=True)
    label, seek = index.columns["label"], index.fields["image"].seek
    assert label.missing is not None
    assert label.missing.tolist() == [False, False, True, False]
    assert label.values is not None
    assert label.values.tolist() == [7000, 7001, 0, 7003]
    if seek is not None:
        assert [bool(words.any()) for words in seek.of(np.arange(4))] == [True, True, False, True]
    assert bushel.open(path).column("label").tolist() == [7000, 7001, 7003]
    assert bushel.verify(path, decode=True).verdict == "ok"


def test_damage_beside_what_is_erased_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    bushel.erase(path)
    data = bytearray((file := path / "shard-000000.tar").read_bytes())
    at = data.index(b"001 data")
    data[at] ^= 1
    file.write_bytes(data)
    problems = bushel.verify(path).problems
    assert [(one.kind, one.key) for one in problems] == [("checksum", "k01")]


def test_a_file_that_was_restored_is_not_erased(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    shutil.copytree(path, tmp_path / "backup")
    bushel.erase(path)
    shutil.copy(tmp_path / "backup/shard-000000.tar", path / "shard-000000.tar")
    result = bushel.verify(path)
    assert {one.key for one in result.problems if one.kind == "erased"} == {"k00", "k03", "k04"}
    assert result.erased == 2


def test_values_of_others_are_kept(tmp_path: Path) -> None:
    """The first and the last sample of a bag refer to the same record."""
    path = tmp_path / "bag"
    path.mkdir()
    for name, data in SHUFFLED.items():
        (path / name).write_bytes(data)
    whole = [sample for sample in bushel.open(path)]
    bushel.index(path)
    bushel.remove(path, positions=[0], reason="opt-out")
    done = bushel.erase(path)
    assert (done.samples, done.partly) == (0, 1)
    assert "samples that were not removed" in done.left[0]
    left = list(bushel.open(path, verify=True))
    assert [each["__key__"] for each in left] == ["1", "2"]
    assert str(left) == str(whole[1:])
    result = bushel.verify(path)
    assert (result.verdict, result.erased) == ("ok", 0)
    bushel.remove(path, positions=[1], reason="opt-out")
    assert bushel.erase(path).samples == 2
    assert str(list(bushel.open(path, verify=True))) == str(whole[1:2])


def test_hard_links_are_not_followed(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    os.link(path / "shard-000000.tar", tmp_path / "other.tar")
    before = (tmp_path / "other.tar").read_bytes()
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    done = bushel.erase(path)
    assert (done.samples, done.partly) == (2, 3)
    assert "hard links" in done.left[0]
    assert (tmp_path / "other.tar").read_bytes() == before
    (tmp_path / "other.tar").unlink()
    assert bushel.erase(path).samples == 3
    assert bushel.verify(path).erased == 5


def test_what_cannot_be_erased_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(4)))
    bushel.index(tmp_path / "rows.jsonl")
    bushel.remove(tmp_path / "rows.jsonl", positions=[1], reason="opt-out")
    with pytest.raises(bushel.UnsupportedError, match="bushel convert .*rows.jsonl NEW"):
        bushel.erase(tmp_path / "rows.jsonl")


def test_compressed_tars_are_left(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    subprocess.run(["gzip", str(path / "shard-000000.tar")], check=True)
    archive = tmp_path / "one.tar.gz"
    (path / "shard-000000.tar.gz").rename(archive)
    bushel.index(archive)
    bushel.remove(archive, keys=["k00"], reason="opt-out")
    done = bushel.erase(archive)
    assert (done.samples, done.partly) == (0, 1)
    assert "compressed block" in done.left[0]


def test_the_index_can_be_elsewhere(tmp_path: Path) -> None:
    path, place = write(tmp_path / "data", "ffrecord"), tmp_path / "index"
    shutil.rmtree(path / ".bushel")
    bushel.index(path, index=place)
    bushel.remove(path, keys=keys(GONE), reason="opt-out", index=place)
    assert bushel.erase(path, index=place).samples == len(GONE)
    assert list(bushel.open(path, index=place, verify=True).keys) == keys(KEPT)
    assert len(list(bushel.open(path, index=place, verify=True))) == len(KEPT)


_KILLED = """
import os, signal, sys
import bushel
writes, real = 0, os.pwrite
def pwrite(*given):
    global writes
    writes += 1
    if writes == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*given)
os.pwrite = pwrite
bushel.erase(sys.argv[1])
"""


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("at", [1, 4])
def test_a_killed_process_is_finished(container: str, at: int, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    before = contents(path)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path), str(at)], check=False)
    assert killed.returncode == -signal.SIGKILL
    known = load_removed(list_of(path, container))
    assert known is not None
    assert (known.erased == BEGUN).all()
    with pytest.raises(bushel.UnsupportedError, match="cannot be taken back"):
        bushel.restore(path)
    result = bushel.verify(path)
    assert "erased" in {one.kind for one in result.problems}
    bushel.remove(path, keys=["k01"], reason="later")
    assert bushel.erase(path).samples == len(GONE) + 1
    result = bushel.verify(path, decode=True)
    assert (result.problems, result.erased) == ((), len(GONE) + 1)
    assert contents(path) == [one for one in before if one[0] != "k01"]
    assert not list(path.rglob("erasing"))


def test_a_file_that_changed_since_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    subprocess.run([sys.executable, "-c", _KILLED, str(path), "2"], check=False)
    data = bytearray((file := path / "shard-000000.tar").read_bytes())
    data[700] ^= 1
    file.write_bytes(data)
    with pytest.raises(bushel.FormatError, match="has changed since erasing"):
        bushel.erase(path)


def test_only_a_call_and_only_one_writer(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE[:2]), reason="a")
    bushel.remove(path, keys=keys(GONE[2:]), reason="b")
    assert bushel.erase(path, call=1).samples == 3
    assert [one.erased for one in bushel.removals(path)] == [0, 3]
    with pytest.raises(IndexError, match="unknown call 2"):
        bushel.erase(path, call=2)
    assert bushel.restore(path, call=0).samples == 2
    assert bushel.verify(path).erased == 3
    with bushel.Writer(path, mode="append", sync=False) as writer:
        writer.append({"data": b"", "text": "", "label": 1}, key="new")
        with pytest.raises(bushel.InUseError):
            bushel.erase(path)


def test_recordio_keeps_the_framing_of_split_records(tmp_path: Path) -> None:
    path = tmp_path / "data.rec"
    magic = (0xCED7230A).to_bytes(4, "little")
    with bushel.Writer(path, {"data": "bytes"}, container="recordio", sync=False) as writer:
        for number in range(3):
            writer.append({"data": b"abcd" + magic + b"%d" % number * 8 + magic * 2 + b"xyz"}, key=str(number))
    bushel.remove(path, keys=["1"], reason="opt-out")
    assert bushel.erase(path).samples == 1
    assert bushel.verify(path).verdict == "ok"
    (path.parent / ".bushel/data.rec.safetensors").unlink()
    assert [each["data"][-3:] for each in bushel.open(path)] == [b"xyz", b"xyz"]
    assert b"1" * 8 not in path.read_bytes()


def test_images_of_recordio_stay_image_records(tmp_path: Path) -> None:
    path = tmp_path / "data.rec"
    spec = {"image": "jpg", "label": "float"}
    with bushel.Writer(path, spec, container="recordio", sync=False) as writer:
        for number in range(3):
            writer.append({"image": np.full((8, 8, 3), number * 60, np.uint8), "label": number + 0.5}, key=str(number))
    bushel.remove(path, keys=["0"], reason="opt-out")
    assert bushel.erase(path).samples == 1
    assert bushel.verify(path, decode=True).verdict == "ok"
    (path.parent / ".bushel/data.rec.safetensors").unlink()
    dataset = bushel.open(path)
    assert (list(dataset.keys), [one["label"] for one in dataset]) == (["1", "2"], [1.5, 2.5])


def test_the_command(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    said = run("remove", path, "--position", 0, "--reason", "a", "--erase")
    assert "1 sample removed" in said
    assert "1 sample erased" in said
    assert "keys remain" in said
    run("remove", path, "--position", 0, "--reason", "b")
    assert json.loads(run("remove", path, "--erase", "--call", 1, "--json"))["erasure"]["samples"] == 1
    assert "2 removed samples erased" in run("verify", path)
    assert "1 erased" in run("remove", path, "--list")
    assert "--erase" in fails("remove", path, "--list", "--erase")
    assert "--call" in fails("remove", path, "--position", 0, "--reason", "c", "--call", 0)


def test_a_forged_list_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    place = path / ".bushel/removed.safetensors"
    known = load_removed(place)
    assert known is not None
    save_removed(place, dataclasses.replace(known, erased=np.full(len(known), 9, np.uint8)))
    with pytest.raises(bushel.FormatError, match="damaged"):
        bushel.erase(path)

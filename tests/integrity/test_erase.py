"""Erased samples: the files lose them, the others are as before, and an interrupted run can be finished."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.full_disk import little_room
from tests.integrity.removed import COUNT, GONE, KEPT, keys

import bushel
from bushel.storage import publish

CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")
SECRET = "secret of sample"


def write(path: Path, container: str, spec: dict[str, str] | None = None, **options: Any) -> Path:
    spec = spec or ({"frames": "jpg[]", "text": "utf8", "label": "int"})
    if container != "gulp":
        spec = {"data": "bytes", "text": "utf8", "label": "int"}
    options = {"shard_samples": 6} | options
    with bushel.Writer(path, spec, container=container, sync=False, **options) as writer:
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


def checksums(path: Path) -> list[Any]:
    """Return the checksums and the columns of the samples that remain, in order."""
    dataset = bushel.open(path)
    columns = {name: dataset.column(name).tolist() for name in ("text", "label")}
    reader, positions = dataset.reader, np.asarray(dataset.selection.positions)
    sums = [
        extents.crc32[extents.rows_of(group.rows)[0]].tolist()
        for group in reader.groups(positions)
        for extents in group.index.fields.values()
        if extents.crc32 is not None
    ]
    return [columns, sums]


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_container(container: str, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    bushel.index(path, columns="text,label")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    before, sums, old = contents(path), checksums(path), bushel.open(path)
    seen = list(old)
    done = bushel.erase(path)
    assert (done.samples, done.shards, done.left) == (len(GONE), 3, ())
    assert contents(path) == before
    assert checksums(path) == sums
    assert str(list(old)) == str(seen)  # a reader goes on with the files that it opened
    whole = everything(path)
    for number in range(COUNT):
        texts = (f"{SECRET} {number:02}".encode(), b"%03d data" % number)
        there = [text in whole for text in texts if container != "gulp" or b"data" not in text]
        assert there == [number not in GONE] * len(there), number
    result = bushel.verify(path, decode=True)
    assert (result.problems, result.verdict, result.samples) == ((), "ok", len(KEPT))
    assert [(one.samples, one.missing) for one in bushel.removals(path)] == [(0, len(GONE))]
    assert bushel.erase(path) == bushel.integrity.Erasure(0, 0, 0)
    assert not [each for each in path.rglob("*") if each.name in ("overwrite", "staging", "writers")]
    for folder in list(path.rglob(".bushel")):  # the structure is the same to a scan of the files
        for each in folder.glob("*.safetensors"):
            if each.name != "removed.safetensors":
                each.unlink()
    bushel.index(path)
    assert list(bushel.open(path).keys) == keys(KEPT)
    assert bushel.verify(path).verdict == "ok"


@pytest.mark.parametrize("name", ["one.tar", "one.rec", "one.ffr", "one"])
def test_one_file(name: str, tmp_path: Path) -> None:
    container = {"one.tar": "tar", "one.rec": "recordio", "one.ffr": "ffrecord", "one": "bag"}[name]
    path = write(tmp_path / "folder" / name, container, shard_samples=None)
    shutil.copytree(path.parent, tmp_path / "copy")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    before = contents(path)
    assert bushel.erase(path).samples == len(GONE)
    assert contents(path) == before
    assert bushel.verify(path, decode=True).problems == ()
    assert bushel.restore(path, bushel.removals(path)[0].call).samples == 0
    with bushel.Writer(path, mode="append", container=container) as writer:
        writer.append({"text": "new", "label": 1, "data": b""}, key="k03")  # another sample with this key
    assert list(bushel.open(path).keys) == [*keys(KEPT), "k03"]


def test_tiled_images_seek_tables_and_columns(tmp_path: Path) -> None:
    path = tmp_path / "data"
    noise = np.random.default_rng(0)
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="tar", sync=False) as writer:
        for number in range(4):
            image = bushel.jpeg.tile(bushel.jpeg.encode(noise.integers(0, 255, (64, 64, 3), np.uint8)))
            writer.append({"image": image, "label": number + 7000}, key=str(number))
    bushel.index(path, columns="label,image.width", seek=True)
    fields = [(shard.index.fields["image"], sorted(shard.index.columns)) for shard in bushel.open(path).shards]
    stored = [sample["image"] for sample in bushel.open(path).read([0, 1, 3], decode=False)]
    bushel.remove(path, keys=["2"], reason="opt-out")
    bushel.erase(path)
    dataset = bushel.open(path)
    [after] = [(shard.index.fields["image"], sorted(shard.index.columns)) for shard in dataset.shards]
    assert [sample["image"] for sample in dataset.read([0, 1, 2], decode=False)] == stored
    assert [(after[0].seek is None), after[0].segments is None, after[1]] == [
        fields[0][0].seek is None,
        fields[0][0].segments is None,
        fields[0][1],
    ]
    assert dataset.column("label").tolist() == [7000, 7001, 7003]
    assert bushel.verify(path, decode=True).verdict == "ok"


def test_damage_in_another_sample_refuses_it(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    data = bytearray((file := path / "shard-000000.tar").read_bytes())
    data[data.index(b"001 data")] ^= 1
    file.write_bytes(data)
    with pytest.raises(bushel.errors.FormatError, match="k01"):
        bushel.erase(path)
    assert file.read_bytes() == bytes(data)
    assert not (path / ".bushel/overwrite").exists()


def test_a_file_that_was_restored_is_erased_again(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    shutil.copytree(path, tmp_path / "backup")
    bushel.erase(path)
    shutil.copy(tmp_path / "backup/shard-000000.tar", path / "shard-000000.tar")
    assert list(bushel.open(path).keys) == keys(KEPT)
    assert bushel.erase(path).samples == 3


def test_hard_and_symbolic_links(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    os.link(path / "shard-000000.tar", tmp_path / "other.tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    done = bushel.erase(path)
    assert (done.samples, done.left) == (5, (str(path / "shard-000000.tar"),))
    assert f"{SECRET} 00".encode() in (tmp_path / "other.tar").read_bytes()
    bushel.remove(path, keys=["k07"], reason="later")
    (path / "shard-000001.tar").rename(tmp_path / "real.tar")
    (path / "shard-000001.tar").symlink_to(tmp_path / "real.tar")
    with pytest.raises(bushel.errors.UnsupportedError, match="symbolic link"):
        bushel.erase(path)


@pytest.mark.parametrize("kind", ["jsonl", "tar.gz", "folder"])
def test_what_cannot_be_erased_names_the_command(kind: str, tmp_path: Path) -> None:
    if kind == "jsonl":
        source = tmp_path / "rows.jsonl"
        source.write_text("".join(json.dumps({"text": f"row {n}"}) + "\n" for n in range(4)))
    elif kind == "folder":
        source = tmp_path / "folder"
        source.mkdir()
        for number in range(3):
            (source / f"{number}.jpg").write_bytes(b"\xff\xd8 %d" % number)
    else:
        path = write(tmp_path / "data", "tar")
        subprocess.run(["gzip", str(path / "shard-000000.tar")], check=True)
        source = tmp_path / "one.tar.gz"
        (path / "shard-000000.tar.gz").rename(source)
    bushel.index(source)
    bushel.remove(source, positions=[1], reason="opt-out")
    with pytest.raises(bushel.errors.UnsupportedError, match=f"bushel convert .*{source.name}'? NEW.tar"):
        bushel.erase(source)


def test_the_index_can_be_elsewhere(tmp_path: Path) -> None:
    path, place = write(tmp_path / "data", "ffrecord"), tmp_path / "index"
    shutil.rmtree(path / ".bushel")
    bushel.index(path, index=place)
    bushel.remove(path, keys=keys(GONE), reason="opt-out", index=place)
    assert bushel.erase(path, index=place).samples == len(GONE)
    assert not list(path.glob(".bushel/*.safetensors"))
    dataset = bushel.open(path, index=place, verify=True)
    assert [each["__key__"] for each in dataset] == keys(KEPT)
    assert bushel.verify(path, index=place).verdict == "ok"


def test_a_shard_stays_when_the_disk_is_full(tmp_path: Path) -> None:
    """Less space than an old shard needs is enough for a new one, which lacks samples."""
    with bushel.Writer(tmp_path / "data", {"blob": "bytes"}, container="tar", sync=False) as writer:
        for key in keys(range(COUNT)):
            writer.append({"blob": bytes(10_000)}, key=key)
    bushel.remove(tmp_path / "data", positions=range(1, COUNT), reason="opt-out")
    before = everything(tmp_path)
    with little_room(2000), pytest.raises(OSError, match="too large"):
        bushel.erase(tmp_path / "data")
    assert everything(tmp_path) == before
    with little_room(30_000):
        assert bushel.erase(tmp_path / "data").samples == COUNT - 1


_KILLED = """
import os, signal, sys
import bushel
count = 0
def killing(name):
    real = getattr(os, name)
    def call(*args, **options):
        global count
        count += 1
        if count == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call
for name in ("open", "pwrite", "write", "fsync", "rename", "replace", "unlink", "rmdir", "mkdir"):
    setattr(os, name, killing(name))
import bushel._runtime.system as system
import bushel.storage.publish as publish
real_exchange = publish.exchange_names
def exchange(*args):
    global count
    count += 1
    if count == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    return real_exchange(*args)
publish.exchange_names = exchange
bushel.erase(sys.argv[1])
"""


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("at", [3, 12, 25, 40])
def test_a_killed_process_is_finished(container: str, at: int, tmp_path: Path) -> None:
    path = write(tmp_path / "data", container)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    before = contents(path)
    killed = subprocess.run([sys.executable, "-c", _KILLED, str(path), str(at)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert contents(path) == before
    bushel.erase(path)
    assert contents(path) == before
    assert f"{SECRET} 00".encode() not in everything(path)
    assert bushel.verify(path, decode=True).problems == ()
    assert not [each for each in path.rglob("*") if each.name in ("overwrite", "staging")]


def _append(path: Path) -> None:
    with bushel.Writer(path, mode="append") as writer:
        writer.append({"label": 8, "image": np.zeros((8, 8, 3), np.uint8)}, key="8")


_WRITERS: dict[str, Callable[[Path], object]] = {
    "append": _append,
    "erase": bushel.erase,
    "index": bushel.index,
    "remove": lambda path: bushel.remove(path, keys=["5"], reason="spam"),
}


@pytest.mark.parametrize("moves", [0, 1, 2])
@pytest.mark.parametrize("container", ["tar", "gulp", "recordio"])
@pytest.mark.parametrize("name", _WRITERS)
def test_who_writes_next_completes_it(
    name: str, container: str, moves: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until then, readers say that it was interrupted, or have the samples: never others."""
    path = tmp_path / "train"
    with bushel.Writer(path, {"label": "int", "image": "jpg"}, container=container) as writer:
        for number in range(8):
            writer.append({"label": number, "image": np.zeros((8, 8, 3), np.uint8)}, key=str(number))
    bushel.remove(path, keys=["1", "3"], reason="opt-out")
    swap, count = publish._swap, itertools.count()

    def swap_some(staged: Path, target: Path, old: Path) -> None:
        # the new shard itself is published in the staging folder first
        if "overwrite" not in target.parts and next(count) == moves:
            raise KeyboardInterrupt
        swap(staged, target, old)

    with monkeypatch.context() as patch:
        patch.setattr(publish, "_swap", swap_some)
        with pytest.raises(KeyboardInterrupt):
            bushel.erase(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bushel.errors.IncompleteWarning)
        if container == "gulp" and moves < 2:
            with pytest.raises(bushel.errors.FormatError, match="run the interrupted command again"):
                bushel.open(path)
        else:
            assert [sample["label"] for sample in bushel.open(path)] == [0, 2, 4, 5, 6, 7]
    _WRITERS[name](path)
    assert not (path / ".bushel/overwrite").exists()
    expected = {"append": [0, 2, 4, 5, 6, 7, 8], "remove": [0, 2, 4, 6, 7]}.get(name, [0, 2, 4, 5, 6, 7])
    assert [sample["label"] for sample in bushel.open(path)] == expected
    assert bushel.verify(path).verdict == "ok"


def test_only_a_call_and_only_one_writer(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    first = bushel.remove(path, keys=keys(GONE[:2]), reason="a")
    second = bushel.remove(path, keys=keys(GONE[2:]), reason="b")
    assert bushel.erase(path, call=second.call).samples == 3
    assert [one.missing for one in bushel.removals(path)] == [0, 3]
    with pytest.raises(KeyError, match="no call 'ffff'"):
        bushel.erase(path, call="ffff")
    assert bushel.restore(path, first.call).samples == 2
    with bushel.Writer(path, mode="append", sync=False) as writer:
        writer.append({"data": b"", "text": "", "label": 1}, key="new")
        with pytest.raises(bushel.errors.InUseError):
            bushel.erase(path)


def test_recordio_with_split_records_and_images(tmp_path: Path) -> None:
    path = tmp_path / "data.rec"
    magic = (0xCED7230A).to_bytes(4, "little")
    values = [b"abcd" + magic + b"%d" % number * 8 + magic * 2 + b"xyz" for number in range(3)]
    with bushel.Writer(path, {"data": "bytes"}, container="recordio", sync=False) as writer:
        for number, value in enumerate(values):
            writer.append({"data": value}, key=str(number))
    bushel.remove(path, keys=["1"], reason="opt-out")
    assert bushel.erase(path).samples == 1
    (path.parent / ".bushel/data.rec.safetensors").unlink()
    assert [(each["__key__"], each["data"]) for each in bushel.open(path)] == [("0", values[0]), ("2", values[2])]
    images = tmp_path / "images.rec"
    with bushel.Writer(images, {"image": "jpg", "label": "float"}, container="recordio", sync=False) as writer:
        for number in range(3):
            writer.append({"image": np.full((8, 8, 3), number * 60, np.uint8), "label": number + 0.5}, key=str(number))
    bushel.remove(images, keys=["0"], reason="opt-out")
    assert bushel.erase(images).samples == 1
    (images.parent / ".bushel/images.rec.safetensors").unlink()
    dataset = bushel.open(images)
    assert (list(dataset.keys), [one["label"] for one in dataset]) == (["1", "2"], [1.5, 2.5])


def test_packed_folders_keep_empty_folders(tmp_path: Path) -> None:
    from bushel.compat.ffrecord import PackedFolder, pack_folder

    for number in range(4):
        (tmp_path / f"folder/{number % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"folder/{number % 2}/{number}.txt").write_text(f"text {number}")
    (tmp_path / "folder/empty").mkdir()
    pack_folder(tmp_path / "folder", tmp_path / "packed.ffr")
    bushel.index(tmp_path / "packed.ffr")
    bushel.remove(tmp_path / "packed.ffr", keys=["0/2.txt"], reason="opt-out")
    assert bushel.erase(tmp_path / "packed.ffr").samples == 1
    assert PackedFolder(tmp_path / "packed.ffr").list("", recursive=True) == [
        *("0", "0/0.txt", "1", "1/1.txt", "1/3.txt", "empty"),
    ]


def test_the_command(tmp_path: Path) -> None:
    path = write(tmp_path / "data", "tar")
    said = run("remove", path, "--position", 0, "--reason", "a", "--erase")
    assert "1 sample removed" in said
    assert "1 sample erased: 1 shard written again" in said
    run("remove", path, "--position", 0, "--reason", "b")
    call = run("remove", path, "--list").splitlines()[1].split()[0]
    assert json.loads(run("remove", path, "--erase", "--call", call, "--json"))["erasure"]["samples"] == 1
    assert "0 (1 more are not stored any more)  a" in run("remove", path, "--list")
    assert "--erase" in fails("remove", path, "--list", "--erase")
    assert "--call" in fails("remove", path, "--position", 0, "--reason", "c", "--call", call)

"""Datasets behind an HTTP server: every container, with and without what Bushel keeps beside the data."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import shutil
import threading
import time
from collections.abc import Callable
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from tests.formats import each_format
from tests.storage.objects.datasets import SPEC, stored, write
from tests.storage.objects.range_server import Handler, Server

import bushel
from bushel._runtime import threads
from bushel._runtime.parallel import map_all
from bushel.storage import Extents, as_path, open_file, read_many, read_whole
from bushel.storage.objects import ranges


@each_format
def test_folder_with_manifest(server: Server, container: str, generation: str | None) -> None:
    write(server.folder / "set", container, generation)
    local, remote = bushel.open(server.folder / "set"), bushel.open(f"{server.url}/set/")
    assert remote.spec == local.spec
    assert list(remote.keys) == [f"key-{number}" for number in range(40)]
    order = np.random.default_rng(0).permutation(40).tolist()
    assert stored(remote, order) == stored(local, order)
    assert remote.info.indexed
    assert remote.fingerprint == local.fingerprint


@each_format
def test_shards_with_manifest(server: Server, container: str, generation: str | None) -> None:
    write(server.folder / "set", container, generation, shard_samples=7)
    local, remote = bushel.open(server.folder / "set"), bushel.open(f"{server.url}/set")
    assert remote.info.shards == 6
    assert stored(remote, [39, 0, 20, 20]) == stored(local, [39, 0, 20, 20])
    assert remote.position("key-33") == 33


def test_a_thread_that_starts_late_loads_the_manifest(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    serve = threads._serve

    def late(jobs: Any) -> None:
        time.sleep(0.2)
        serve(jobs)

    monkeypatch.setattr(threads, "_serve", late)
    write(server.folder / "set", "tar", None, shard_samples=7)
    urls = [f"{server.url}/set/shard-{number:06d}.tar" for number in range(6)]
    done = threading.Event()

    def work() -> None:
        bushel.open(urls)
        done.set()

    threading.Thread(target=work, daemon=True).start()
    assert done.wait(30)


@pytest.mark.parametrize(
    ("container", "names", "spec"),
    [
        ("tar", "shard-{000000..000005}.tar", None),
        ("ffrecord", "{000000..000005}.ffr", SPEC),
        ("recordio", "{000000..000005}.rec", SPEC),
    ],
)
def test_files_without_sidecars(server: Server, container: str, names: str, spec: dict[str, str] | None) -> None:
    samples = write(server.folder / "set", container, None, shard_samples=7)
    shutil.rmtree(server.folder / "set" / ".bushel")
    local = bushel.open(server.folder / "set", index="memory", spec=spec)
    remote = bushel.open(f"{server.url}/set/{names}", spec=spec)
    assert len(remote) == len(samples)
    assert stored(remote, list(range(40))) == stored(local, list(range(40)))
    assert not (server.folder / "set" / ".bushel").exists(), "opening writes nothing"
    assert {method for method, _, _ in server.asked} <= {"GET", "HEAD"}


def test_scan_of_tar_reads_headers_in_few_requests(server: Server) -> None:
    with bushel.Writer(server.folder / "x.tar", {"data": "bytes"}, container="tar") as writer:
        for number in range(8):
            writer.append({"data": bytes([number]) * 3_000_000}, key=str(number))
    shutil.rmtree(server.folder / ".bushel")
    remote = bushel.open(f"{server.url}/x.tar")
    assert len(remote) == 8
    ranges = [ranged.removeprefix("bytes=").split("-") for ranged in server.gets("x.tar") if ranged]
    assert sum(int(last) - int(first) + 1 for first, last in ranges) < 20_000_000
    assert len(ranges) < 20


def test_scan_of_dense_tar_reads_in_ever_larger_pieces(server: Server) -> None:
    samples = write(server.folder / "x.tar", "tar", None, count=9000)
    shutil.rmtree(server.folder / ".bushel")
    remote = bushel.open(f"{server.url}/x.tar", spec=SPEC)
    assert len(server.gets("x.tar")) < 10
    assert remote.read([8999])[0]["data"] == samples[8999]["data"]


def test_one_request_for_one_sample(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set")
    assert remote[0]["label"] == 0
    server.asked.clear()
    assert remote[7]["label"] == 7
    assert remote["key-8", ["label"]]["label"] == 8
    assert len(server.asked) == 1  # the index has the labels
    assert remote.read([8, 9], ["label"], decode=False)
    assert len(server.asked) == 2


def test_crop_of_tiled_jpeg(server: Server) -> None:
    rng = np.random.default_rng(0)
    picture = np.repeat(np.repeat(rng.integers(0, 256, (60, 80, 3), np.uint8), 16, 0), 16, 1)
    tiled = bushel.jpeg.tile(bushel.codecs.get_codec("jpg").encode(picture))
    with bushel.Writer(server.folder / "x.tar", {"jpg": "jpg"}, container="tar") as writer:
        writer.append({"jpg": tiled}, key="a")
    bushel.index(server.folder / "x.tar", segments=True)
    local, remote = bushel.open(server.folder / "x.tar"), bushel.open(f"{server.url}/x.tar")
    box = (100, 100, 164, 164)
    assert np.array_equal(remote.read_crop(0, "jpg", box), local.read_crop(0, "jpg", box))
    spans = [ranged.removeprefix("bytes=").split("-") for ranged in server.gets("x.tar") if ranged]
    assert sum(int(last) - int(first) + 1 for first, last in spans) < len(tiled) / 2


def test_one_request_for_neighbours(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set")
    assert remote[0]["label"] == 0
    server.asked.clear()
    remote.read(range(40))
    assert len(server.gets(".tar")) == 1
    assert [method for method, _, _ in server.asked] == ["GET"]


def test_gather_and_crc(server: Server) -> None:
    samples = write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set", verify=True)
    buffer, offsets = remote.gather([5, 3, 5], "data")
    parts = [buffer[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]
    assert parts == [samples[number]["data"] for number in (5, 3, 5)]


def test_damage_is_reported_with_the_url(server: Server) -> None:
    samples = write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set", verify=True)
    file, offset = remote.location(4, "data")
    name = file.rpartition("/")[2]
    server.tags = False
    path = server.folder / "set" / name
    times = path.stat()
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    remote = bushel.open(f"{server.url}/set", verify=True)
    with pytest.raises(bushel.errors.CorruptError, match="key-4") as caught:
        remote.read([3, 4])
    assert caught.value.file == f"{server.url}/set/{name}"
    assert remote[3]["data"] == samples[3]["data"]


def test_long_extent_comes_in_several_requests(server: Server) -> None:
    value = np.random.default_rng(0).bytes(20_000_000)
    with bushel.Writer(server.folder / "x.tar", {"data": "bytes"}, container="tar") as writer:
        writer.append({"data": value}, key="a")
        writer.append({"data": b""}, key="b")
    remote = bushel.open(f"{server.url}/x.tar")
    server.asked.clear()
    assert remote.read([0])[0]["data"] == value
    assert len(server.gets("x.tar")) == 3
    assert remote.gather([1, 0], "data")[0].tobytes() == value
    assert remote[0]["data"] == value
    assert remote[1]["data"] == b""


def test_names_with_spaces_and_signs(server: Server) -> None:
    name = "a b&c%20d+é.tar"
    with bushel.Writer(server.folder / name, {"data": "bytes"}, container="tar") as writer:
        writer.append({"data": b"x"}, key="a")
    remote = bushel.open(f"{server.url}/{quote(name)}")
    assert remote[0]["data"] == b"x"
    (server.folder / name).rename(server.folder / "a b.tar")
    remote = bushel.open(f"{server.url}/a b.tar")
    assert remote.keys[0] == "a"


def test_compressed_tar_is_a_stream(server: Server) -> None:
    import tarfile

    samples = write(server.folder / "set", "tar", None)
    with (
        tarfile.open(server.folder / "x.tar.gz", "w:gz") as packed,
        tarfile.open(next((server.folder / "set").glob("*.tar"))) as plain,
    ):
        for member in plain:
            packed.addfile(member, plain.extractfile(member))
    stream = bushel.open_stream(f"{server.url}/x.tar.gz", spec=SPEC)
    assert [sample["data"] for sample in stream] == [sample["data"] for sample in samples]


def test_replaced_object_is_refused(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set")
    remote.read([0])
    path = next((server.folder / "set").glob("*.tar"))
    data = path.read_bytes()
    path.write_bytes(data[::-1])
    with pytest.raises(bushel.errors.FormatError, match="has changed since the dataset was opened") as caught:
        remote.read([1])
    assert caught.value.file == f"{server.url}/set/{path.name}"
    path.write_bytes(data[:3000])
    with pytest.raises(bushel.errors.FormatError, match="has changed since the dataset was opened"):
        remote.read([39])
    path.write_bytes(data)
    assert remote.read([1])[0]["label"] == 1, "the same bytes have the same tag"
    path.unlink()
    with pytest.raises(FileNotFoundError, match="the object or bucket does not exist"):
        remote.read([1])


def test_stale_sidecar_is_not_used(server: Server) -> None:
    samples = write(server.folder / "set", "tar", None)
    path = next((server.folder / "set").glob("*.tar"))
    with bushel.Writer(server.folder / "other", SPEC, container="tar") as writer:
        for number, sample in enumerate(reversed(samples)):
            writer.append(sample, key=f"yek-{number}")
    other = server.folder / "other" / path.name
    assert other.stat().st_size == path.stat().st_size
    other.replace(path)
    later = path.stat().st_mtime + 10
    os.utime(path, (later, later))
    remote = bushel.open(f"{server.url}/set/{path.name}")
    assert remote.keys[3] == "yek-3"
    assert stored(remote, [3])[0]["data"] == samples[36]["data"]
    with pytest.raises(bushel.errors.FormatError, match="its index is stale"):
        bushel.open(f"{server.url}/set/{path.name}", index="require")


def test_what_is_not_there(server: Server) -> None:
    (server.folder / "note.txt").write_text("x")
    with pytest.raises(FileNotFoundError, match="the object or bucket does not exist"):
        bushel.open(f"{server.url}/x.tar")
    with pytest.raises(bushel.errors.UnsupportedError, match="cannot list its files"):
        bushel.open(f"{server.url}/set/*.tar")
    for url in (f"{server.url}/note.txt", f"{server.url}/folder/"):
        with pytest.raises(FileNotFoundError, match=r"a \.bushel/manifest\.json"):
            bushel.open(url)
    with pytest.raises(bushel.errors.UnsupportedError, match="query"):
        bushel.open(f"{server.url}/x.tar?signature=1")


def _read(dataset: bushel.Dataset, positions: list[int], report: Callable[[object], None]) -> None:
    report(dataset.read(positions, decode=False))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes(server: Server, method: str) -> None:
    write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set")
    expected = remote.read([1, 30, 2], decode=False)
    context = multiprocessing.get_context(method)
    assert isinstance(context, ForkContext | SpawnContext)
    queue = context.SimpleQueue()
    process = context.Process(target=_read, args=(remote, [1, 30, 2], queue.put))
    process.start()
    assert queue.get() == expected
    process.join()
    assert process.exitcode == 0
    assert remote.read([1, 30, 2], decode=False) == expected


def test_fork_of_a_fork(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    remote = bushel.open(f"{server.url}/set")
    expected = remote.read([5], decode=False)

    def same() -> bool:
        return remote.read([5], decode=False) == expected

    child = os.fork()
    if child == 0:
        grandchild = os.fork() if same() else -1
        if grandchild == 0:
            os._exit(0 if same() else 1)
        _, status = os.waitpid(grandchild, 0)
        os._exit(0 if status == 0 and same() else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert same()


def test_pickle(server: Server) -> None:
    write(server.folder / "set", "recordio", None)
    remote = bushel.open(f"{server.url}/set")
    copy = pickle.loads(pickle.dumps(remote))
    assert copy.read([7, 3], decode=False) == remote.read([7, 3], decode=False)
    path = as_path(f"{server.url}/a/b.tar")
    assert pickle.loads(pickle.dumps(path)) == path


def test_concat_of_local_and_remote(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    local, remote = bushel.open(server.folder / "set"), bushel.open(f"{server.url}/set")
    both = bushel.concat([remote, local])
    assert both.read([41, 1], decode=False)[0] == both.read([41, 1], decode=False)[1]
    assert both.gather([1, 41], "data")[0].tobytes() == 2 * local.read([1])[0]["data"]


@pytest.mark.parametrize("processes", [0, 2])
def test_loader_in_blocks(server: Server, processes: int) -> None:
    write(server.folder / "set", "tar", None, shard_samples=10)
    remote = bushel.open(f"{server.url}/set")
    loader = bushel.Loader(remote, batch_size=8, shuffle="blocks", seed=1, processes=processes)
    seen = [int(label) for batch in loader for label in batch["label"]]
    assert sorted(seen) == list(range(40))


def test_a_pickled_file_has_no_connection(server: Server) -> None:
    (server.folder / "x").write_bytes(b"0123456789")
    file = open_file(as_path(f"{server.url}/x"))
    assert file.read(2, 3) == b"234"
    again = pickle.loads(pickle.dumps(file))
    assert again._connection is None
    assert again.read(5, 3) == b"567"


@pytest.mark.parametrize(("prefetch", "most"), [(12, 8), (3, 3)])
def test_the_loader_reads_eight_batches_at_a_time(server: Server, prefetch: int, most: int) -> None:
    write(server.folder / "set", "tar", None, count=64)
    remote = bushel.open(f"{server.url}/set")
    assert remote.remote
    assert remote.select_keys(remote.keys).remote
    going, largest, changed = [0], [0], threading.Condition()

    def counted(handler: Handler, data: bytes) -> bool:
        with changed:
            going[0] += 1
            largest[0] = max(largest[0], going[0])
            changed.notify_all()
            changed.wait_for(lambda: largest[0] >= most, timeout=20)  # answers come when so many have asked
            going[0] -= 1
        return False

    server.fault = counted
    # in this order, neighbours do not come together, so nothing is read ahead
    loader = bushel.Loader(remote, 2, shuffle=True, threads=2, prefetch=prefetch, prefetch_bytes=150_000)
    assert sorted(int(label) for batch in loader for label in batch["label"]) == list(range(64))
    assert largest[0] == most


def test_bytes_on_their_way_are_bounded(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "_MOST_BYTES", 35_000)
    data = np.random.default_rng(0).bytes(9_000_000)
    (server.folder / "x").write_bytes(data)
    file, going, largest, lock = open_file(as_path(f"{server.url}/x")), [0], [0], threading.Lock()

    def counted(handler: Handler, part: bytes) -> bool:
        with lock:
            going[0] += len(part)
            largest[0] = max(largest[0], going[0])
        server.wake.wait(0.02)  # for others to come
        with lock:
            going[0] -= len(part)
        return False

    server.fault = counted
    offset, length = np.arange(20) * 400_000, np.array([10_000] * 19 + [50_000])  # the last is larger than the bound
    assert read_many([file], Extents(0, offset, length)) == [
        data[first : first + size] for first, size in zip(offset.tolist(), length.tolist(), strict=True)
    ]
    assert largest[0] <= 50_000


def test_many_objects_within_the_loop_of_a_notebook(server: Server) -> None:
    for number in range(3):
        (server.folder / str(number)).write_bytes(b"x" * number)

    async def cell() -> list[bytes]:
        return map_all(read_whole, [as_path(f"{server.url}/{number}") for number in range(3)], threads=3)

    assert asyncio.run(cell()) == [b"", b"x", b"xx"]


def test_data_that_were_copied_after_their_sidecars(server: Server) -> None:
    write(server.folder / "set", "tar", None)
    path = next((server.folder / "set").glob("*.tar"))
    later = path.stat().st_mtime + 10
    os.utime(path, (later, later))
    remote = bushel.open(f"{server.url}/set/{path.name}", index="require")
    assert remote.info.checksums
    assert remote.read([1])[0]["label"] == 1


def test_a_server_keeps_no_index(server: Server, tmp_path: Path) -> None:
    """This is said before the data are read."""
    write(server.folder / "x.tar", "tar", None)
    shutil.rmtree(server.folder / ".bushel")
    with pytest.raises(bushel.errors.UnsupportedError, match="does not write to this server: name a folder"):
        bushel.index(f"{server.url}/x.tar")
    assert server.gets("x.tar") == []
    assert bushel.index(f"{server.url}/x.tar", index=tmp_path / "place").info.checksums

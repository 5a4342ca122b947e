"""Datasets written into object stores."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats import each_format
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._pack.reshape import merge, split
from bushel._runtime.parallel import map_all
from bushel._writer.dataset_writer import DatasetWriter
from bushel._writer.target import WriterOptions
from bushel.errors import FormatError, UnsupportedError
from bushel.storage import (
    Staging,
    as_path,
    place_file,
    read_whole,
    remove,
    walk_names,
    workplace,
    write_whole,
)
from bushel.storage.objects import upload
from bushel.storage.objects.location import ObjectPath


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


def spec(container: str) -> dict[str, str]:
    return {"frames": "jpg[]", "label": "int"} if container == "gulp" else {"data": "bytes", "label": "int"}


def make(container: str, number: int) -> dict[str, Any]:
    value = np.random.default_rng(number).bytes(500 + 97 * number)
    return {"frames" if container == "gulp" else "data": [value] if container == "gulp" else value, "label": number}


def write(target: Any, container: str, generation: str | None, first: int, last: int, **more: Any) -> None:
    with bushel.Writer(target, spec(container), container=container, generation=generation, **more) as writer:
        for number in range(first, last):
            writer.append(make(container, number), key=f"key-{number}")


def files_in(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and ".bushel" not in path.parts]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def folder(url: str) -> ObjectPath:
    return ObjectPath.parse(url)


def opened(source: Any, **options: Any) -> bushel.Dataset:
    return bushel.open(source, **options)


class TestWriter:
    @each_format
    @pytest.mark.parametrize("shard_samples", [None, 7])
    def test_the_bytes_are_those_of_a_local_dataset(
        self, buckets: Buckets, tmp_path: Path, container: str, generation: str | None, shard_samples: int | None
    ) -> None:
        write(tmp_path / "set", container, generation, 0, 20, shard_samples=shard_samples)
        write("s3://bucket/a/set", container, generation, 0, 20, shard_samples=shard_samples)
        assert objects_in(folder("s3://bucket/a/set")) == files_in(tmp_path / "set")
        remote, local = opened("s3://bucket/a/set", index="require"), opened(tmp_path / "set")
        assert remote.info.indexed
        assert remote.info.checksums
        assert list(remote.keys) == [f"key-{number}" for number in range(20)]
        assert remote.read(range(20), decode=False) == local.read(range(20), decode=False)
        assert bushel.verify("s3://bucket/a/set").ok
        assert buckets.staged() == []
        assert objects_in(folder("s3://bucket/a")).keys() == {f"set/{name}" for name in files_in(tmp_path / "set")}

    @pytest.mark.parametrize("name", ["x.tar", "x.ffr", "x.rec"])
    def test_one_file(self, buckets: Buckets, tmp_path: Path, name: str) -> None:
        for target in (tmp_path / name, f"gs://bucket/{name}"):
            with bushel.Writer(target, {"data": "bytes"}) as writer:
                writer.append({"data": b"1"}, key="a")
                assert not as_path(target).exists()
        assert objects_in(folder("gs://bucket")) == files_in(tmp_path)
        assert opened(f"gs://bucket/{name}", index="require")["a"]["data"] == b"1"

    @each_format
    def test_appending(self, buckets: Buckets, tmp_path: Path, container: str, generation: str | None) -> None:
        for target in (tmp_path / "set", "az://bucket/set"):
            for first, last in ((0, 5), (5, 9)):
                mode = "append" if first else "create"
                write(target, container, generation, first, last, mode=mode)
        assert objects_in(folder("az://bucket/set")) == files_in(tmp_path / "set")
        remote = opened("az://bucket/set", index="require")
        assert len(remote) == 9
        assert remote["key-8", ["label"]]["label"] == 8
        assert bushel.verify("az://bucket/set").ok
        with pytest.raises(ValueError, match="key-3"):
            write("az://bucket/set", container, generation, 3, 4, mode="append")

    def test_a_dataset_that_is_there_is_refused(self, buckets: Buckets) -> None:
        write("s3://bucket/set", "tar", None, 0, 3)
        with pytest.raises(FileExistsError, match="mode='append'"):
            write("s3://bucket/set", "tar", None, 3, 4)
        with pytest.raises(FileExistsError, match="tar dataset"):
            write("s3://bucket/set", "bag", None, 3, 4)
        with pytest.raises(FileNotFoundError, match="append"):
            write("s3://bucket/other", "tar", None, 3, 4, mode="append")

    @each_format
    @pytest.mark.parametrize("same_machine", [True, False])
    def test_resuming(
        self, buckets: Buckets, tmp_path: Path, container: str, generation: str | None, same_machine: bool
    ) -> None:
        write(tmp_path / "set", container, generation, 0, 20, shard_samples=8)
        target = "s3://bucket/set"
        writer = bushel.Writer(target, spec(container), container=container, generation=generation, shard_samples=8)
        for number in range(13):
            writer.append(make(container, number), key=f"key-{number}")
        writer.suspend()
        if not same_machine:
            shutil.rmtree(buckets.scratch)
            buckets.scratch.mkdir()
        with pytest.raises(FileExistsError, match="is incomplete.*resume"):
            write(target, container, generation, 0, 20, shard_samples=8)
        assert [problem.kind for problem in bushel.verify(target).problems] == ["incomplete"]
        kept = 8
        with bushel.Writer(target, spec(container), container=container, mode="resume", shard_samples=8) as writer:
            assert len(writer) == kept
            for number in range(kept, 20):
                writer.append(make(container, number), key=f"key-{number}")
        assert objects_in(folder(target)) == files_in(tmp_path / "set")
        assert len(opened(target, index="require")) == 20
        assert bushel.verify(target).ok
        assert buckets.staged() == []

    def test_a_failed_upload_leaves_nothing_and_is_resumed(
        self, buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        write(tmp_path / "set", "bag", None, 0, 5)
        put = upload.put_file

        def fails(target: ObjectPath, source: Path, **options: Any) -> None:
            if target.name == "refs.bag":
                raise ConnectionError("the cable is out")
            put(target, source, **options)

        with monkeypatch.context() as patch:
            patch.setattr(upload, "put_file", fails)
            with pytest.raises(ConnectionError, match="cable"):
                write("s3://bucket/set", "bag", None, 0, 5)
        assert objects_in(folder("s3://bucket/set"), sidecars=True) == {}
        with bushel.Writer("s3://bucket/set", mode="resume", container="bag") as writer:
            assert len(writer) == 5
        assert objects_in(folder("s3://bucket/set")) == files_in(tmp_path / "set")
        assert len(opened("s3://bucket/set", index="require")) == 5

    def test_a_kill_between_uploads(self, buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path / "set", "bag", None, 0, 5)
        with monkeypatch.context() as patch:  # what a kill leaves behind: the data, and everything in staging
            patch.setattr(Staging, "discard", lambda self: self.close())
            write("s3://bucket/set", "bag", None, 0, 5)
        remove(folder("s3://bucket/set/spec.json"))
        remove(folder("s3://bucket/set/.bushel/index.safetensors"))
        with bushel.Writer("s3://bucket/set", mode="resume", container="bag") as writer:
            assert len(writer) == 5
        assert objects_in(folder("s3://bucket/set")) == files_in(tmp_path / "set")
        assert len(opened("s3://bucket/set", index="require")) == 5
        assert buckets.staged() == []

    @pytest.mark.parametrize("size", [10, 9 << 20])
    def test_two_writers_of_one_dataset(self, buckets: Buckets, size: int) -> None:
        target = "s3://bucket/set/x.tar"
        writer = bushel.Writer(target, {"data": "bytes"})
        writer.append({"data": bytes(size)}, key="mine")
        write_whole(folder(target), b"of another one")
        with pytest.raises(FileExistsError, match="exists already, and did not when"):
            writer.close()
        assert read_whole(folder(target)) == b"of another one"

    def test_http_servers_take_nothing(self, buckets: Buckets) -> None:
        for mode in ("create", "resume"):
            with pytest.raises(UnsupportedError, match="http://127.0.0.1:1/set is neither"):
                write("http://127.0.0.1:1/set", "tar", None, 0, 1, mode=mode)
        with pytest.raises(UnsupportedError, match="object store"):
            bushel.pack([{"x": 1}], "https://127.0.0.1:1/set.tar")

    def test_before_publish(self, buckets: Buckets) -> None:
        seen: list[tuple[int, int]] = []
        with DatasetWriter(
            "s3://bucket/set",
            {"x": "int"},
            WriterOptions(container="tar", shard_samples=2),
            before_publish=lambda samples: seen.append((samples, len(objects_in(folder("s3://bucket/set"))))),
        ) as writer:
            for number in range(5):
                writer.append({"x": number})
        assert seen == [(2, 0), (4, 1), (5, 2)]


class TestIndexAndVerify:
    def test_index_puts_the_sidecars_there(self, buckets: Buckets, tmp_path: Path) -> None:
        write(tmp_path / "set", "tar", None, 0, 9, shard_samples=4)
        for name, data in files_in(tmp_path / "set").items():
            write_whole(folder("s3://bucket/set") / name, data)
        assert not opened("s3://bucket/set").info.indexed
        assert all(".bushel" not in name for name in walk_names(folder("s3://bucket/set")))
        with pytest.raises(FormatError, match="bushel index"):
            bushel.open("s3://bucket/set", index="require")
        assert bushel.index("s3://bucket/set").info.checksums
        assert sum(name.endswith(".safetensors") for name in walk_names(folder("s3://bucket/set"))) == 3
        assert opened("s3://bucket/set", index="require").info.checksums
        assert read_whole(folder("s3://bucket/set/.bushel/manifest.json")).startswith(b"{")

    @each_format
    def test_a_download_keeps_its_checksums(
        self, buckets: Buckets, tmp_path: Path, container: str, generation: str | None
    ) -> None:
        write("s3://bucket/set", container, generation, 0, 5)
        for name in walk_names(folder("s3://bucket/set")):
            (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "set" / name).write_bytes(read_whole(folder("s3://bucket/set") / name))
        assert bushel.open(tmp_path / "set", index="require").info.checksums
        assert bushel.verify(tmp_path / "set").verdict == "ok"

    @each_format
    def test_verify_finds_damage(self, buckets: Buckets, container: str, generation: str | None) -> None:
        write("s3://bucket/set", container, generation, 0, 5)
        bushel.index("s3://bucket/set")
        value = make(container, 3)["frames" if container == "gulp" else "data"]
        value = value[0] if isinstance(value, list) else value
        name, data = next(item for item in objects_in(folder("s3://bucket/set")).items() if value in item[1])
        at = data.index(value) + 100
        write_whole(folder("s3://bucket/set") / name, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        found = bushel.verify("s3://bucket/set")
        kinds = {problem.kind for problem in found.problems}
        assert kinds == {"checksum"}  # the object differs, but its checksums are recorded


class TestConvert:
    def test_every_container_into_every_other(self, buckets: Buckets, tmp_path: Path) -> None:
        write("s3://bucket/tar", "tar", None, 0, 9)
        write(tmp_path / "tar", "tar", None, 0, 9)
        for container in ("bag", "ffrecord", "recordio"):
            bushel.convert("s3://bucket/tar", f"s3://bucket/{container}", container=container, shard_samples=4)
            bushel.convert(tmp_path / "tar", tmp_path / container, container=container, shard_samples=4)
            assert objects_in(folder(f"s3://bucket/{container}")) == files_in(tmp_path / container)

    def test_split_and_merge(self, buckets: Buckets) -> None:
        write("s3://bucket/all", "tar", None, 0, 20)
        done = split("s3://bucket/all", "s3://bucket/parts", {"train": 0.9, "val": 0.1})
        assert {name: one.samples for name, one in done.items()} == {"train": 18, "val": 2}
        merge(["s3://bucket/parts/train", "s3://bucket/parts/val"], "s3://bucket/again.rec")
        again = opened("s3://bucket/again.rec")
        assert sorted(again.keys) == sorted(f"key-{number}" for number in range(20))
        assert again["key-7"]["data"] == make("tar", 7)["data"]


class TestWholeFiles:
    def test_an_object_in_parts(self, buckets: Buckets, tmp_path: Path) -> None:
        data = np.random.default_rng(0).bytes((20 << 20) + 7)
        (tmp_path / "x").write_bytes(data)
        place_file(tmp_path / "x", folder("s3://bucket/x"))
        assert read_whole(folder("s3://bucket/x")) == data

    def test_new_objects(self, buckets: Buckets) -> None:
        target = folder("s3://bucket/x")
        upload.put_bytes(target, b"one", new=True)
        upload.put_bytes(target, b"one", new=True)  # as after an answer that was lost
        with pytest.raises(FileExistsError, match="s3://bucket/x exists already, and did not"):
            upload.put_bytes(target, b"two", new=True)
        assert read_whole(target) == b"one"
        remove(target)
        remove(target)
        assert not target.exists()

    def test_many_at_once(self, buckets: Buckets, tmp_path: Path) -> None:
        for number in range(300):
            write_whole(folder(f"s3://bucket/{number}"), b"%d" % number)
        paths = [folder(f"s3://bucket/{number}") for number in range(301)]
        found = map_all(read_whole, paths[:300], threads=64)
        assert found == [b"%d" % number for number in range(300)]
        with pytest.raises(FileNotFoundError) as missing:
            read_whole(paths[300])
        assert missing.value.filename == "s3://bucket/300"

    @given(st.integers(0, 5 << 40))
    def test_parts_are_few_and_not_small(self, size: int) -> None:
        part = upload.part_size(size)
        assert part >= 8 << 20
        assert part % (1 << 20) == 0
        assert -(-size // part) <= 10_000

    def test_a_workplace_is_the_same_for_the_same_folder(self, buckets: Buckets) -> None:
        place = workplace(folder("s3://bucket/set/"))
        assert place == workplace(folder("s3://bucket/set"))
        assert place is not None
        assert place.is_relative_to(buckets.scratch)
        assert place != workplace(folder("s3://bucket/set2"))
        assert not place.exists()

    def test_a_name_that_others_have_taken(self, buckets: Buckets) -> None:
        place = workplace(folder("s3://bucket/set"))
        assert place is not None
        elsewhere = buckets.scratch / "elsewhere"
        elsewhere.mkdir()
        place.parent.symlink_to(elsewhere)
        with pytest.raises(PermissionError, match="TMPDIR"):
            write("s3://bucket/set", "tar", None, 0, 1)


def fill(writer: bushel.Writer) -> None:
    for number in range(2, 100_000):
        writer.append({"data": b"x"}, key=str(number))


def interrupted(writer: bushel.Writer, begun: threading.Event) -> None:
    with writer:
        for number in range(3):
            writer.append({"data": b"x"}, key=str(number))
        assert begun.wait(60)
        raise KeyboardInterrupt


class TestUploadsBehindTheWriter:
    def test_an_error_reaches_a_later_sample(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        ended = threading.Event()

        def fails(target: ObjectPath, source: Path, **options: Any) -> None:
            ended.set()
            raise ConnectionError("the cable is out")

        monkeypatch.setattr(upload, "put_file", fails)
        writer = bushel.Writer("s3://bucket/set", {"data": "bytes"}, container="tar", shard_samples=2)
        for number in range(2):
            writer.append({"data": b"x"}, key=str(number))
        assert ended.wait(60)
        with pytest.raises(ConnectionError, match="cable"):
            fill(writer)
        with pytest.raises(ValueError, match="closed"):
            writer.append({"data": b"x"}, key="more")
        assert buckets.staged()[0] == "shard-000000.tar"

    def test_ctrl_c_stops_an_upload(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        begun = threading.Event()

        def waits(target: ObjectPath, source: Path, *, new: bool, stop: threading.Event) -> None:
            begun.set()
            assert stop.wait(60)
            raise InterruptedError

        with monkeypatch.context() as patch:
            patch.setattr(upload, "put_file", waits)
            writer = bushel.Writer("s3://bucket/set", {"data": "bytes"}, container="tar", shard_samples=2)
            with pytest.raises(KeyboardInterrupt):
                interrupted(writer, begun)
        assert set(objects_in(folder("s3://bucket/set"), sidecars=True)) == {".bushel/manifest.json"}
        assert buckets.staged() == ["shard-000000.tar"]
        with bushel.Writer("s3://bucket/set", mode="resume", container="tar", shard_samples=2) as writer:
            assert len(writer) == 2
        assert list(opened("s3://bucket/set", index="require").keys) == ["0", "1"]
        assert buckets.staged() == []

"""Sources whose files are in object stores."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import shutil
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow
from tests.storage.objects.memory import Buckets, objects_in
from tests.storage.objects.range_server import Server

import bushel
from bushel import sources
from bushel._pack.encoder import EncodedSample, Encoder
from bushel._pack.feeds import SourceFeed
from bushel._pack.field_plan import FieldPlan
from bushel._runtime.progress import Progress
from bushel.compat.mxnet.lists import find_images, write_lists
from bushel.errors import FormatError, TooManyErrors, UnsupportedError
from bushel.sources.files import walk
from bushel.sources.opening import open_source, recognised
from bushel.spec import parse_spec
from bushel.storage import as_path, read_text, remove, walk_names, write_whole
from bushel.storage.objects import location
from bushel.storage.objects.location import ObjectPath


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


def jpeg(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 255, (8 + seed % 5, 9, 3), np.uint8)
    buffer = io.BytesIO()
    Pillow.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


def both(tmp_path: Path, files: dict[str, bytes]) -> tuple[Path, ObjectPath]:
    """The same files in a folder and in a bucket."""
    local, remote = tmp_path / "files", ObjectPath.parse("s3://bucket/some/files")
    for name, data in files.items():
        (local / name).parent.mkdir(parents=True, exist_ok=True)
        (local / name).write_bytes(data)
        write_whole(remote / name, data)
    return local, remote


def samples(source: Any) -> list[dict[str, Any]]:
    return [dict(source[position]) for position in range(len(source))]


def in_a_batch(source: Any, count: int) -> list[Any]:
    """The samples as `pack` reads them, or the error of each."""
    return [sample for _, _, sample in SourceFeed(source, {}).samples(np.arange(count))]


def assert_same(local: Any, remote: Any) -> None:
    """The same samples from both, one by one, in a batch, and after a journey to another process."""
    expected = samples(local)
    assert remote.spec == local.spec
    np.testing.assert_equal(samples(remote), expected)
    np.testing.assert_equal(samples(pickle.loads(pickle.dumps(remote))), expected)
    assert remote.origin(0).startswith("s3://bucket/some/files")
    assert remote.remote
    np.testing.assert_equal(in_a_batch(remote, len(expected)), expected)
    assert not local.remote


FILES = {f"{folder}/{number}.jpg": jpeg(number) for folder in ("cat", "dog", "dog.d") for number in range(3)}


class TestFolders:
    def test_images(self, buckets: Buckets, tmp_path: Path) -> None:
        local, remote = both(tmp_path, FILES)
        assert_same(sources.LabelledFolder(local), sources.LabelledFolder(remote))
        assert_same(sources.LabelledFolder(local), sources.LabelledFolder(str(remote)))
        assert recognised(remote)[0] == recognised(str(remote))[0] == "images"
        assert isinstance(open_source(str(remote)), sources.LabelledFolder)

    def test_files(self, buckets: Buckets, tmp_path: Path) -> None:
        files = {"a/1.jpg": jpeg(1), "a/1.cls": b"7", "a/2.jpg": jpeg(2), "b.txt": b"", "c": b"x"}
        local, remote = both(tmp_path, files)
        assert_same(sources.Files(local), sources.Files(remote))
        write_whole(ObjectPath.parse("s3://bucket/notes/a.txt"), b"")
        with pytest.raises(FormatError, match="files"):
            recognised("s3://bucket/notes")

    def test_nothing_there(self, buckets: Buckets) -> None:
        for source in (sources.LabelledFolder, sources.Files):
            with pytest.raises(FileNotFoundError, match="s3://bucket/none"):
                source("s3://bucket/none")

    @given(
        names=st.sets(
            st.lists(st.text("ab.-0Z", min_size=1, max_size=3).filter(lambda part: part.strip(".")), min_size=1)
            .map("/".join)
            .map(lambda name: name + "_"),
            min_size=1,
            max_size=12,
        )
    )
    def test_the_order_is_that_of_a_local_folder(
        self, names: set[str], tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        local = tmp_path_factory.mktemp("walk")
        for name in names:
            (local / name).parent.mkdir(parents=True, exist_ok=True)
            (local / name).write_bytes(b"")
        with pytest.MonkeyPatch.context() as patch:
            Buckets(patch, local.with_name(local.name + "-scratch"))
            remote = ObjectPath.parse("s3://bucket/x")
            for name in names:
                write_whole(remote / name, b"")
            for recursive in (True, False):
                assert list(walk(remote, recursive=recursive)) == list(walk(local, recursive=recursive))
            if any("/" not in name for name in names):
                for recursive in (True, False):
                    found = list(find_images(remote, suffixes=[""], recursive=recursive))
                    assert found == list(find_images(local, suffixes=[""], recursive=recursive))
        shutil.rmtree(local)

    def test_pages_of_a_listing(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(location, "_PAGE", 10)
        root = ObjectPath.parse("s3://bucket/many")
        for number in range(105):
            write_whole(root / f"{number % 7}/{number:03d}", b"")
        write_whole(ObjectPath.parse("s3://bucket/many-others/x"), b"")
        assert sorted(walk_names(root)) == sorted(f"{number % 7}/{number:03d}" for number in range(105))


class TestLists:
    def test_list_files(self, buckets: Buckets, tmp_path: Path) -> None:
        local, remote = both(tmp_path, FILES)
        lines = list(find_images(local, recursive=True))
        assert list(find_images(str(remote), recursive=True)) == lines
        [here] = write_lists(local / "x", {"": lines})
        [there] = write_lists(f"{remote}/x", {"": lines})
        assert read_text(there) == read_text(here)
        assert_same(sources.ListFile(here), sources.ListFile(there))
        assert_same(sources.ListFile(here), sources.ListFile(here, root=str(remote)))
        urls = [f"{line.index}\t{line.labels[0]}\t{remote}/{line.path}\n" for line in lines]
        (local / "urls.lst").write_text("".join(urls))
        assert_same(sources.ListFile(here), sources.ListFile(local / "urls.lst"))

    @pytest.mark.parametrize("packed", [False, True])
    def test_tables(self, buckets: Buckets, tmp_path: Path, packed: bool) -> None:
        rows = [{"path": name, "label": name.split("/")[0], "n": at} for at, name in enumerate(FILES)]
        text = json.dumps(rows).encode()
        name = "rows.json.gz" if packed else "rows.json"
        local, remote = both(tmp_path, FILES | {name: gzip.compress(text) if packed else text})
        assert recognised(str(remote / name))[0] == "table"
        assert_same(sources.Table(local / name), sources.Table(str(remote / name)))
        urls = [{**row, "path": f"{remote}/{row['path']}"} for row in rows]
        assert [sample["image"] for sample in samples(sources.Table(urls))] == list(FILES.values())
        assert sources.Table(urls)[0]["__key__"] == "0"

    def test_a_star_in_a_table(self, buckets: Buckets, tmp_path: Path) -> None:
        local, remote = both(tmp_path, {f"{number}/any{number}.jpg": jpeg(number) for number in range(3)})
        rows = [{"id": str(number)} for number in range(3)]
        here = sources.Table(rows, root=local, file="{id}/*.jpg", key="{id}")
        there = sources.Table(rows, root=str(remote), file="{id}/*.jpg", key="{id}")
        assert_same(here, there)
        write_whole(remote / "1" / "second.jpg", b"")
        again = sources.Table(rows, root=str(remote), file="{id}/*.jpg", key="{id}")
        [first, second] = in_a_batch(again, 2)
        assert first["image"] == jpeg(0)
        assert isinstance(second, FileNotFoundError)
        assert "2 files match" in str(second)

    def test_folders_of_frames(self, buckets: Buckets, tmp_path: Path) -> None:
        files = {f"{video}/{frame:03d}.jpg": jpeg(frame) for video in "xy" for frame in range(4)}
        local, remote = both(tmp_path, files | {"l.csv": b"x;a\ny;b\n"})
        here, there = (
            sources.Table(
                f"{root}/l.csv", sources.Frames(), root=str(root), file="{id}", key="{id}", columns=["id", "label"]
            )
            for root in (local, remote)
        )
        assert_same(here, there)
        assert there[1]["frames"] == [jpeg(frame) for frame in range(4)]

    def test_arrays(self, buckets: Buckets, tmp_path: Path) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, x=np.arange(6).reshape(3, 2), y=np.arange(3))
        local, remote = both(tmp_path, FILES | {"a.npz": buffer.getvalue()})
        np.testing.assert_equal(samples(open_source(str(remote / "a.npz"))), samples(open_source(local / "a.npz")))

    def test_datasets(self, buckets: Buckets, tmp_path: Path) -> None:
        rows = [{"__key__": f"k{number}", "image": jpeg(number), "label": number} for number in range(5)]
        for target in (tmp_path / "x", "s3://bucket/some/files/x"):
            bushel.pack(rows, target, container="recordio")
        here, there = open_source(tmp_path / "x"), open_source("s3://bucket/some/files/x")
        np.testing.assert_equal(samples(there), samples(here))


class TestFetching:
    def test_a_missing_object_is_the_error_of_its_sample(self, buckets: Buckets, tmp_path: Path) -> None:
        _, remote = both(tmp_path, FILES)
        source = sources.Files(remote)
        remove(remote / "cat/1.jpg")
        first, second, third = in_a_batch(source, 3)
        assert (first["data"], third["data"]) == (FILES["cat/0.jpg"], FILES["cat/2.jpg"])
        assert isinstance(second, FileNotFoundError)
        assert "cat/1.jpg" in str(second)

    def test_the_samples_of_a_batch_are_read_at_once(
        self, buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        local, remote = both(tmp_path, {f"{number:03d}.jpg": jpeg(number) for number in range(40)})
        met, read = threading.Barrier(38), ObjectPath.read_bytes

        def read_with_others(path: ObjectPath) -> bytes:
            met.wait(timeout=30)  # until 38 threads read
            return read(path)

        monkeypatch.setattr(ObjectPath, "read_bytes", read_with_others)
        [field] = parse_spec({"image": "jpg"}).values()
        plans = {"image": FieldPlan(field, field, "jpg", copied=True)}
        results = [
            Encoder(SourceFeed(source, plans), plans, {}, 0, frozenset(), True)(np.arange(2, 40))
            for source in (sources.LabelledFolder(local), sources.LabelledFolder(remote))
        ]
        assert results[0] == results[1]
        assert [result.key for result in results[1] if isinstance(result, EncodedSample)] == [
            f"{n:03d}" for n in range(2, 40)
        ]

    def test_a_subclass_keeps_its_way(self, buckets: Buckets, tmp_path: Path) -> None:
        class Upper(sources.Files):
            def __getitem__(self, position: int) -> Any:
                sample = dict(super().__getitem__(position))
                return {**sample, "data": sample["data"].upper()}

        _, remote = both(tmp_path, {"a": b"a", "b": b"b"})
        bushel.pack(Upper(remote), tmp_path / "x.rec")
        dataset = bushel.open(tmp_path / "x.rec")
        assert [sample["data"] for sample in dataset] == [b"A", b"B"]


class TestPack:
    @pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
    def test_from_and_to(self, buckets: Buckets, tmp_path: Path, container: str) -> None:
        local, remote = both(tmp_path, FILES)
        options: dict[str, Any] = {"container": container, "shard_samples": 4}
        options["keys"] = lambda key: key.replace(".", "_")
        here = bushel.pack(local, tmp_path / "out", **options)
        there = bushel.pack(str(remote), "s3://bucket/out", **options)
        assert (there.samples, there.bytes, there.spec) == (here.samples, here.bytes, here.spec)
        files = [path for path in (tmp_path / "out").rglob("*") if path.is_file() and ".bushel" not in path.parts]
        expected = {path.relative_to(tmp_path / "out").as_posix(): path.read_bytes() for path in files}
        assert objects_in(ObjectPath.parse("s3://bucket/out")) == expected
        assert bushel.open("s3://bucket/out").labels == {"label": ("cat", "dog", "dog.d")}

    def test_parts_and_labels_go_on(self, buckets: Buckets, tmp_path: Path) -> None:
        _, remote = both(tmp_path, FILES)
        done = bushel.pack(str(remote), "s3://bucket/out", container="bag", parts=2)
        assert done.paths == ("s3://bucket/out/part-00000", "s3://bucket/out/part-00001")
        assert len(bushel.open(list(done.paths))) == 9
        more = ObjectPath.parse("s3://bucket/more")
        write_whole(more / "cow/9.jpg", jpeg(9))
        bushel.pack(str(remote), "s3://bucket/one.rec")
        bushel.pack(str(more), "s3://bucket/one.rec", mode="append")
        one = bushel.open("s3://bucket/one.rec")
        assert one["cow/9", ["label"]]["label"] == 3
        assert one.labels == {"label": ("cat", "dog", "dog.d", "cow")}

    @pytest.mark.parametrize("same_machine", [True, False])
    def test_errors_are_noted_and_resumed(self, buckets: Buckets, tmp_path: Path, same_machine: bool) -> None:
        files = {f"{number:02d}.jpg": b"nonsense" if number in (3, 11) else jpeg(number) for number in range(20)}
        local, remote = both(tmp_path, files)
        options: dict[str, Any] = {"container": "tar", "shard_samples": 4, "threads": 1}
        expected = bushel.pack(local, tmp_path / "out", max_errors=2, **options)
        assert expected.errors == 2
        with pytest.raises(TooManyErrors, match=r"11\.jpg"):
            bushel.pack(str(remote), "s3://bucket/out", max_errors=1, **options)
        log = [json.loads(line) for line in read_text(as_path("s3://bucket/out.errors.jsonl")).splitlines()]
        assert [line["position"] for line in log] == [3, 11]
        assert log[0]["path"] == f"{remote}/03.jpg"
        if not same_machine:
            shutil.rmtree(buckets.scratch)
            buckets.scratch.mkdir()
        done = bushel.pack(str(remote), "s3://bucket/out", max_errors=2, mode="resume", **options)
        assert (done.kept + done.samples, done.errors) == (18, 2)
        assert done.error_logs == ("s3://bucket/out.errors.jsonl",)
        files_there = list((tmp_path / "out").rglob("*.tar"))
        assert objects_in(ObjectPath.parse("s3://bucket/out")) == {p.name: p.read_bytes() for p in files_there}
        assert buckets.staged() == []
        assert list(buckets.scratch.glob("bushel-*/*")) == []

    def test_a_killed_run_resumes_on_another_machine(
        self, buckets: Buckets, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bushel._runtime.progress._INTERVAL_SECONDS", 0)
        files = {f"{number:02d}.jpg": b"nonsense" if number in (1, 6) else jpeg(number) for number in range(20)}
        local, remote = both(tmp_path, files)
        options: dict[str, Any] = {"container": "tar", "shard_samples": 4, "threads": 1, "max_errors": 2}
        bushel.pack(local, tmp_path / "out", **options)

        def stop(progress: Progress) -> None:
            if progress.done >= 13:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            bushel.pack(str(remote), "s3://bucket/out", progress=stop, **options)
        shutil.rmtree(buckets.scratch)
        buckets.scratch.mkdir()
        done = bushel.pack(str(remote), "s3://bucket/out", mode="resume", **options)
        assert done.errors == 2
        assert 4 <= done.kept < 18
        expected = {path.name: path.read_bytes() for path in (tmp_path / "out").rglob("*.tar")}
        assert objects_in(ObjectPath.parse("s3://bucket/out")) == expected


class TestHttp:
    """Plain HTTP servers, which do not say what they have."""

    def test_datasets_and_tables(self, server: Server, tmp_path: Path) -> None:
        rows = [{"__key__": f"k{number}", "image": jpeg(number), "label": number} for number in range(5)]
        bushel.pack(rows, server.folder / "set", container="tar")
        bushel.index(server.folder / "set")
        assert recognised(f"{server.url}/set")[0] == "dataset"
        bushel.pack(f"{server.url}/set", tmp_path / "again", container="tar")
        again = bushel.open(tmp_path / "again")
        assert [sample["label"] for sample in again] == list(range(5))
        for name, data in FILES.items():
            (server.folder / name).parent.mkdir(exist_ok=True)
            (server.folder / name).write_bytes(data)
        lines = "".join(f"{number}\t0\t{server.url}/{name}\n" for number, name in enumerate(FILES))
        (server.folder / "x.lst").write_text(lines)
        assert bushel.pack(f"{server.url}/x.lst", tmp_path / "x.rec").samples == 9
        assert [sample["image"] for sample in samples(sources.ListFile(f"{server.url}/x.lst"))] == list(FILES.values())

    def test_folders(self, server: Server) -> None:
        with pytest.raises(UnsupportedError, match="cannot list its files"):
            sources.LabelledFolder(f"{server.url}/photos")

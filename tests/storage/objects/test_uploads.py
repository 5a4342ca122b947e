"""Uploads that are stopped or fail: they end, and say what went wrong first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.storage.objects.memory import Buckets, objects_in
from tests.storage.objects.s3_server import Answer, Store, begun, storing

import bushel
from bushel.storage import place_file, read_whole, remove, walk_names, write_whole
from bushel.storage.objects import upload
from bushel.storage.objects.location import ObjectPath

KEY = ObjectPath.parse("s3://bucket/set/x.tar")


@contextmanager
def s3(monkeypatch: pytest.MonkeyPatch, answer: Answer, *, patience: str = "1000") -> Iterator[Store]:
    with storing(answer) as store:
        monkeypatch.setenv("AWS_ENDPOINT_URL", store.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", patience)
        monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "1")
        yield store


def silent(method: str, query: str) -> None:
    return None


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


@pytest.mark.parametrize("size", [10, 9 << 20])
def test_a_stopped_upload_does_not_wait_for_a_dead_server(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int
) -> None:
    (tmp_path / "x").write_bytes(bytes(size))
    stop = threading.Event()
    with s3(monkeypatch, silent) as store, ThreadPoolExecutor(1) as pool:
        going = pool.submit(place_file, tmp_path / "x", KEY, stop=stop)
        assert store.heard.wait(60)
        stop.set()
        with pytest.raises(InterruptedError, match="x.tar: the upload was stopped"):
            going.result(timeout=60)  # patience has no end here


def test_what_ends_an_upload_is_reported_when_it_cannot_be_aborted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "x").write_bytes(bytes(40 << 20))
    stop = threading.Event()

    def answer(method: str, query: str) -> tuple[int, bytes] | None:
        if method == "DELETE":
            return 403, b"<Error><Code>AccessDenied</Code></Error>"
        if method == "PUT":
            stop.set()
        return begun(method, query)

    monkeypatch.setattr(upload, "_AT_ONCE", 1)
    with s3(monkeypatch, answer) as store, pytest.raises(InterruptedError, match="the upload was stopped"):
        place_file(tmp_path / "x", KEY, stop=stop)
    assert any(asked.startswith("DELETE uploadId=1") for asked in store.asked)


def test_parts_of_very_large_objects_take_bounded_memory() -> None:
    for size in (1 << 30, 100 << 30, 5 << 40):
        part = upload.part_size(size)
        assert part * max(1, min(8, upload._MOST_BYTES // part)) <= max(256 << 20, part)


def test_a_listing_with_a_key_that_leads_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("set/../evil.tar", "set//x.tar"):
        listing = (
            f"<ListBucketResult><Name>bucket</Name><KeyCount>1</KeyCount><IsTruncated>false</IsTruncated><Contents>"
            f"<Key>{key}</Key><LastModified>2024-01-01T00:00:00.000Z</LastModified><Size>1</Size></Contents>"
            "</ListBucketResult>"
        ).encode()
        with s3(monkeypatch, lambda method, query, listing=listing: (200, listing)):  # type: ignore[misc]
            for ask in (lambda: list(KEY.parent.iterdir()), lambda: list(walk_names(KEY.parent))):
                with pytest.raises(bushel.errors.UnsupportedError, match="rename or remove that object"):
                    ask()


class TestFirstFailures:
    def test_the_error_of_the_body_is_raised(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        ended = threading.Event()

        def fails(target: ObjectPath, source: Path, **options: Any) -> None:
            ended.set()
            raise ConnectionError("the cable is out")

        def body(writer: bushel.Writer) -> None:
            with writer:
                writer.append({"data": b"x"}, key="0")
                assert ended.wait(60)
                raise LookupError("my own mistake")

        monkeypatch.setattr(upload, "put_file", fails)
        writer = bushel.Writer("s3://bucket/set", {"data": "bytes"}, container="tar", shard_samples=1)
        with pytest.raises(LookupError, match="my own mistake") as caught:
            body(writer)
        assert any("ConnectionError: the cable is out" in note for note in caught.value.__notes__)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("bushel-upload")]

    def test_what_could_not_be_taken_back_is_noted(self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
        put = upload.put_file

        def fails(target: ObjectPath, source: Path, **options: Any) -> None:
            if target.name == "refs.bag":
                raise ConnectionError("the cable is out")
            put(target, source, **options)

        def refuses(target: ObjectPath, **options: Any) -> None:
            raise PermissionError(f"{target} stays")

        monkeypatch.setattr(upload, "put_file", fails)
        monkeypatch.setattr(upload, "delete", refuses)
        writer = bushel.Writer("s3://bucket/set", {"data": "bytes"}, container="bag")
        writer.append({"data": b"x"})
        with pytest.raises(ConnectionError, match="cable") as caught:
            writer.close()
        assert any("s3://bucket/set/data.bag stays" in note for note in caught.value.__notes__)


class TestOthers:
    def test_an_index_that_was_left_behind_is_replaced(self, buckets: Buckets) -> None:
        for value in (b"old", b"new one"):
            with bushel.Writer(KEY, {"data": "bytes"}) as writer:
                writer.append({"data": value}, key=value.decode())
            if value == b"old":
                remove(KEY)
        dataset = bushel.open(KEY, index="require")
        assert list(dataset.keys) == ["new one"]
        assert dataset["new one"]["data"] == b"new one"

    def test_an_object_that_another_writer_replaced_gets_no_index(
        self, buckets: Buckets, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put = upload.put_file

        def overtaken(target: ObjectPath, source: Path, **options: Any) -> None:
            put(target, source, **options)
            write_whole(target, b"of another one")

        monkeypatch.setattr(upload, "put_file", overtaken)
        writer = bushel.Writer(KEY, {"data": "bytes"})
        writer.append({"data": b"mine"}, key="a")
        with pytest.raises(FileExistsError, match="another writer has replaced it"):
            writer.close()
        assert read_whole(KEY) == b"of another one"
        assert list(objects_in(KEY.parent, sidecars=True)) == ["x.tar"]

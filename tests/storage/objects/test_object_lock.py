"""Locks in object stores: conditional puts, and a lease by the clock of the store."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.ends_of_threads import in_threads
from tests.storage.objects.conditional_store import Kept, as_google, keeping

import bushel
from bushel._dataset.open.locking import lock_target
from bushel.storage import as_path
from bushel.storage.holder import LEASE_SECONDS, Holder, this_process
from bushel.storage.lock import Lock
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.upload import take_object

PATH = ObjectPath.parse("s3://bucket/out/.bushel/dataset.lock")
KEY = "bucket/out/.bushel/dataset.lock"
THERE = replace(this_process(), token="other", host="other", machine="1", boot="2")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Kept]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with keeping(monkeypatch) as kept:
        yield kept


def leave(store: Kept, holder: Holder, seconds: float) -> None:
    """Leave the lock of a holder whose last sign of life was some time ago."""
    store.objects[KEY] = holder.encode(), store.now - seconds


def test_the_second_writer_is_refused(store: Kept) -> None:
    with Lock([(PATH, False)], "target"):
        with pytest.raises(bushel.errors.InUseError, match="target.*process"):
            Lock([(PATH, False)], "target")
        assert list(store.objects) == [KEY]
    assert not store.objects
    Lock([(PATH, False)], "target").release()


def test_requests_of_a_lock(store: Kept) -> None:
    with lock_target(as_path("s3://bucket/out"), single=False):
        taken = [asked.partition(" ")[0] for asked in store.asked]
    released = [asked.partition(" ")[0] for asked in store.asked[len(taken) :]]
    assert taken == ["PUT"]
    assert released == ["GET", "DELETE"]


def test_threads_at_once(store: Kept) -> None:
    taken: list[Lock] = []
    refused: list[BaseException] = []

    def take() -> None:
        try:
            taken.append(Lock([(PATH, False)], "target"))
        except bushel.errors.InUseError as error:
            refused.append(error)

    in_threads(8, take)
    assert (len(taken), len(refused)) == (1, 7)
    taken[0].release()
    assert not store.objects


def test_another_machine_has_a_lease(store: Kept) -> None:
    leave(store, THERE, LEASE_SECONDS / 2)
    with pytest.raises(
        bushel.errors.InUseError, match="on other.* If that machine is gone, try again 60 seconds after"
    ):
        Lock([(PATH, False)], "target")
    leave(store, THERE, LEASE_SECONDS * 2)
    with Lock([(PATH, False)], "target") as lock:
        lock.check()
    assert not store.objects


def test_a_store_that_compares_tags_without_quotes(store: Kept) -> None:
    """Ceph 16 does: a writer that follows a killed one waited forever."""
    store.compares = "plain"
    leave(store, THERE, LEASE_SECONDS * 2)
    with Lock([(PATH, False)], "target") as lock:
        lock.check()
        store.now += 1
        assert lock._held
        lock._held[0].renew()
        assert store.objects[KEY][1] == store.now
    assert not store.objects


def test_google_compares_generations(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its puts need more than an ETag, so locks were neither renewed nor taken over."""
    as_google(store, monkeypatch)
    leave(store, THERE, LEASE_SECONDS * 2)
    with Lock([(PATH, False)], "target") as lock:
        lock.check()
        store.now += 1
        assert lock._held
        lock._held[0].renew()
        assert store.objects[KEY][1] == store.now
        store.generations[KEY] += 1  # by another machine
        store.objects[KEY] = THERE.encode(), store.now
        lock._held[0].renew()
        assert store.objects[KEY][0] == THERE.encode()
        with pytest.raises(bushel.errors.InUseError, match="has lost its lock"):
            lock.check()


def test_a_store_that_refuses_conditional_puts(store: Kept) -> None:
    store.compares = "never"
    leave(store, THERE, LEASE_SECONDS * 2)
    with pytest.raises(ConnectionError, match="dataset.lock.*If-Match.*delete the object"):
        Lock([(PATH, False)], "target")
    assert list(store.objects) == [KEY]


def test_a_lock_that_could_not_be_removed(store: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process still runs, but it has released the lock."""
    lock = Lock([(PATH, False)], "target")
    with monkeypatch.context() as broken:
        broken.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        broken.setenv("BUSHEL_NETWORK_PATIENCE", "0.1")
        lock.release()
    assert list(store.objects) == [KEY]
    with Lock([(PATH, False)], "target") as again:
        again.check()
    assert not store.objects


def test_a_process_of_this_machine_that_lost_the_network(store: Kept) -> None:
    """It could not remove its lock, and still runs: another worker waited forever."""
    here = replace(this_process(), token="other")
    leave(store, here, LEASE_SECONDS / 2)
    with pytest.raises(bushel.errors.InUseError):
        Lock([(PATH, False)], "target")
    leave(store, here, LEASE_SECONDS * 2)
    with Lock([(PATH, False)], "target") as lock:
        lock.check()
    assert not store.objects


@pytest.mark.parametrize("left", [b"", b"{}", b"[1"])
def test_an_invalid_lock_has_a_lease_too(store: Kept, left: bytes) -> None:
    store.objects[KEY] = left, store.now
    with pytest.raises(bushel.errors.InUseError):
        Lock([(PATH, False)], "target")
    store.objects[KEY] = left, store.now - 2 * LEASE_SECONDS
    Lock([(PATH, False)], "target").release()


def test_a_lock_that_was_taken_over_is_noticed(store: Kept) -> None:
    lock = Lock([(PATH, False)], "target")
    leave(store, THERE, 0)
    with pytest.raises(bushel.errors.InUseError, match="has lost its lock"):
        lock.check()
    lock.release()
    assert KEY in store.objects


def test_a_renewal_stops_those_who_take_it_over(store: Kept) -> None:
    """The ETag of S3 is that of the content, so each renewal has another content."""
    lock = take_object(PATH, THERE, "t")
    assert lock is not None
    assert not isinstance(lock, Holder)
    tags = [store.tag(KEY)]
    for _ in range(2):
        store.now += 1
        lock.renew()
        tags.append(store.tag(KEY))
        assert store.objects[KEY][1] == store.now
    assert len(set(tags)) == 3
    assert lock.is_ours()
    with pytest.raises(bushel.errors.InUseError, match="on other"):
        Lock([(PATH, False)], "target")
    lock.release()
    assert not store.objects


def test_a_renewal_does_not_take_back_what_is_lost(store: Kept) -> None:
    lock = take_object(PATH, this_process(), "t")
    assert lock is not None
    assert not isinstance(lock, Holder)
    leave(store, THERE, 0)
    before = dict(store.objects)
    lock.renew()
    assert store.objects == before
    assert not lock.is_ours()


def test_two_writers(store: Kept) -> None:
    with bushel.Writer("s3://bucket/out", {"n": "int"}, container="tar") as writer:
        writer.append({"n": 1}, key="a")
        for mode in ("create", "append", "resume"):
            with pytest.raises(bushel.errors.InUseError, match="s3://bucket/out"):
                bushel.Writer("s3://bucket/out", {"n": "int"}, container="tar", mode=mode)
        with pytest.raises(bushel.errors.InUseError):
            bushel.pack([{"n": 2}], "s3://bucket/out", container="tar", spec={"n": "int"}, parts=2)
    assert len(bushel.open("s3://bucket/out")) == 1
    assert not [key for key in store.objects if key.endswith(".lock")]

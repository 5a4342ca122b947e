"""Appended samples that wait to be framed together: limits, errors, and what a failure leaves."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel.containers.ffrecord.packed_folder import MAGIC
from bushel.errors import CodecError, SpecError
from bushel.storage.staging import Sink

CONTAINERS = ("bag", "tar", "ffrecord", "recordio")


def values(count: int) -> list[bytes]:
    rng = np.random.default_rng(count)
    return [rng.bytes(int(size)) for size in rng.integers(0, 400, count)]


def opened(path: Path) -> Dataset:
    return bushel.open(path, index="memory", verify=True)


@pytest.mark.parametrize("container", CONTAINERS)
def test_errors_come_with_the_sample_that_has_them(tmp_path: Path, container: str) -> None:
    options: dict[str, Any] = {"container": container, "sync": False}
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, **options) as writer:
        for number in range(10):
            assert writer.append({"n": number}) == number
            with pytest.raises(CodecError):
                writer.append({"n": "x"})
            with pytest.raises(SpecError, match="'m', which is not in the spec"):
                writer.append({"n": 1, "m": 2})
            with pytest.raises((SpecError, CodecError)):
                writer.append({"n": None})
            with pytest.raises((SpecError, ValueError), match=r"cannot hold the key|not allowed"):
                writer.append({"n": 1}, key="\n")
            assert len(writer) == number + 1
    assert [sample["n"] for sample in opened(tmp_path / "ds")] == list(range(10))


@pytest.mark.parametrize("container", ["bag", "tar", "recordio"])
def test_keys_are_known_at_once(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container=container, sync=False) as writer:
        for number in range(5):
            writer.append({"n": number, "__key__": f"k{number}"})
            for known in range(number + 1):
                with pytest.raises(ValueError, match=f"'k{known}' is in the dataset already"):
                    writer.append({"n": 0}, key=f"k{known}")
        with pytest.raises(ValueError, match="'k4' is in the dataset already"):
            writer.extend({"n": [5, 6]}, keys=["k5", "k4"])
        writer.extend({"n": [5, 6]}, keys=["k5", "k6"])
        writer.append({"n": 7}, key="key é")
        writer.append({"n": 8}, key="k8")
    dataset = opened(tmp_path / "ds")
    assert list(dataset.keys) == [*(f"k{number}" for number in range(7)), "key é", "k8"]
    assert [sample["n"] for sample in dataset] == list(range(9))


@pytest.mark.parametrize("container", ["bag", "tar", "recordio"])
def test_keys_in_folders_wait_as_others_do(tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [f"n01440764/n01440764_{number}" for number in range(300)]
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container=container, sync=False) as writer:
        writer.append({"n": 0}, keys[0])
        one_by_one = []
        framer = type(writer._written.current._writer)  # type: ignore[union-attr]
        monkeypatch.setattr(framer, "append", lambda *sample: one_by_one.append(sample))
        for number, key in enumerate(keys[1:], 1):
            writer.append({"n": number}, key)
        writer.flush()
        assert not one_by_one
        monkeypatch.undo()
        if container == "tar":
            for key in ("/a", "a/", "__a__", "__a__/b", "a/../b"):
                with pytest.raises(SpecError, match="cannot hold the key"):
                    writer.append({"n": 1}, key)
    assert list(opened(tmp_path / "ds").keys) == keys


def test_numbered_keys(tmp_path: Path) -> None:
    def refuse(writer: bushel.Writer, key: str | None, reason: str) -> None:
        with pytest.raises(ValueError, match=reason):
            writer.append({"n": 0}, key)
        with pytest.raises(ValueError, match=reason):
            writer.extend({"n": [0]}, None if key is None else [key])

    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container="tar", sync=False) as writer:
        writer.append({"n": 0})
        writer.extend({"n": [1, 2]})
        for key in ("000000000", "000000003", "other"):
            refuse(writer, key, "is not allowed: the samples before have no keys")
        writer.extend({"n": []}, [])
        writer.append({"n": 3})
    with bushel.Writer(tmp_path / "ds", mode="append", sync=False) as writer:
        refuse(writer, "000000002", "'000000002' is in the dataset already")
        writer.append({"n": 4}, key="other")
        writer.extend({"n": [5]}, ["000000008"])
        refuse(writer, None, "the samples of this dataset have keys, and this one lacks its own: pass key= or keys=")
    with bushel.Writer(tmp_path / "ds", mode="append", sync=False) as writer:
        writer.append({"n": 6})
        writer.extend({"n": [7]})
        refuse(writer, None, "'000000008' is in the dataset already")
    keys = [*(f"{number:09d}" for number in range(4)), "other", "000000008", "000000006", "000000007"]
    dataset = opened(tmp_path / "ds")
    assert list(dataset.keys) == keys
    assert [sample["n"] for sample in dataset] == list(range(8))


@pytest.mark.parametrize("container", ["bag", "tar", "recordio"])
def test_a_sample_without_a_key_comes_too_late(tmp_path: Path, container: str) -> None:
    with bushel.Writer(tmp_path / "ds", {"n": "int"}, container=container, sync=False) as writer:
        for number in range(3):
            writer.append({"n": number}, key=f"k{number}")
            with pytest.raises(ValueError, match="lacks its own"):
                writer.append({"n": 9})
    assert list(opened(tmp_path / "ds").keys) == ["k0", "k1", "k2"]


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("limit", [{"shard_samples": 7}, {"shard_bytes": 3000}, {"shard_bytes": 100_000}])
def test_shards_end_where_they_did(tmp_path: Path, container: str, limit: dict[str, Any]) -> None:
    class Other(dict[str, Any]):
        """A sample that is framed alone."""

    every = values(300)
    for name, kind in (("together", dict), ("alone", Other)):
        with bushel.Writer(tmp_path / name, {"data": "bytes"}, container=container, sync=False, **limit) as writer:
            shards = 0
            for value in every:
                writer.append(kind(data=value))
                found = len(list((tmp_path / name).glob("*"))) - 1  # without .bushel
                assert found - shards <= 2
                shards = found
    sizes = [[shard.samples for shard in opened(tmp_path / name).shards] for name in ("together", "alone")]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) > 1 or limit == {"shard_bytes": 100_000}
    assert [sample["data"] for sample in opened(tmp_path / "together")] == every


@pytest.mark.parametrize("container", CONTAINERS)
def test_resume_after_a_flush(tmp_path: Path, container: str) -> None:
    every = values(50)
    options: dict[str, Any] = {"container": container, "sync": False, "shard_samples": 10}
    writer = bushel.Writer(tmp_path / "ds", {"data": "bytes"}, **options)
    for value in every[:22]:
        writer.append({"data": value})
    writer.flush()
    for value in every[22:35]:
        writer.append({"data": value})
    writer.suspend()
    with bushel.Writer(tmp_path / "ds", {"data": "bytes"}, mode="resume", **options) as again:
        assert len(again) == 30
        for value in every[30:]:
            again.append({"data": value})
    assert [sample["data"] for sample in opened(tmp_path / "ds")] == every


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_full_disk_loses_only_the_sample_that_met_it(
    tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = values(9000)  # several times what is framed together
    put = Sink._put

    def full(self: Sink, pieces: Any) -> None:
        raise OSError(28, "No space left on device")

    written: list[bytes] = []
    failed = 0
    with bushel.Writer(tmp_path / "ds", {"data": "bytes"}, container=container, sync=False) as writer:
        for number, value in enumerate(every):
            if number == 2500:
                monkeypatch.setattr(Sink, "_put", full)
            try:
                assert writer.append({"data": value}) == len(written)
            except OSError:
                failed += 1
                if failed == 50:  # there is room again
                    monkeypatch.setattr(Sink, "_put", put)
            else:
                written.append(value)
        assert len(writer) == len(written)
    assert failed == 50
    assert [sample["data"] for sample in opened(tmp_path / "ds")] == written


@pytest.mark.parametrize("container", ["ffrecord", "recordio"])
def test_values_that_readers_would_mistake(tmp_path: Path, container: str) -> None:
    packed = b"\x82\xa7__key__\xc0"
    with bushel.Writer(tmp_path / "ds", {"data": "bytes"}, container=container, sync=False) as writer:
        with pytest.raises(SpecError, match="starts like a packed sample"):
            writer.append({"data": packed})
        for value in (b"fine", packed, b"fine"):
            writer.append({"data": value})
        if container == "ffrecord":
            with pytest.raises(SpecError, match="packed folder"):
                writer.append({"data": MAGIC + b"x"})
    assert [sample["data"] for sample in opened(tmp_path / "ds")] == [b"fine", packed, b"fine"]


def test_values_may_change_after_append(tmp_path: Path) -> None:
    buffer = bytearray(b"first")
    with bushel.Writer(tmp_path / "ds", {"data": "bytes"}, container="bag", sync=False) as writer:
        writer.append({"data": b"zero"})
        writer.append({"data": buffer})
        buffer[:] = b"other"
        writer.append({"data": memoryview(buffer)})
        buffer[:] = b"third"
    assert [sample["data"] for sample in opened(tmp_path / "ds")] == [b"zero", b"first", b"other"]


def test_a_large_value_keeps_the_order(tmp_path: Path) -> None:
    sizes = [10, 10, 40000, 10, 2 << 20, 10, 10]
    for container in CONTAINERS:
        with bushel.Writer(tmp_path / container, {"data": "bytes"}, container=container, sync=False) as writer:
            for number, size in enumerate(sizes):
                writer.append({"data": bytes([number]) * size})
        found = [(sample["data"][0], len(sample["data"])) for sample in opened(tmp_path / container)]
        assert found == list(enumerate(sizes))

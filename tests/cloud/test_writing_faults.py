"""Writing into S3 behind a network that fails: the same bytes, or an error and nothing half-written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cloud.fault_proxy import Proxy, proxy_of

import bushel
from bushel.storage import read_whole, walk_names
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud

VALUES = [np.random.default_rng(number).bytes(700_000) for number in range(40)]


@pytest.fixture
def proxy(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with proxy_of(s3_environment["AWS_ENDPOINT_URL"]) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "2")
        yield running


def write(target: object) -> None:
    with bushel.Writer(target, {"data": "bytes"}, container="tar", shard_samples=20) as writer:
        for number, value in enumerate(VALUES):
            writer.append({"data": value}, key=f"{number:03d}")


def every(step: int, fault: str) -> Callable[[int], str]:
    return lambda number: fault if number % step == 0 else "pass"


MODES: dict[str, Callable[[int], str]] = {
    "answers cut": every(2, "cut:20"),
    "refused": every(2, "refuse"),
    "burst of 503": lambda number: "busy" if number < 8 else "pass",
    "slow": lambda number: "slow:65536",
    "silent at first": lambda number: "stall:0" if number < 3 else "pass",
}


@pytest.mark.parametrize("name", MODES)
def test_same_bytes(bucket: ObjectPath, proxy: Proxy, tmp_path: Path, name: str) -> None:
    write(tmp_path / "set")
    proxy.become(MODES[name])
    write(f"{bucket}/set")
    assert proxy.connections > 0
    proxy.become(lambda number: "pass")
    for path in (tmp_path / "set").glob("*.tar"):
        assert read_whole(bucket / "set" / path.name) == path.read_bytes()
    assert len(bushel.open(f"{bucket}/set", index="require")) == 40
    report = bushel.verify(f"{bucket}/set")
    assert report.ok, report.problems


@pytest.mark.parametrize("fault", ["refuse", "busy", "cut:20", "stall:0"])
def test_an_end_of_patience_is_resumed(
    bucket: ObjectPath, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    write(tmp_path / "set")
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "2")
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.5")
    writer = bushel.Writer(f"{bucket}/set", {"data": "bytes"}, container="tar", shard_samples=20)
    for number, value in enumerate(VALUES[:19]):
        writer.append({"data": value}, key=f"{number:03d}")
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url + "/")  # another setting: no connection is kept
    proxy.become(lambda number: fault)
    with pytest.raises(ConnectionError, match="s3://"):
        writer.close()
    proxy.become(lambda number: "pass")
    left = list(walk_names(bucket / "set"))
    assert left in ([], [".bushel/writers/dataset.lock"]), "the lock cannot be removed while the network is broken"
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "5")
    with bushel.Writer(f"{bucket}/set", {"data": "bytes"}, mode="resume", container="tar", shard_samples=20) as again:
        assert len(again) == 0, "the open shard was discarded, and nothing was published before it"
        for number, value in enumerate(VALUES[:19]):
            again.append({"data": value}, key=f"{number:03d}")
    assert len(bushel.open(f"{bucket}/set", index="require")) == 19

"""S3 behind a network that fails."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cloud.conftest import upload
from tests.cloud.fault_proxy import Proxy, proxy_of
from tests.storage.objects.datasets import SPEC

import bushel
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud

VALUES = [np.random.default_rng(number).bytes(300_000) for number in range(30)]


@pytest.fixture
def proxy(s3_environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    with proxy_of(s3_environment["AWS_ENDPOINT_URL"]) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "2")
        yield running


@pytest.fixture
def folder(bucket: ObjectPath, tmp_path: Path) -> str:
    with bushel.Writer(tmp_path / "set", SPEC, container="tar", shard_samples=10) as writer:
        for number, value in enumerate(VALUES):
            writer.append({"data": value, "label": number}, key=f"key-{number}")
    upload(tmp_path / "set", bucket / "set")
    return f"{bucket}/set"


def every(step: int, fault: str) -> Callable[[int], str]:
    return lambda number: fault if number % step == 0 else "pass"


MODES: dict[str, Callable[[int], str]] = {
    "cut in mid-range": every(2, "cut:100000"),
    "cut in the header": every(2, "cut:20"),
    "refused": every(2, "refuse"),
    "burst of 503": lambda number: "busy" if number < 5 else "pass",
    "slow": lambda number: "slow:65536",
    "silent at first": lambda number: "stall:0" if number < 4 else "pass",
    "silent in mid-range": lambda number: "stall:100000" if number < 4 else "pass",
}


@pytest.mark.parametrize("name", MODES)
def test_same_bytes(folder: str, proxy: Proxy, name: str) -> None:
    proxy.become(MODES[name])
    dataset = bushel.open(folder)
    order = np.random.default_rng(0).permutation(30).tolist()
    assert [sample["data"] for sample in dataset.read(order)] == [VALUES[number] for number in order]
    assert proxy.connections > 0


def test_loader_over_a_bad_network(folder: str, proxy: Proxy) -> None:
    proxy.become(every(3, "cut:150000"))
    dataset = bushel.open(folder)
    loader: bushel.Loader[list[dict[str, Any]]] = bushel.Loader(
        dataset, batch_size=4, shuffle="blocks", seed=0, collate=list
    )
    samples = list(itertools.chain.from_iterable(loader))
    assert sorted(int(sample["label"]) for sample in samples) == list(range(30))
    assert all(sample["data"] == VALUES[int(sample["label"])] for sample in samples)


@pytest.mark.parametrize("fault", ["refuse", "busy", "cut:100", "stall:0"])
def test_patience_ends(folder: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "2")
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "0.5")
    dataset = bushel.open(folder)
    proxy.become(lambda number: fault)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.url + "/")  # another setting: no connection is kept
    with pytest.raises(ConnectionError, match="s3://"):
        dataset.read(range(30))
    with pytest.raises(ConnectionError, match="s3://"):
        bushel.open(folder)

"""Statistics: what is counted, and the sentence that follows from it."""

import time
from typing import Any

import pytest
from tests.loader.memory_dataset import MemoryDataset, slow

from bushel.loader import Loader, LoaderStats


@pytest.mark.parametrize("threads", [0, 2])
def test_counts_and_times(threads: int) -> None:
    loader = Loader(MemoryDataset(40), 4, threads=threads, transforms={"number": [slow]})
    assert str(loader.stats()).endswith("nothing was loaded yet")
    for _ in loader:
        time.sleep(0.001)
    stats = loader.stats()
    assert (stats.samples, stats.batches, stats.errors) == (40, 10, 0)
    assert stats.stored_bytes == sum(len(b"%d" % i) + len(b"name %d" % i) + 3 for i in range(40))
    assert stats.transform >= 40 * 0.05
    assert stats.training >= 10 * 0.001
    assert stats.seconds == pytest.approx(stats.waiting + stats.training)
    assert (stats.ready is None) == (threads == 0)


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1}], ids=str)
def test_only_what_the_trainer_was_given_counts(options: dict[str, Any]) -> None:
    loader = Loader(MemoryDataset(40), 4, **options)
    for number, _ in enumerate(loader, 1):
        if number == 3:
            break
    assert (loader.stats().samples, loader.stats().batches) == (12, 3)
    assert loader.stats().stored_bytes == sum(len(b"%d" % i) + len(b"name %d" % i) + 3 for i in range(12))
    loader = Loader(MemoryDataset(400), None, **options)
    for number, _ in enumerate(loader, 1):
        if number == 5:
            break
    assert loader.stats().samples == 5


def stats(**changes: Any) -> LoaderStats:
    values: dict[str, Any] = {
        "samples": 1000,
        "batches": 10,
        "stored_bytes": 10**8,
        "seconds": 10.0,
        "storage": 1.0,
        "decode": 1.0,
        "transform": 1.0,
        "collate": 1.0,
        "waiting": 9.0,
        "training": 1.0,
        "ready": 0.5,
        "errors": 2,
        "threads": 4,
        "cpus": 4,
    }
    return LoaderStats(**(values | changes))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"waiting": 0.1}, "keeps up"),
        ({"storage": 20.0}, "most work is in storage: read fewer fields"),
        ({"decode": 20.0, "threads": 1}, "1 of 4 CPUs are used, so raise threads"),
        ({"decode": 34.0}, "most work is in decode: 4.0 of 4 CPUs are busy; store smaller images"),
        ({"transform": 20.0}, "processes="),
        ({"collate": 20.0}, "values of one shape"),
    ],
)
def test_advice(changes: dict[str, float], says: str) -> None:
    assert says in stats(**changes).advice


def test_it_prints() -> None:
    text = str(stats())
    assert "1000 samples in 10 batches, 10.00 s: 100 samples/s, 10.0 MB/s, 2 bad" in text
    assert "storage     1.000 s" in text

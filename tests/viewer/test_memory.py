"""The memory that answers about many samples need beside the index, which is mapped."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.viewer.serving import client_of

import bushel

SAMPLES = 300_000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    path = tmp_path_factory.mktemp("many") / "data"
    with bushel.Writer(path, {"label": "int"}, container="bag", sync=False) as writer:
        for number in range(SAMPLES):
            writer.append({"label": number % 10}, key=f"train/{number:07d}")
    bushel.index(path, columns=["label"]).close()
    with client_of(path) as client:
        assert client.get("/api/0/rows?q=0000001&where=label+==+1&sort=label").json()["total"] == 1  # imports all
        yield client


def peak_of(work: Callable[[], Any]) -> int:
    """Return the most bytes that were in use at once, beyond what was in use before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("path", "bytes_per_sample"),
    [
        ("/api/0/histogram?column=label", 12),
        ("/api/0/histogram?column=label.bytes", 12),
        ("/api/0/rows?q=00777&count=60", 24),
        ("/api/0/rows?sort=label&count=60", 20),
        ("/api/0/rows?sort=-label&count=60", 24),
        ("/d/0/shards", 8),
    ],
)
def test_an_answer_does_not_copy_the_index(client: Any, path: str, bytes_per_sample: int) -> None:
    peak = peak_of(lambda: client.get(path).raise_for_status())
    assert peak / SAMPLES < bytes_per_sample


def test_classes_are_counted_without_a_sorted_copy() -> None:
    from bushel.viewer.histograms import histogram_of

    values = np.arange(1 << 20, dtype=np.int64) % 10
    assert peak_of(lambda: histogram_of("label", values, None, None)) < values.nbytes


@pytest.mark.parametrize(("times", "bytes_per_value"), [(1, 10), (2, 80)])
def test_equal_values_are_found_without_sorting_all(times: int, bytes_per_value: int) -> None:
    from bushel.viewer.quality_pages import groups_of

    count = 1 << 19
    sums = np.repeat(np.random.default_rng(0).permutation(count // times).astype(np.uint32), times)
    lengths, positions = np.full(count, 4000, np.int64), np.arange(count, dtype=np.int64)
    found: list[int] = []
    assert peak_of(lambda: found.append(len(groups_of(sums, lengths, positions)))) / count < bytes_per_value
    assert found == [count // 2 if times == 2 else 0]

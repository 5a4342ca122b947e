"""Batches that drop-ins share."""

from __future__ import annotations

from itertools import count, islice

from bushel.compat.batching import in_batches


def test_batches() -> None:
    assert list(in_batches("abcde", 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(in_batches("abcde", 2, drop_last=True)) == [["a", "b"], ["c", "d"]]
    assert list(in_batches([], 2)) == []
    assert list(islice(in_batches(count(), 3), 2)) == [[0, 1, 2], [3, 4, 5]]

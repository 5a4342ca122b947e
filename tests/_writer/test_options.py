"""The options of writers, and when a shard is full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._writer.target import ShardLimits, WriterOptions


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match="invalid mode='add': write one of 'create'"):
        WriterOptions(mode="add")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shard_samples=0: expected a whole number from 1"):
        WriterOptions(shard_samples=0)
    with pytest.raises(ValueError, match="invalid size 'large'"):
        WriterOptions(shard_bytes="large").limits(single=False)


def test_sizes_of_shards() -> None:
    """A folder has shards of 1 GiB unless the caller says something else, and one file has no limit."""
    for options, single, samples, size in (
        (WriterOptions(), False, None, 1 << 30),
        (WriterOptions(), True, None, None),
        (WriterOptions(shard_samples=3), False, 3, None),
        (WriterOptions(shard_bytes="1KB"), False, None, 1000),
        (WriterOptions(shard_bytes=0), False, None, None),
        (WriterOptions(shard_bytes="0"), False, None, None),
    ):
        limits = options.limits(single=single)
        assert (limits.samples, limits.bytes) == (samples, size)


@given(st.integers(1, 50), st.integers(0, 300), st.integers(0, 300))
def test_the_samples_that_shards_expect_add_up_to_all(limit: int, total: int, kept: int) -> None:
    """A shard that is not full yet has room for what the next one is expected to get, and for no more."""
    limits = ShardLimits(limit, None)
    written = min(kept, total)
    while (expected := limits.expected(total, written, None)) != 0:
        assert expected is not None
        assert expected <= limit
        written += expected
    assert written == total
    assert ShardLimits(None, 10).expected(total, 0, None) is None

"""Shards with and without keys, which are in no file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import strategies as st

from bushel._dataset.read.shards import OpenShard
from bushel._index.shard import FileStamp, Keys, Shard
from bushel._index.table import FieldExtents, ShardIndex
from bushel.spec import Field

TEXT = st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.integers(0, 12).map(str))


def opened(keys: list[str] | int) -> OpenShard:
    """A shard of samples with these keys, or of so many without."""
    samples = keys if isinstance(keys, int) else len(keys)
    zeros = np.zeros(samples, np.int64)
    column = FieldExtents(Field("a", "bytes"), "bytes", 0, zeros, zeros)
    table = None if isinstance(keys, int) else Keys.of(keys)
    index = ShardIndex(samples, (FileStamp("a.bag", 0),), {"a": column}, "bag", table)
    return OpenShard.of("bag", Shard(Path("nowhere"), "a", ("a.bag",)), index, stored=False)


def keys_of(shards: list[list[str] | int]) -> list[str]:
    keys: list[str] = []
    for shard in shards:
        keys += [str(len(keys) + number) for number in range(shard)] if isinstance(shard, int) else shard
    return keys


SHARDS = st.lists(st.one_of(st.lists(TEXT, max_size=6), st.integers(0, 5)), max_size=4)

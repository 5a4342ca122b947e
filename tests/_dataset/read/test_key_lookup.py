from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._dataset.views.keyed_shards import SHARDS, TEXT, keys_of, opened

import bushel
from bushel._dataset.read.shards import OpenShard
from bushel._index.key_lookup import KeyLookup, KeyView, samples_of_keys
from bushel._index.shard import Keys
from bushel._index.table import ShardIndex


@given(SHARDS, TEXT)
def test_all_positions_of_a_key_in_ascending_order(shards: list[list[str] | int], other: str) -> None:
    table = KeyLookup.of([opened(shard) for shard in shards])
    keys = keys_of(shards)
    for key in {*keys, other, "", "00", "-1", "99"}:
        assert list(table.find(key)) == [position for position, each in enumerate(keys) if each == key]


@given(SHARDS, TEXT)
def test_many_keys_at_once(shards: list[list[str] | int], other: str) -> None:
    listed = [opened(shard) for shard in shards]
    table = KeyLookup.of(listed)
    keys = list(dict.fromkeys([*keys_of(shards), other, "", "\ud800", "00", "99"]))
    expected = sorted((position, number) for number, key in enumerate(keys) for position in table.find(key))
    for lookup in (table, None):
        positions, numbers = samples_of_keys(keys, listed, table.starts, lookup)
        assert sorted(zip(positions.tolist(), numbers.tolist(), strict=True)) == expected


@pytest.mark.parametrize("choose", [slice(None), slice(None, None, -2), slice(3, 30), [5, 1, 5, 20]])
@pytest.mark.parametrize("removed", [[], [3, 7, 39]])
def test_a_view_of_many_keys_looks_them_up_at_once(
    tmp_path: Path, choose: slice | list[int], removed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with bushel.Writer(tmp_path / "x", {"label": "int"}, container="tar", shard_samples=7, sync=False) as writer:
        for number in range(40):
            writer.append({"label": number}, key=f"k{number * 7 % 40}")
    if removed:
        bushel.remove(tmp_path / "x", positions=removed, reason="test")
    view = bushel.open(tmp_path / "x")[choose]
    keys = [*view.keys][::-1]
    expected = [view.position(key) for key in keys]
    monkeypatch.delattr(KeyLookup, "find")
    assert view.select_keys(keys).selection.every.tolist() == view[expected].selection.every.tolist()


@pytest.mark.parametrize(
    "key", ["\ud800", "a\udfff\ud800", "9" * 5000, "٣", "²", "18446744073709551616", "1e3", "+1", "1_0"]
)
@pytest.mark.parametrize("shards", [[20], [["a", "b"]], [["a", "b"], 20]])
def test_keys_that_nothing_can_have(key: str, shards: list[list[str] | int]) -> None:
    assert list(KeyLookup.of([opened(shard) for shard in shards]).find(key)) == []


def test_one_shard_costs_no_copy() -> None:
    shard = opened(["b", "a"])
    table = KeyLookup.of([shard])
    assert shard.index.keys is not None
    assert table.hashes is shard.index.keys.hashes
    assert table.shard_numbers.strides == (0,)


@pytest.mark.parametrize("order", [-1, -(2**63), 3, 2**62])
def test_a_damaged_table_finds_nothing_worse_than_nothing(order: int) -> None:
    keys = Keys.of(["a", "b", "c"])
    damaged = Keys(keys.text, keys.offsets, keys.hashes, np.full(3, order, np.int64))
    shard = opened(["a", "b", "c"])
    index = ShardIndex(3, shard.index.files, shard.index.fields, "bag", damaged)
    table = KeyLookup.of([OpenShard.of("bag", shard.shard, index, stored=False)])
    assert [list(table.find(key)) for key in "abc"] == [[], [], []]


@given(st.lists(st.text(max_size=3), max_size=3000), st.integers(-5, 5), st.slices(20))
def test_a_view_of_keys_is_a_sequence(keys: list[str], at: int, part: slice) -> None:
    view = KeyView(len(keys), lambda positions: [keys[position] for position in positions.tolist()])
    assert list(view) == keys
    assert len(view) == len(keys)
    assert view[part] == keys[part]
    assert list(reversed(view)) == keys[::-1]
    if -len(keys) <= at < len(keys):
        assert view[at] == keys[at]
        assert view.index(keys[at]) == keys.index(keys[at])
    else:
        with pytest.raises(IndexError, match=f"position {at} is out of range: the length is {len(keys)}"):
            view[at]


def test_how_a_view_of_keys_shows_itself() -> None:
    view = KeyView(2000, lambda positions: [f"k{position}" for position in positions.tolist()])
    assert repr(view) == "<2000 keys: 'k0', 'k1', 'k2', …>"
    assert view[1998:] == ["k1998", "k1999"]
    assert view.index("k7", 7) == 7
    with pytest.raises(ValueError, match="no sample has the key 'nope'"):
        view.index("nope")
    assert repr(KeyView(0, lambda positions: [])) == "<0 keys: >"


def test_rows_outside_a_shard_are_passed_over() -> None:
    listed = [opened(["a", "b", "c"])]
    keys = listed[0].index.keys
    assert keys is not None
    keys.order[:] = [1 << 40, -7, 3]
    table = KeyLookup.of(listed)
    stored = KeyLookup(listed, table.starts, keys.hashes, np.zeros(3, np.uint32))
    for lookup in (table, stored):
        assert [list(lookup.find(key)) for key in "abc"] == [[], [], []]

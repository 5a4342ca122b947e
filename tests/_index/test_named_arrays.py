"""Files of named arrays that are written piece by piece equal those that safetensors writes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save

from bushel._index import saving
from bushel._index.saving import head_of, in_order, pieces_of, save_index
from bushel._index.shard import FileStamp, Keys
from bushel._index.sidecar import load_index
from bushel._index.table import FieldExtents, ShardIndex
from bushel.spec import Field


def test_the_bytes_are_those_of_safetensors() -> None:
    types = ("uint8", "bool", "int64", "uint64", "float64", "uint32", "int32", "float32", "int8", "uint16")
    arrays = {f'{name}.ä"\n{number}': np.arange(number, dtype=name) for number, name in enumerate(types)}
    header = {"crc32": "00", "ü": "\x01"}
    text = msgspec.json.encode(header).decode()
    own = in_order(arrays)
    assert head_of(own, header) + b"".join(pieces_of(own)) == save(arrays, {"bushel": text})


def test_a_large_index_is_written_as_a_small_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offset = np.arange(1000, dtype=np.int64)
    field = FieldExtents(Field("text", "utf8"), "utf8", 0, offset, np.ones(1000, np.int64))
    keys = Keys.of(f"key {number}" for number in range(1000))
    index = ShardIndex(1000, (FileStamp("x", 1001),), {"text": field}, "jsonl", keys)
    save_index(index, tmp_path / "small")
    monkeypatch.setattr(saving, "_LARGE", 0)
    save_index(index, tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == (tmp_path / "small").read_bytes()
    assert load_index(tmp_path / "large", check=True).keys is not None

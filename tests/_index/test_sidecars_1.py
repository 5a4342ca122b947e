"""Sidecars of version 1 that have fragments or inline bytes: they are read, and written again with blocks."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import bushel
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index

KEPT = Path(__file__).parent / "sidecars-1-blocks"
MAGIC = (0xCED7230A).to_bytes(4, "little")
VALUES = [b"plain", MAGIC, b"head" + MAGIC + b"tail", b"", b"abc" + MAGIC, MAGIC * 3 + b"x", b"last one"]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    shutil.copytree(KEPT, tmp_path / "kept")
    return tmp_path / "kept"


def test_records_in_several_parts(kept: Path) -> None:
    index = load_index(kept / ".bushel/raw.rec.safetensors")
    assert [len(blocks) for blocks in index.blocks] == [6]
    with bushel.open(kept / "raw.rec", verify=True, index="require") as dataset:
        assert dataset.info.checksums
        assert [sample["data"] for sample in dataset.read(range(7))] == VALUES
        assert [dataset[f"k{number}"]["data"] for number in range(7)] == VALUES
    assert bushel.verify(kept / "raw.rec").ok


def test_maps_in_several_parts(kept: Path) -> None:
    with bushel.open(kept / "maps.rec", verify=True, index="require") as dataset:
        for number, value in enumerate(VALUES):
            values = {"b": []} if number == 3 else {"a": value, "b": [value] * (number % 3)}
            assert dataset[number] == {"__key__": f"k{number}", **values}


def test_values_in_the_table(kept: Path) -> None:
    with bushel.open(kept / "gulp", index="require") as dataset:
        assert [sample["meta"] for sample in dataset] == [{"label": n, "name": f"n\xe4me {n}"} for n in range(3)]
        assert [len(sample["frames"]) for sample in dataset] == [0, 1, 2]


@pytest.mark.parametrize("name", ["raw.rec", "maps.rec", "gulp/data_0.gulp"])
def test_written_again_they_are_the_table_that_a_scan_makes(kept: Path, name: str) -> None:
    sidecar = (kept / name).parent / f".bushel/{(kept / name).name}.safetensors"
    old = load_index(sidecar)
    save_index(old, sidecar)
    new = load_index(sidecar)
    assert b'\\"version\\":2,' in sidecar.read_bytes()
    if name.endswith(".rec"):  # positions do not depend on how a table was made
        spec = {own.field.name: own.field.type for own in old.fields.values()}
        scanned = bushel.open(kept / name, spec=spec, index="memory").shards[0].index
        for field, own in scanned.fields.items():
            assert own.file == new.fields[field].file
            np.testing.assert_array_equal(own.offset[own.length >= 0], new.fields[field].offset[own.length >= 0])
            np.testing.assert_array_equal(own.length, new.fields[field].length)


def test_a_changed_record_is_found(kept: Path) -> None:
    data = bytearray((kept / "raw.rec").read_bytes())
    at = data.index(b"tail")
    data[at] ^= 1
    (kept / "raw.rec").write_bytes(data)
    problems = bushel.verify(kept / "raw.rec").problems
    assert [(problem.key, problem.kind) for problem in problems][:1] == [("k2", "checksum")]

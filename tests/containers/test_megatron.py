"""Tokens of Megatron-LM, in place."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, check_expected

import bushel
from bushel.testing import READABLE_CHECKS, Golden, Readable

TOKENS = [np.arange(start, start + size, dtype=np.uint16) for start, size in ((0, 3), (10, 1), (20, 4), (30, 2))]


def write(
    folder: Path, sequences: Sequence[Any] = TOKENS, borders: Sequence[int] = (0, 1, 3, 4), *, modes: bytes = b""
) -> Path:
    """Write a corpus as `MMapIndexedDatasetBuilder` does, and return its `.bin`."""
    lengths = [len(each) for each in sequences]
    offsets = np.concatenate([[0], np.cumsum([each.nbytes for each in sequences])[:-1]])
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, len(lengths), len(borders))
    parts = (np.array(lengths, "<i4"), offsets.astype("<i8"), np.array(borders, "<i8"))
    (folder / "corpus.idx").write_bytes(head + b"".join(part.tobytes() for part in parts) + modes)
    (folder / "corpus.bin").write_bytes(b"".join(each.tobytes() for each in sequences))
    return folder / "corpus.bin"


@pytest.mark.parametrize("name", ["megatron-int32", "megatron-uint16"])
def test_what_megatron_wrote(name: str, tmp_path: Path) -> None:
    check_expected(name, Path(shutil.copytree(FOREIGN / name, tmp_path / name)) / "corpus.bin")


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(check: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "checked").mkdir()
    samples = [{"tokens": TOKENS[0]}, {"tokens": np.concatenate(TOKENS[1:3])}, {"tokens": TOKENS[3]}]
    READABLE_CHECKS[check](Readable("megatron", Golden(write(tmp_path / "in"), samples), tmp_path / "checked"))


def test_sequences_of_a_document_as_a_list(tmp_path: Path) -> None:
    path = write(tmp_path)
    ds = bushel.open(path, spec={"ids": "array(uint16,-1)[]"})
    assert [[part.tolist() for part in each["ids"]] for each in ds] == [
        [[0, 1, 2]],
        [[10], [20, 21, 22, 23]],
        [[30, 31]],
    ]
    assert ds[1, {"ids": slice(1, 2)}]["ids"][0].tolist() == [20, 21, 22, 23]


def test_without_borders_each_sequence_is_a_document(tmp_path: Path) -> None:
    assert [len(each["tokens"]) for each in bushel.open(write(tmp_path, borders=()))] == [3, 1, 4, 2]


def test_empty_documents_and_modes(tmp_path: Path) -> None:
    ds = bushel.open(write(tmp_path, borders=(0, 0, 4, 4), modes=bytes(4)))
    assert [each["tokens"].tolist() for each in ds] == [[], np.concatenate(TOKENS).tolist(), []]


def test_folders_and_the_idx(tmp_path: Path) -> None:
    write(tmp_path)
    assert len(bushel.open(tmp_path)) == 3
    assert bushel.open(tmp_path / "corpus.idx", container="megatron").info.container == "megatron"
    assert not (tmp_path / ".bushel").exists()
    (tmp_path / "corpus.idx").unlink()
    with pytest.raises(bushel.errors.FormatError):
        bushel.open(tmp_path / "corpus.bin")


def test_tokens_are_packed_by_the_loader(tmp_path: Path) -> None:
    ds = bushel.open(write(tmp_path))
    assert sorted(len(tokens) for batch in bushel.Loader(ds, 2) for tokens in batch["tokens"]) == [2, 3, 5]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({0: b"X"}, "an .idx of Megatron begins with"),
        ({9: b"\2"}, "version 2 with dtype 8 is unknown"),
        ({17: b"\x09"}, "version 1 with dtype 9 is unknown"),
        ({18: b"\xff" * 8}, "sequences and 4 borders of documents need"),
        ({26: b"\xff" * 8}, "sequences and 18446744073709551615 borders"),
        ({34: b"\xff\xff\xff\xff"}, "sequence 0 of -1 tokens"),
        ({34: b"\xff\xff\xff\x7f"}, "sequence 0 of 2147483647 tokens"),
        ({50: b"\xff" * 8}, "sequence 0 of 3 tokens at -1"),
        ({58: b"\0"}, "sequence 2 does not follow the one before it"),
        ({82: b"\1"}, "the borders of documents do not ascend from 0 to 4"),
    ],
)
def test_damage_is_named(change: dict[int, bytes], message: str, tmp_path: Path) -> None:
    path = write(tmp_path)
    table = bytearray((tmp_path / "corpus.idx").read_bytes())
    for at, new in change.items():
        table[at : at + len(new)] = new
    (tmp_path / "corpus.idx").write_bytes(table)
    with pytest.raises(bushel.errors.FormatError, match=message) as caught:
        bushel.open(path)
    assert caught.value.file == str(tmp_path / "corpus.idx")


@pytest.mark.parametrize("size", [0, 5, 33, 40, 100])
def test_a_truncated_idx(size: int, tmp_path: Path) -> None:
    path = write(tmp_path)
    table = (tmp_path / "corpus.idx").read_bytes()
    (tmp_path / "corpus.idx").write_bytes(table[:size])
    with pytest.raises(bushel.errors.FormatError):
        bushel.open(path)

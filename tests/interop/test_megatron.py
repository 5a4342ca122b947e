"""Megatron-LM's files of tokens, and datasets that Energon has prepared: as the original packages read them."""

from __future__ import annotations

import hashlib
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

pytestmark = pytest.mark.interop

Original = Callable[..., list[dict[str, Any]]]
DTYPES = ("uint8", "int8", "int16", "int32", "int64", "uint16", "float32", "float64")


def digest(tokens: Any) -> list[Any]:
    """Return digest and length of an array, as the script prints them."""
    return [hashlib.sha256(np.ascontiguousarray(tokens).tobytes()).hexdigest(), len(tokens)]


@pytest.mark.parametrize("kind", [*DTYPES, "multimodal", "merged"])
def test_documents_are_those_of_megatron(original: Callable[[str], Original], kind: str, tmp_path: Path) -> None:
    wanted = original("megatron")("megatron_tokens.py", kind, tmp_path / "corpus")
    dtype = kind if kind in DTYPES else "int32"
    sequences = bushel.open(tmp_path / "corpus", spec={"tokens": f"array({dtype},-1)[]"})
    whole = bushel.open(tmp_path / "corpus")
    assert (len(sequences), len(whole)) == (len(wanted), len(wanted))
    order = random.Random(kind).sample(range(len(wanted)), len(wanted))
    for place, lists, joined in zip(order, sequences.read(order), whole.read(order), strict=True):
        assert {each.dtype.name for each in lists["tokens"]} == {wanted[place]["dtype"]}
        assert [digest(each) for each in lists["tokens"]] == wanted[place]["sequences"]
        assert digest(joined["tokens"]) == digest(np.concatenate(lists["tokens"]))
    seen: dict[str, Any] = {}
    for batch in bushel.Loader(whole, 3, shuffle=True, seed=2):
        seen.update(zip(batch["__key__"], batch["tokens"], strict=True))
    assert {key: digest(tokens) for key, tokens in seen.items()} == {
        str(place): digest(sample["tokens"]) for place, sample in enumerate(whole)
    }
    assert bushel.verify(tmp_path / "corpus").ok


def test_samples_are_those_of_energon(original: Callable[[str], Original], tmp_path: Path) -> None:
    rng = random.Random(4)
    with bushel.Writer(
        tmp_path / "made", {"bin": "bytes", "txt": "utf8", "cls": "int"}, container="tar", shard_samples=9
    ) as made:
        for number in range(40):
            made.append(
                {"bin": rng.randbytes(rng.randrange(3000)), "txt": f"text {number}", "cls": number}, key=f"{number:04}"
            )
    folder = tmp_path / "prepared"
    folder.mkdir()
    for path in (tmp_path / "made").glob("*.tar"):  # without Bushel's index
        shutil.copy(path, folder)
    wanted = original("megatron")("energon_samples.py", folder)
    assert (folder / ".nv-meta/index.sqlite").exists()
    ds = bushel.open(folder)
    assert [line["key"] for line in wanted] == list(ds.keys)
    order = rng.sample(range(len(ds)), len(ds))
    for place, sample in zip(order, ds.read(order, decode=False), strict=True):
        assert sample.pop("__key__") == wanted[place]["key"]
        found = {name: [hashlib.sha256(value).hexdigest(), len(value)] for name, value in sample.items()}
        assert found == wanted[place]["fields"]
    keys = [key for batch in bushel.Loader(ds, 7, shuffle=True, fields=["txt", "cls"]) for key in batch["__key__"]]
    assert sorted(keys) == sorted(line["key"] for line in wanted)
    assert bushel.verify(folder).ok

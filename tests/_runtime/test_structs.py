"""Structs: values that are made fast, and are like dataclasses to callers."""

from __future__ import annotations

import copy
import inspect
import pickle
import re
from dataclasses import asdict, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import field

import bushel
from bushel._runtime.structs import Struct
from bushel.containers import Shard

if TYPE_CHECKING:
    from fractions import Fraction


class Piece(Struct, frozen=True):
    name: str
    share: Fraction | None = None
    notes: list[str] = field(default_factory=list)


class LongPiece(Piece, frozen=True):
    length: int = 3


def test_a_struct_is_like_a_dataclass() -> None:
    long: Any = LongPiece("a", length=5)
    assert [(each.name, each.type) for each in fields(long)] == [
        ("name", "str"),
        ("share", "Fraction | None"),
        ("notes", "list[str]"),
        ("length", "int"),
    ]
    assert asdict(long) == {"name": "a", "share": None, "notes": [], "length": 5}
    assert replace(long, name="b") == LongPiece("b", length=5) != long
    assert str(inspect.signature(Piece)).startswith("(name: 'str', share: 'Fraction | None' = None, notes: ")
    assert is_dataclass(LongPiece)
    assert repr(Piece("a")) == "Piece(name='a', share=None, notes=[])"


def test_a_struct_is_frozen_and_can_be_hashed() -> None:
    shard = Shard("root", "name", ("file",))  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        shard.name = "other"  # type: ignore[misc]
    assert len({shard, copy.deepcopy(shard), pickle.loads(pickle.dumps(shard))}) == 1
    assert shard != replace(shard, urls=True)


def test_fields_that_need_a_value_are_named() -> None:
    with pytest.raises(TypeError, match="Missing required argument 'name'"):
        Piece()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Unexpected keyword argument 'nmae'"):
        Piece("a", nmae=3)  # type: ignore[call-arg]


def test_no_file_uses_a_struct_that_is_not_like_a_dataclass() -> None:
    own = Path(bushel.__file__).parent
    files = [path for path in own.rglob("*.py") if path.name != "structs.py"]
    assert [path.name for path in files if re.search(r"from msgspec import .*\bStruct\b", path.read_text())] == []

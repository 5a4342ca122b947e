"""The suite for containers that are only read, and what it finds in broken ones."""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs
from tests.testing.shelves import PACKAGE, TEXTS, write_shelf

import bushel
from bushel.containers import Container, ReadOptions, Shard, ShardIndex, registry
from bushel.storage import AnyPath
from bushel.testing import READABLE_CHECKS, ConformanceError, Golden, Readable, check_readable


@pytest.fixture(name="shelf")
def _shelf(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The container of the extension package, imported and not registered."""
    monkeypatch.syspath_prepend(str(PACKAGE))
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    yield importlib.import_module("bushel_shelf").SHELF
    del sys.modules["bushel_shelf"]


@pytest.fixture(name="golden")
def _golden(tmp_path: Path) -> Golden:
    return Golden(
        write_shelf(tmp_path / "words.shelf", TEXTS), [{"text": text} for text in TEXTS.values()], list(TEXTS)
    )


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_the_extension_fulfils(check: str, shelf: Any, golden: Golden, tmp_path: Path) -> None:
    bushel.register_container(shelf)
    (tmp_path / "checked").mkdir()
    READABLE_CHECKS[check](Readable("shelf", golden, tmp_path / "checked"))


def test_all_at_once_and_what_does_not_apply(shelf: Any, tmp_path: Path) -> None:
    bushel.register_container(shelf)
    one = Golden(write_shelf(tmp_path / "one.shelf", {"a": "b"}), [{"text": "b"}], ["a"])
    assert check_readable("shelf", one) == ["epochs"]


@dataclasses.dataclass(frozen=True)
class Broken(Container):
    """A container that makes one mistake."""

    inner: Any
    mistake: str
    name: str = "shelf"
    suffixes: tuple[str, ...] = (".shelf",)

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards."""
        if self.mistake == "all files" and not path.is_dir():
            return [Shard.of(path)]
        found: list[Shard] | None = self.inner.shards(path)
        return found

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table."""
        if self.mistake == "crash" and shard.path(0).stat().st_size % 2:
            raise struct_error()
        index: ShardIndex = self.inner.index(shard, options)
        if self.mistake == "shifted":
            field = index.fields["text"]
            moved = structs.replace(field, offset=field.offset - 1, crc32=None)
            return structs.replace(index, fields={"text": moved})
        if self.mistake == "other name":
            return structs.replace(index, container="tar")
        return index


def struct_error() -> Exception:
    import struct

    return struct.error("unpack requires a buffer of 12 bytes")


@pytest.mark.parametrize(
    ("mistake", "check", "found"),
    [
        ("all files", "recognition", "a file of another kind is recognised as a dataset"),
        ("shifted", "values", "field 'text' of sample 0"),
        ("other name", "tables", "container of the table"),
        ("crash", "damaged_files", "unpack requires a buffer"),
    ],
)
def test_mistakes_are_found(mistake: str, check: str, found: str, shelf: Any, golden: Golden, tmp_path: Path) -> None:
    bushel.register_container(Broken(shelf, mistake))
    (tmp_path / "checked").mkdir()
    with pytest.raises((ConformanceError, Exception), match=found):
        READABLE_CHECKS[check](Readable("shelf", golden, tmp_path / "checked"))

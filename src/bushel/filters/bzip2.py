"""Blocks compressed by bzip2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cramjam import bzip2

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(bzip2.decompress_into(stored, out))


FILTERS = {"bzip2": Filter("bzip2", _expand)}

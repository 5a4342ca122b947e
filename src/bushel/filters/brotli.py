"""Blocks compressed by Brotli."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cramjam import brotli

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(brotli.decompress_into(stored, out))


FILTERS = {"brotli": Filter("brotli", _expand)}

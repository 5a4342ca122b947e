"""Blocks of one or more frames of Zstandard."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cramjam import zstd

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["FILTERS"]


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(zstd.decompress_into(stored, out))


FILTERS = {"zstd": Filter("zstd", _expand)}

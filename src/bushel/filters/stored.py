"""Blocks that are stored as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    view = memoryview(stored).cast("B")
    if len(view) != len(out):
        raise ValueError("a stored block has as many bytes as are stored")
    out[:] = view
    return len(view)


FILTERS = {"stored": Filter("stored", _expand, 1)}

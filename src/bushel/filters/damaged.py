"""Blocks that are known to be damaged: a record that does not match the checksum of its own container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    raise ValueError("the record does not match its checksum in the file")


FILTERS = {"damaged": Filter("damaged", _expand)}

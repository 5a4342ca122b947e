"""The blocks of a block file that is being made."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bushel._runtime.arrays import joined

from .blocks import Blocks, Side


@dataclass(slots=True)
class BlockList:
    """The blocks of a block file that is being made."""

    starts: list[int] = field(default_factory=lambda: [0])
    offsets: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    sides: list[bytes] = field(default_factory=list)

    def add(self, offset: int, length: int, size: int, name: str, side: bytes = b"") -> int:
        """Add a block, and return its position in the block file."""
        start = self.starts[-1]
        self.starts.append(start + size)
        self.offsets.append(offset)
        self.lengths.append(length)
        self.filters.append(name)
        self.sides.append(side)
        return start

    def blocks(self) -> Blocks:
        """Return the block file."""
        names = tuple(dict.fromkeys(self.filters))
        side = None
        if any(self.sides):
            data, ends = joined(self.sides)
            side = Side(ends, data)
        return Blocks(
            np.array(self.starts, np.int64),
            np.zeros(len(self.offsets), np.int32),
            np.array(self.offsets, np.int64),
            np.array(self.lengths, np.int64),
            np.array([names.index(name) for name in self.filters], np.uint8),
            names,
            side,
        )

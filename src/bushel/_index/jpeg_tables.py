"""Places of segments and decoder states in JPEGs, for crops that are read in part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U32, U64


@dataclass(frozen=True, slots=True)
class Segments:
    """Lengths of the segments of tiled JPEGs (docs/tiled-jpeg.md), so that a crop can be read in part."""

    # int64[rows + 1]; row `i` owns the lengths `starts[i]` to `starts[i + 1]`, none if it is not
    # tiled
    starts: I64
    # uint32[total], bytes of the header before the first segment, then of each segment with its
    # marker
    lengths: U32

    def of(self, row: int) -> I64:
        """Return the offsets of a row's segments in the JPEG, followed by the end of the last; empty if not tiled."""
        return np.cumsum(self.lengths[self.starts[row] : self.starts[row + 1]], dtype=np.int64)


class SeekTables(Struct, frozen=True):
    """The seek tables of plain JPEGs (docs/seek-tables.md), so that decoding can begin inside the image.

    The kernel checks each table when it uses it.
    """

    # int64[rows + 1]; row `i` owns the words `starts[i]` to `starts[i + 1]`, none if it has no
    # table
    starts: I64
    words: U64  # uint64[total]

    def of(self, rows: I64) -> list[U64]:
        """Return the tables of some rows. An empty one stands for none."""
        first, last = (
            np.maximum(self.starts[rows], 0).tolist(),
            np.maximum(self.starts[rows + 1], 0).tolist(),
        )
        return [self.words[begin:end] for begin, end in zip(first, last, strict=True)]

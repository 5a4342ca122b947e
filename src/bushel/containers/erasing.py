"""The bytes that replace erased values, so that the tool that wrote a file still reads the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from bushel._index.table import Shard, ShardIndex


def _zeros(index: ShardIndex, field: str, stored: bytes) -> bytes:
    return bytes(len(stored))


def _nothing(shard: Shard, index: ShardIndex, samples: npt.NDArray[np.int64]) -> Iterable[tuple[int, int, bytes]]:
    return ()


@dataclass(frozen=True, slots=True)
class Eraser:
    """Overwrites the values of a container in place, without changing lengths or offsets.

    What a value becomes does not depend on whether it was erased before, so that erasing can be repeated.
    """

    # returns as many bytes, which take the place of the stored value of a field: by default, zeros
    erased: Callable[[ShardIndex, str, bytes], bytes] = _zeros
    # returns the other changes in the files of a shard: number of the file, offset, and new bytes; it is given the
    # shard, its table, and the numbers of the samples whose values are all erased
    seal: Callable[[Shard, ShardIndex, npt.NDArray[np.int64]], Iterable[tuple[int, int, bytes]]] = _nothing
    # four bytes that belong to the structure where they stand at a multiple of four in a file; empty if the format has
    # no such bytes
    kept_word: bytes = b""


@runtime_checkable
class Erases(Protocol):
    """A container whose values can be overwritten in place."""

    @property
    def eraser(self) -> Eraser:
        """The functions that do that."""
        ...

"""Blocks of one or more frames of Zstandard."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from cramjam import zstd

from bushel.filters.base import Filter

if TYPE_CHECKING:
    from typing_extensions import Buffer

_LARGE = 1 << 20  # blocks of at least this size are expanded by pyarrow, if it is imported
_WORTH_IMPORT = 256 << 20
"""After this number of bytes in such blocks, pyarrow is imported, which takes as long as expanding them."""


def _expand(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    return int(zstd.decompress_into(stored, out))


class _ByPyarrow:
    """Expands large blocks in half the time: cramjam copies each byte more often than pyarrow does."""

    def __init__(self) -> None:
        self._before = 0  # bytes in large blocks; threads that add at the same time may lose some

    def __call__(self, stored: Buffer, size: int) -> npt.NDArray[np.uint8] | None:
        """Return the bytes of a block; None for blocks that are left to cramjam, as pyarrow refuses them."""
        if size < _LARGE:
            return None
        if "pyarrow" not in sys.modules and self._before < _WORTH_IMPORT:
            self._before += size
            if self._before >= _WORTH_IMPORT:
                with suppress(ImportError):
                    import_module("pyarrow")
        pyarrow: Any = sys.modules.get("pyarrow")
        if not hasattr(pyarrow, "Codec"):  # it is not installed, or another thread is importing it
            return None
        try:
            return np.frombuffer(pyarrow.Codec("zstd").decompress(stored, size), np.uint8)
        except (pyarrow.ArrowException, OSError):
            # cramjam says why, in the same words with and without pyarrow
            return None


FILTERS = {"zstd": Filter("zstd", _expand, whole=_ByPyarrow())}

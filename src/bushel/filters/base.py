"""The filter protocol and its error."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from bushel._runtime.arrays import U8
from bushel._runtime.system import room_for
from bushel.errors import BushelError

if TYPE_CHECKING:
    import typing_extensions

    Buffer = typing_extensions.Buffer
else:
    Buffer = bytes

MAX_BLOCK = 1 << 30
"""Limit in bytes to which one block may expand. A larger one is rejected as a decompression bomb."""

Expander: TypeAlias = Callable[[Buffer, memoryview, Buffer | None], int]
"""Expands stored bytes into a writable memoryview of bytes, whose length is the size of the block, and returns the
number of bytes that it wrote. The third argument is the side input of the block, None if it has
none. It raises any exception for bytes that it cannot expand, and never writes beyond the
memoryview."""

WholeExpander: TypeAlias = Callable[[Buffer, int], U8 | None]
"""Expands stored bytes to a given number of bytes, and returns them in memory of a library. None: `expand` does it."""


class FilterError(BushelError):
    """A filter cannot expand the stored bytes of a block to the size that the block has.

    Examples:
        >>> from bushel.filters import expand
        >>> expand("zstd", b"no zstd data", 100)
        Traceback (most recent call last):
            ...
        bushel.filters.base.FilterError: filter 'zstd' cannot expand 12 bytes to 100: ...
    """


class Filter(Struct, frozen=True):
    """A way in which blocks are stored.

    Attributes:
        name: The name under which tables refer to it.
        expand: Expands the stored bytes of one block.
        ratio: Bytes to which one stored byte expands at most; None without such a bound. A table in
            which a block is larger is refused before memory is taken.
        whole: Expands blocks in another way, where that is faster; None without another way.

    Examples:
        >>> from bushel.filters import get_filter
        >>> get_filter("snappy").ratio
        64
    """

    name: str
    expand: Expander
    ratio: int | None = None
    whole: WholeExpander | None = None

    def expanded(self, stored: Buffer, size: int, side: Buffer | None = None) -> U8:
        """Expand the stored bytes of one block: see `bushel.filters.expand`.

        Raises:
            FilterError: The stored bytes do not expand to `size` bytes.
        """
        length = memoryview(stored).nbytes
        if not 0 <= size <= MAX_BLOCK or (self.ratio is not None and size > self.ratio * length):
            raise FilterError(
                f"filter {self.name!r} cannot expand {length} bytes "
                f"to {size}, which exceeds its largest expansion"
            )
        if self.whole is not None and (expanded := self.whole(stored, size)) is not None:
            return expanded
        out = room_for(size)
        try:
            written = self.expand(stored, out.data, side)
        except MemoryError:
            raise
        except Exception as error:  # of a library, or of the user's function
            raise FilterError(
                f"filter {self.name!r} cannot expand {length} bytes to {size}: {error}"
            ) from error
        if written != size:
            raise FilterError(
                f"filter {self.name!r} cannot expand {length} "
                f"bytes to {size}: {written} bytes were made"
            )
        return out


def _expand_stored(stored: Buffer, out: memoryview, side: Buffer | None) -> int:
    view = memoryview(stored).cast("B")
    if len(view) != len(out):
        raise ValueError("a stored block has as many bytes as are stored")
    out[:] = view
    return len(view)


FILTERS = {"stored": Filter("stored", _expand_stored, 1)}
"""Blocks that are stored as they are."""

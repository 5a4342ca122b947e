"""The expanded blocks that this process keeps, and those that one of its threads is expanding.

A block that is being expanded is awaited, not expanded twice. A forked process begins with an empty
cache, so that it waits for no thread of its parent.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterable

from msgspec import Struct

from bushel._runtime.arrays import U8
from bushel._runtime.threads import Result
from bushel.filters import FilterError

from .notation import parse_bytes

_DEFAULT = "256MB"
_VARIABLE = "BUSHEL_BLOCK_CACHE"


class Claim(Struct, frozen=True):
    """The blocks that a reader needs.

    Attributes:
        to_expand: Blocks that this reader has to expand, and then to `give` or to `give_up`.
        results: All blocks: those that are kept are there already. A result of None stands for a
            block that was given up.
    """

    to_expand: list[Hashable] = []
    results: dict[Hashable, Result[U8 | None]] = {}


class ExpansionCache:
    """The most recently used expanded blocks, by name, within a limit of bytes.

    Args:
        limit: Bytes to keep; None for the value of `BUSHEL_BLOCK_CACHE`, 256 MB by default.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self.clear()

    def __reduce__(self) -> tuple[type[ExpansionCache], tuple[int | None]]:
        """A copy is empty."""
        return ExpansionCache, (self._limit,)

    @property
    def limit(self) -> int:
        """Bytes to keep. Raise ValueError if `BUSHEL_BLOCK_CACHE` is not a size."""
        if self._limit is None:
            self._limit = parse_bytes(os.environ.get(_VARIABLE) or _DEFAULT, _VARIABLE)
        return self._limit

    def share(self, processes: int) -> None:
        """Reduce the limit to the share of one of several processes."""
        self._limit = self.limit // max(1, processes)

    def forget_kept(self) -> None:
        """Forget the blocks that are kept. Those that are being expanded still reach all who wait for them."""
        with self._lock:
            self._kept.clear()
            self._size = 0

    def clear(self) -> None:
        """Begin again after a fork, without the blocks that threads of the parent are expanding."""
        self._lock = threading.Lock()
        self._kept: dict[Hashable, U8] = {}  # the one that was used last comes last
        self._pending: dict[Hashable, Result[U8 | None]] = {}
        self._size = 0

    def claim(self, names: Iterable[Hashable], claim: Claim) -> None:
        """Look blocks up. The caller has to expand missing ones.

        `claim` gets them. It is the caller's, so that an interrupt leaves no block that waits
        forever.
        """
        with self._lock:
            for name in names:
                result: Result[U8 | None] = self._pending.get(name) or Result()
                claim.results[name] = result
                if (block := self._used(name)) is not None:
                    result.set(block)
                elif name not in self._pending:
                    claim.to_expand.append(name)
                    self._pending[name] = result

    def obtain(self, name: Hashable, make: Callable[[], U8]) -> U8:
        """Return a block that is kept, or that another thread is expanding, or that `make` returns.

        Raises:
            FilterError: It cannot be expanded.
        """
        block: U8 | None = None
        while block is None:
            claim = Claim()
            try:
                self.claim([name], claim)
                if claim.to_expand:
                    self.give(name, make())
                block = claim.results[name].get()
            except FilterError as error:
                if claim.to_expand:  # so that those who wait get it, too
                    self.give_up(name, claim, error)
                raise
            finally:
                for claimed in claim.to_expand:
                    self.give_up(claimed, claim, None)
        return block

    def kept(self, names: Iterable[Hashable]) -> list[bool]:
        """Return whether each block is kept, or is being expanded."""
        with self._lock:
            return [name in self._kept or name in self._pending for name in names]

    def get(self, name: Hashable) -> U8 | None:
        """Return a block that is kept, or None."""
        with self._lock:
            return self._used(name)

    def _used(self, name: Hashable) -> U8 | None:
        if (block := self._kept.pop(name, None)) is not None:
            self._kept[name] = block
        return block

    def give(self, name: Hashable, block: U8) -> None:
        """Hand over a block that the caller has expanded. It must not be changed afterwards."""
        limit = self.limit
        with self._lock:
            result = self._pending.pop(name, None)
            # it is kept already if another reader has expanded it since it was evicted
            if block.nbytes <= limit and name not in self._kept:
                self._kept[name] = block
                self._size += block.nbytes
            while self._size > limit:
                self._size -= self._kept.pop(next(iter(self._kept))).nbytes
        if result is not None:
            result.set(block)

    def give_up(self, name: Hashable, claim: Claim, error: Exception | None) -> None:
        """Give up a block that the caller has to expand by this claim, unless it was given.

        `error` says why; None if others may try.
        """
        result = claim.results[name]
        with self._lock:
            # another reader may be expanding it again by now
            if self._pending.get(name) is not result:
                return
            del self._pending[name]
        if error is None:
            result.set(None)
        else:
            result.fail(error)


_CACHE = ExpansionCache()
os.register_at_fork(after_in_child=_CACHE.clear)


def expansion_cache() -> ExpansionCache:
    """Return the cache of this process."""
    return _CACHE

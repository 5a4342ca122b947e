"""When a shard is full."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

__all__ = ["ShardLimits"]

_UNLIMITED = 1 << 62


class _Shard(Protocol):
    @property
    def samples(self) -> int: ...

    @property
    def bytes(self) -> int: ...


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """The size at which a shard is finished and the next one is started.

    Attributes:
        samples: Number of samples, or None.
        bytes: Number of bytes that the sample which fills a shard may exceed, or None.
    """

    samples: int | None
    bytes: int | None

    def reached_by(self, shard: _Shard) -> bool:
        """Return whether the next sample belongs into another shard."""
        by_samples = self.samples is not None and shard.samples >= self.samples
        return by_samples or (self.bytes is not None and shard.bytes >= self.bytes)

    def expected(self, total: int | None, written: int) -> int | None:
        """Return the number of samples that the next shard will probably get, or None if unknown.

        Args:
            total: Number of samples that will be written, or None.
            written: Number of samples in the shards before it.
        """
        if total is None or self.bytes is not None:
            return None
        return min(max(total - written, 0), self.samples or total)

    def room_in(self, shard: _Shard) -> tuple[int, int]:
        """Return the number of samples and of bytes until a shard is full."""
        samples = _UNLIMITED if self.samples is None else self.samples - shard.samples
        size = _UNLIMITED if self.bytes is None else self.bytes - shard.bytes
        return max(samples, 0), max(size, 0)

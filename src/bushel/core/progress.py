"""Progress of a long run, as it is passed to `progress=` callbacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["OnProgress", "Progress"]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. `pack`, `convert`, `split`, `merge`, `index`, `verify` and `repair` all report it.

    Attributes:
        done: Number of units that are finished.
        total: Number of units of the whole run; None if it is unknown, as for a stream.
        unit: What `done` and `total` count.
        samples: Number of samples processed so far; 0 where they are not counted.
        bytes: Bytes written, or, by `verify` and `index`, bytes read so far.
        errors: Number of bad samples, or of problems, found so far.
    """

    done: int
    total: int | None
    unit: Literal["samples", "bytes", "shards"]
    samples: int = 0
    bytes: int = 0
    errors: int = 0


OnProgress = Callable[[Progress], None]
"""A `progress=` callback. It is called in the thread that called the function, some times per second at most."""

"""Where a loader's time goes, and what to do about it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Clock", "LoaderStats"]

_WAITING_MATTERS = 0.05  # a consumer that waits for less than this share of its time has nothing to gain


class Clock:
    """Adds up what stages took, and counts. Threads and worker processes add to it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Counter[str] = Counter()

    def add(self, totals: Mapping[str, float]) -> None:
        """Add seconds of stages, and counts."""
        with self._lock:
            for name, value in totals.items():
                self._totals[name] += value  # type: ignore[assignment]

    def drain(self) -> dict[str, float]:
        """What was added since the last drain."""
        with self._lock:
            totals, self._totals = self._totals, Counter()
        return dict(totals)

    def read(self) -> dict[str, float]:
        """What was added so far."""
        with self._lock:
            return dict(self._totals)


@dataclass(frozen=True, slots=True)
class LoaderStats:
    """What a loader did so far in this process.

    Attributes:
        samples: Samples that the trainer was given.
        batches: Batches of these. Without a batch size, reads.
        stored_bytes: Their bytes, as stored.
        seconds: Time spent in `for` loops over the loader: `waiting` and `training`.
        storage: Seconds of threads spent reading.
        decode: Seconds of threads spent decoding.
        transform: Seconds of threads spent in transforms.
        collate: Seconds of threads spent in collation and the batch transform.
        waiting: Seconds that the trainer waited for a batch.
        training: Seconds that the trainer spent on its own between batches.
        ready: Mean share of the batches worked on ahead that were ready when the trainer asked for one: near 1, the
            loader is ahead; near 0, the trainer takes what has just been finished. None with worker processes.
        errors: Bad samples.
        threads: Threads that decode and transform, in all processes together; 0 when the consumer does it.
        cpus: CPUs that this process may use.
    """

    samples: int
    batches: int
    stored_bytes: int
    seconds: float
    storage: float
    decode: float
    transform: float
    collate: float
    waiting: float
    training: float
    ready: float | None
    errors: int
    threads: int
    cpus: int

    @classmethod
    def of(cls, totals: Mapping[str, float], *, errors: int, threads: int, cpus: int) -> LoaderStats:
        """Make sense of what a `Clock` has added up."""
        stages = {
            name: totals.get(name, 0.0) for name in ("storage", "decode", "transform", "collate", "waiting", "training")
        }
        asked = totals.get("asked", 0)
        return cls(
            samples=int(totals.get("samples", 0)),
            batches=int(totals.get("batches", 0)),
            stored_bytes=int(totals.get("bytes", 0)),
            seconds=stages["waiting"] + stages["training"],
            ready=totals.get("ready", 0.0) / asked if asked else None,
            errors=errors,
            threads=threads,
            cpus=cpus,
            **stages,
        )

    @property
    def samples_per_second(self) -> float:
        """Samples that the trainer was given in a second of its `for` loops."""
        return self.samples / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Stored bytes of these, in a second."""
        return self.stored_bytes / self.seconds if self.seconds else 0.0

    @property
    def advice(self) -> str:
        """One sentence: what limits the loader, and what to change."""
        if not self.batches:
            return "nothing was loaded yet"
        share = self.waiting / self.seconds if self.seconds else 0.0
        if share < _WAITING_MATTERS:
            return f"the trainer waits for data {share:.0%} of its time: the loader keeps up, and needs no change"
        work = {"storage": self.storage, "decode": self.decode, "transform": self.transform, "collate": self.collate}
        slowest = max(work, key=lambda stage: work[stage])
        busy = (self.decode + self.transform + self.collate) / self.waiting if self.waiting else 0.0
        waits = f"the trainer waits for data {share:.0%} of its time, and most work is in {slowest}: "
        if slowest == "storage":
            return waits + 'read fewer fields (fields=), use shuffle="blocks", or raise prefetch'
        if self.threads < self.cpus:
            return waits + f"{max(self.threads, 1)} of {self.cpus} CPUs are used, so raise workers"
        if slowest == "decode":
            return (
                waits
                + f"{min(busy, self.cpus):.1f} of {self.cpus} CPUs are busy; store smaller images, or use more CPUs"
            )
        if slowest == "transform":
            return waits + "transforms in pure Python share one core among threads; move them to processes="
        return waits + "store values of equal shapes, or write a collate= of your own"

    def __str__(self) -> str:
        lines = [
            f"{self.samples} samples in {self.batches} batches, {self.seconds:.2f} s: "
            f"{self.samples_per_second:.0f} samples/s, {self.bytes_per_second / 1e6:.1f} MB/s, {self.errors} bad",
            *(f"{name:>10} {seconds:9.3f} s" for name, seconds in self._stages()),
            self.advice,
        ]
        return "\n".join(lines)

    def __rich__(self) -> Table:
        """The same as a table, for `rich.print`."""
        from rich.table import Table

        first, *_, advice = str(self).splitlines()
        table = Table("stage", "seconds", title=first, caption=advice)
        for name, seconds in self._stages():
            table.add_row(name, f"{seconds:.3f}")
        return table

    def _stages(self) -> list[tuple[str, float]]:
        return [
            ("storage", self.storage),
            ("decode", self.decode),
            ("transform", self.transform),
            ("collate", self.collate),
            ("waiting", self.waiting),
            ("training", self.training),
        ]

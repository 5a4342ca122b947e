"""Statistics of a loader, with advice on its options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from bushel._runtime.public import public

_NEGLIGIBLE_WAITING = 0.05  # share of its time that a trainer waits for data


@public("bushel.loader")
class LoaderStats(Struct, frozen=True):
    """Statistics of a loader in this process, as `Loader.stats()` returns them. Print them for a table and advice.

    Attributes:
        samples: Number of samples that the trainer was given.
        batches: Number of batches that it was given. Without a batch size: number of reads.
        stored_bytes: Size of these samples as stored, in bytes.
        seconds: Seconds spent in `for` loops over the loader: `waiting` plus `training`.
        storage: Seconds that threads spent reading.
        decode: Seconds that threads spent decoding.
        transform: Seconds that threads spent in transforms.
        collate: Seconds that threads spent in collation and the batch transform.
        waiting: Seconds that the trainer waited for batches.
        training: Seconds that the trainer worked between batches.
        ready: Mean share of the prefetched batches that were ready when the trainer asked for one.
            Near 1, the loader keeps up; near 0, the trainer waits for each batch. None with worker
            processes.
        errors: Number of bad samples.
        threads: Number of threads that decode and transform, in all processes; 0 if the consumer's
            thread does it.
        cpus: Number of CPUs that this process may use.
        whole_clips: Number of clips that were read whole because the packets in the index did not
            give their frames.
        refused_seek_tables: Number of images whose seek table did not fit, and which were decoded
            without it.
        device: Seconds that threads spent waiting for a device that decodes.
        device_images: Number of images that it decoded.
        device_refused: Number of images that it refused, and which the CPU decoded.

    Examples:
        >>> loader = bushel.Loader(ds, batch_size=4)
        >>> batches = list(loader)
        >>> stats = loader.stats()
        >>> stats.batches, stats.errors, stats.samples_per_second > 0
        (3, 0, True)
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
    whole_clips: int = 0
    refused_seek_tables: int = 0
    device: float = 0.0
    device_images: int = 0
    device_refused: int = 0

    @classmethod
    def of(
        cls, totals: Mapping[str, float], *, errors: int, threads: int, cpus: int
    ) -> LoaderStats:
        """Return the statistics from the totals of a `Clock`."""
        named: dict[str, Any] = {name: totals.get(name, 0) for name in cls.__struct_fields__}
        requests = totals.get("asked", 0)
        return cls(
            **named
            | {
                "seconds": named["waiting"] + named["training"],
                "ready": totals.get("ready", 0.0) / requests if requests else None,
                "errors": errors,
                "threads": threads,
                "cpus": cpus,
            }
        )

    @property
    def samples_per_second(self) -> float:
        """Samples per second of the `for` loops."""
        if self.seconds:
            return self.samples / self.seconds
        return 0.0

    @property
    def bytes_per_second(self) -> float:
        """Stored bytes per second of the `for` loops."""
        if self.seconds:
            return self.stored_bytes / self.seconds
        return 0.0

    @property
    def advice(self) -> str:
        """One sentence about what limits the loader and what to change."""
        if not self.batches:
            return "nothing was loaded yet"
        share = self.waiting / self.seconds if self.seconds else 0.0
        if share < _NEGLIGIBLE_WAITING:
            return (
                f"the trainer waits for data {share:.0%} of its "
                "time: the loader keeps up, so change nothing"
            )
        slowest = max("storage", "decode", "transform", "collate", key=partial(getattr, self))
        # it is not 0: it is a share of the seconds
        busy = (self.decode + self.transform + self.collate) / self.waiting
        waits = (
            f"the trainer waits for data {share:.0%} of its time, and most work is in {slowest}: "
        )
        if slowest == "storage":
            return waits + 'read fewer fields (fields=), use shuffle="blocks", or raise prefetch'
        if self.threads < self.cpus:
            return waits + f"{max(self.threads, 1)} of {self.cpus} CPUs are used, so raise threads"
        if slowest == "decode":
            return waits + (
                f"{min(busy, self.cpus):.1f} of {self.cpus} CPUs "
                "are busy; store smaller images, or use more CPUs"
            )
        if slowest == "transform":
            return waits + "threads that run pure Python share one core; use processes="
        return waits + "store values of one shape, or write your own collate= function"

    @property
    def _summary(self) -> str:
        return (
            f"{self.samples} samples in {self.batches} batches, "
            f"{self.seconds:.2f} s: {self.samples_per_second:.0f} samples/s, "
            f"{self.bytes_per_second / 1e6:.1f} MB/s, {self.errors} bad"
            + (f", {self.whole_clips} clips read whole" if self.whole_clips else "")
            + (f", {self.device_images} images decoded on the device" if self.device_images else "")
            + (f", {self.device_refused} refused there" if self.device_refused else "")
        )

    def __repr__(self) -> str:
        return f"<bushel.loader.LoaderStats: {self._summary}>"

    def __str__(self) -> str:
        lines = [
            self._summary,
            *(f"{name:>10} {seconds:9.3f} s" for name, seconds in self._stages()),
            self.advice,
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import facts_html

        total = sum(seconds for _, seconds in self._stages()) or 1.0
        rows = [("stage", "seconds", "share")]
        rows += [
            (name, f"{seconds:.3f}", "█" * round(20 * seconds / total))
            for name, seconds in self._stages()
        ]
        return facts_html(self._summary, [("", self.advice)], rows)

    def _stages(self) -> list[tuple[str, float]]:
        names = ["storage", "decode", "transform", "collate", "waiting", "training"]
        if self.device_images or self.device_refused:
            names.insert(2, "device")
        return [(name, getattr(self, name)) for name in names]

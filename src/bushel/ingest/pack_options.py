"""The arguments of `pack` and `convert`, grouped by what they decide."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bushel._runtime.shuffle import Shuffle
from bushel._runtime.threads import cpu_count
from bushel._writer.options import WriterOptions
from bushel.ingest.images import Jpeg
from bushel.ingest.scale_out import RunOptions
from bushel.transforms.by_field import Transforms

__all__ = ["ErrorOptions", "PackOptions", "SampleOptions", "Workers"]


@dataclass(frozen=True, slots=True)
class SampleOptions:
    """The arguments that decide how a sample is stored: see `pack`."""

    fields: tuple[str, ...] | None
    rename: Mapping[str, str]
    spec: Mapping[str, str]
    transforms: Transforms | None
    orient: bool
    check: bool
    jpeg: Jpeg
    keys: bool | Callable[[str], str] | None
    seek: bool | None


@dataclass(frozen=True, slots=True)
class ErrorOptions:
    """The arguments that decide which errors end a call: see `pack`."""

    max_errors: float | None
    strict: bool
    strict_files: bool


@dataclass(frozen=True, slots=True)
class Workers:
    """The threads or processes that encode samples.

    Attributes:
        threads: Number of threads; None for the number of CPUs.
        processes: Number of worker processes that replace the threads.

    Raises:
        ValueError: There would be no thread.
    """

    threads: int | None
    processes: int

    def __post_init__(self) -> None:
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"workers={self.threads} is too small: give 1 or more, or None for the number of CPUs")

    @property
    def at_once(self) -> int:
        """Number of batches that are encoded at the same time."""
        return self.processes or self.threads or cpu_count()


@dataclass(frozen=True, slots=True)
class PackOptions:
    """The arguments of `pack` and `convert` besides source, target and progress.

    Attributes:
        samples: How a sample is stored.
        shuffle: Order of the samples.
        seed: Seed of the order and of the randomness in transforms.
        writer: How each dataset is written; names of classes, folders and seek tables follow from the source.
        errors: Which errors end the call.
        workers: The threads or processes that encode samples.
        run: How the samples are divided into parts, and where the parts are written.
    """

    samples: SampleOptions
    shuffle: Shuffle
    seed: int
    writer: WriterOptions
    errors: ErrorOptions
    workers: Workers
    run: RunOptions

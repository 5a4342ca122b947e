"""Read recordings, and join the recordings of an epoch: what each rank was given at each step."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.errors import FormatError

from .recording import COUNT, END, HEADER, MAGIC, SUFFIX

U64 = npt.NDArray[np.uint64]


class Recording(msgspec.Struct, frozen=True):
    """One file: the steps on a rank in an epoch, from the first one after a start or a resume.

    Attributes:
        path: The file.
        rank: The rank that wrote it.
        world_size: The number of ranks.
        epoch: The number of the epoch.
        first: The number of the first step.
        steps: The digests of the samples of each step.
        is_complete: Whether the loader had no more batches.
    """

    path: Path
    rank: int
    world_size: int
    epoch: int
    first: int
    steps: list[U64]
    is_complete: bool


class Stretch(msgspec.Struct, frozen=True):
    """Steps of an epoch by the same number of ranks: a run that is resumed with others begins a new stretch.

    Attributes:
        world_size: The number of ranks.
        first: The number of the first step.
        ranks: By rank, the digests of each step by its number.
        complete: The ranks whose loader had no more batches.
        unlike: By rank, the first step that was repeated after a resume, with other samples.
    """

    world_size: int
    first: int
    ranks: dict[int, dict[int, U64]]
    complete: set[int]
    unlike: dict[int, int]

    @property
    def batch(self) -> int:
        """The number of samples that all ranks together had in the first step."""
        return sum(len(steps[min(steps)]) for steps in self.ranks.values() if steps)

    @property
    def ends(self) -> dict[int, int]:
        """By rank, the number of the step after its last one."""
        return {rank: max(steps, default=self.first - 1) + 1 for rank, steps in self.ranks.items()}


def load_run(folder: str | os.PathLike[str]) -> dict[int, list[Stretch]]:
    """Return the stretches of each epoch of a run.

    Raises:
        FileNotFoundError: The folder has no recordings.
        FormatError: One is damaged.
    """
    recordings = [load(path) for path in sorted(Path(folder).glob(f"*{SUFFIX}"))]
    if not recordings:
        raise FileNotFoundError(
            f"{folder} has no recordings ({SUFFIX}): bushel.audit.record(loader, folder) makes them"
        )
    recordings.sort(key=lambda recording: (recording.epoch, recording.first, recording.world_size))
    return {
        epoch: _stretches(list(group))
        for epoch, group in groupby(recordings, key=lambda recording: recording.epoch)
    }


def load(path: Path) -> Recording:
    """Read a recording.

    Raises:
        FormatError: It is not one.
    """
    data = path.read_bytes()
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        hint = "delete it, if its process was killed when it began"
        raise FormatError("not a recording of bushel.audit", file=str(path), hint=hint)
    _, rank, world_size, epoch, first = HEADER.unpack_from(data)
    if rank >= world_size:
        raise FormatError(f"rank {rank} of {world_size} does not exist", file=str(path))
    steps, at, is_complete = [], HEADER.size, False
    while at + COUNT.size <= len(data):
        (samples,) = COUNT.unpack_from(data, at)
        if samples == END:
            is_complete = True
            break
        end = at + COUNT.size + samples * 8
        if end > len(data):  # killed while it wrote the last step, which is left out
            break
        steps.append(np.frombuffer(data, "<u8", samples, at + COUNT.size))
        at = end
    return Recording(path, rank, world_size, epoch, first, steps, is_complete)


def _stretches(recordings: list[Recording]) -> list[Stretch]:
    """Return the stretches of an epoch. A later one cuts off the steps that its ranks did again."""
    stretches: list[Stretch] = []
    for recording in recordings:
        if not stretches or recording.world_size != stretches[-1].world_size:
            stretches.append(Stretch(recording.world_size, recording.first, {}, set(), {}))
        _add(stretches[-1], recording)
    for before, after in zip(stretches, stretches[1:], strict=False):
        _cut(before, after.first * after.batch)
    return stretches


def _add(stretch: Stretch, recording: Recording) -> None:
    """Add the steps of a recording to its rank, and compare the steps that both have."""
    rank = recording.rank
    noted = stretch.ranks.setdefault(rank, {})
    for step, samples in enumerate(recording.steps, start=recording.first):
        if not np.array_equal(noted.setdefault(step, samples), samples):
            stretch.unlike.setdefault(rank, step)
            noted[step] = samples
    if recording.is_complete:
        stretch.complete.add(rank)


def _cut(stretch: Stretch, samples: int) -> None:
    """Leave out the steps after a number of samples of the epoch, which others did again."""
    end = samples // max(stretch.batch, 1)
    for noted in stretch.ranks.values():
        for step in [step for step in noted if step >= end]:
            del noted[step]

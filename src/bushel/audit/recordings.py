"""Read recordings, and join the recordings of an epoch: what each rank was given at each step."""

from __future__ import annotations

import os
from itertools import groupby
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.audit.recording import COUNT, END, HEADER, MAGIC, SUFFIX
from bushel.errors import FormatError

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
        ranks: By rank, the digests of each step from `first` on.
        complete: The ranks whose loader had no more batches.
        unlike: By rank, the first step that was repeated after a resume, with other samples.
        missing: By rank, the first step that nobody recorded.
    """

    world_size: int
    first: int
    ranks: dict[int, list[U64]]
    complete: set[int]
    unlike: dict[int, int]
    missing: dict[int, int]

    @property
    def batch(self) -> int:
        """The number of samples that all ranks together had in the first step."""
        return sum(len(steps[0]) for steps in self.ranks.values() if steps)


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
            stretches.append(Stretch(recording.world_size, recording.first, {}, set(), {}, {}))
        _add(stretches[-1], recording)
    for before, after in zip(stretches, stretches[1:], strict=False):
        _cut(before, after.first * after.batch)
    return stretches


def _add(stretch: Stretch, recording: Recording) -> None:
    """Add the steps of a recording to its rank, and compare the steps that both have."""
    rank = recording.rank
    noted = stretch.ranks.setdefault(rank, [])
    offset = recording.first - stretch.first
    if offset > len(noted):
        stretch.missing.setdefault(rank, stretch.first + len(noted))
        noted.extend([np.empty(0, np.uint64)] * (offset - len(noted)))
    for number, samples in enumerate(recording.steps, start=offset):
        if number == len(noted):
            noted.append(samples)
        elif not np.array_equal(noted[number], samples):
            stretch.unlike.setdefault(rank, stretch.first + number)
            noted[number] = samples
    if recording.is_complete:
        stretch.complete.add(rank)


def _cut(stretch: Stretch, samples: int) -> None:
    """Leave out the steps after a number of samples of the epoch, which others did again."""
    steps = max(samples // max(stretch.batch, 1) - stretch.first, 0)
    for noted in stretch.ranks.values():
        del noted[steps:]

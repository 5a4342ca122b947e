"""The abstract adapter, and what GulpIO2's adapters share: frames of videos, and the numbers of labels."""

from __future__ import annotations

import json
import math
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bushel.errors import FormatError
from bushel.sources import Pick, decode_video, extend_labels
from bushel.storage import read_whole, write_whole

from .images import Image
from .utils import resize_by_short_edge

# number of frames that ffmpeg lets a video be early or late before it drops or repeats one
_LATE = 1.1
# a frame that would be repeated more often has a damaged time, and is left out
_MOST_REPEATS = 3600 * 30 * 30
_FINE = 1 << 16  # parts of a frame to which ffmpeg rounds times; half a part more breaks ties


def read_video(
    path: str, frame_rate: float | None = None, change: Callable[[Image], Image] | None = None
) -> list[Image]:
    """Return all frames of a video, or `frame_rate` of them a second. A repeated frame is the same array several times.

    `change` is called with each frame as it is decoded, so that the original frames need not all be
    in memory.
    """
    frames: list[Image] = []
    for picture, times in decode_video(Path(path).read_bytes(), path, pick_like_ffmpeg(frame_rate)):
        frames += [picture if change is None else change(picture)] * times
    return frames


def pick_like_ffmpeg(rate: float | None) -> Pick:
    """Return a function that picks the frames that `ffmpeg -i VIDEO -r RATE %d.jpg` writes.

    Ffmpeg writes a frame as soon as that is at most 1.1 frames early. So a video reduced from 25 to
    8 frames a second begins with its first three frames, and has two frames more than its seconds
    times 8.
    """

    def pick(frames: Iterator[Any], stream: Any) -> Iterator[tuple[Any, int]]:
        usual = float(stream.guessed_rate or stream.average_rate or 25)
        target = float(rate or usual)
        begin = stream.container.start_time  # times are counted from here
        start, time, written, before = None if begin is None else begin / 1e6, 0.0, 0, None
        repeats = deque([0, 0, 0], maxlen=3)
        for frame in frames:
            if frame.pts is not None:
                start = frame.time if start is None else start
                time = frame.time - start
            now = round(time * target * _FINE) / _FINE
            early = now + (math.copysign(0.5, now) / _FINE if now else 0) - written
            end = early + (round(target / usual) or target / usual)
            if early < 0 < end:
                early = 0.0
            count = 0 if end < -_LATE else round(end) if end > _LATE else 1
            if count > _MOST_REPEATS:
                continue
            old = (
                min(round(early - 0.6), count)
                if end > _LATE and early > _LATE and before is not None
                else 0
            )
            repeats.append(old)
            if old > 0:
                yield before, old
            if count > old:
                yield frame, count - old
            written += count
            time += 1 / usual  # for a next frame without a time
            before = frame
        if (last := sorted(repeats)[1]) > 0:
            yield before, last

    return pick


Item = dict[str, Any]


class AbstractDatasetAdapter(ABC):
    """Items to be gulped. Worker processes get copies, so an adapter must be picklable."""

    @abstractmethod
    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Iterate over the items, or over a slice of them.

        Yields:
            Dicts with `id` (unique), `frames` (a list of uint8 arrays HxWx3 or HxW, Pillow images,
            or JPEGs as bytes) and `meta` (a dict that JSON can hold).
        """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of items."""


class Labelled(AbstractDatasetAdapter):
    """Items with labels, whose numbers are in the output folder's `label2idx.json`."""

    all_meta: list[Any]
    leaves_out: str | None = None
    """The name in the metadata that is not stored."""

    def __len__(self) -> int:
        return len(self.all_meta)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Iterate over the items, and write `label2idx.json` at the end."""
        for meta in self.all_meta[slice_element or slice(None)]:
            if (frames := self.frames_of(meta)) is not None:
                stored = {name: value for name, value in meta.items() if name != self.leaves_out}
                yield {"meta": stored, "frames": frames, "id": meta["id"]}
        self.write_label2idx_dict()

    @abstractmethod
    def frames_of(self, meta: dict[str, Any]) -> list[Any] | None:
        """Return the frames of an item, or None to leave it out."""

    @abstractmethod
    def write_label2idx_dict(self) -> None:
        """Write the numbers of the labels."""


def video_frames(path: str, size: int, rate: float | None = None) -> list[Image]:
    """Return the resized frames of a video. If it cannot be decoded, print why, and return no frames."""
    try:
        return read_video(path, rate, partial(resize_by_short_edge, size=size))
    except (FormatError, OSError) as error:
        print(error if path in str(error) else f"{path}: {error}", file=sys.stderr)
        return []


def number_labels(names: Iterable[str], folder: str) -> dict[str, int]:
    """Return labels to numbers: known labels of the folder keep theirs, and others follow in sorted order."""
    return extend_labels(names, _load_labels(Path(folder, "label2idx.json")))


def write_labels(labels: Mapping[str, int], folder: str) -> None:
    """Write `label2idx.json` with GulpIO2's bytes."""
    write_whole(Path(folder, "label2idx.json"), json.dumps(labels).encode())


def _load_labels(path: Path) -> dict[str, int]:
    """Return the numbers of label names in a file; empty if the file does not exist.

    Raises:
        FormatError: The file is malformed.

    """
    try:
        labels = json.loads(read_whole(path))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise FormatError(f"invalid JSON: {error}", file=str(path)) from error
    if not isinstance(labels, dict) or not all(type(number) is int for number in labels.values()):
        raise FormatError("expected a map of label names to whole numbers", file=str(path))
    return labels

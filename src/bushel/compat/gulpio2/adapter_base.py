"""The abstract adapter, and what GulpIO2's adapters share: frames of videos, and the numbers of labels."""

from __future__ import annotations

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bushel.errors import FormatError
from bushel.sources import extend_labels
from bushel.storage import read_whole, write_whole

from .images import Image
from .utils import resize_by_short_edge
from .video import read_video

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

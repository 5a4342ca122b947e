"""What an adapter is, and what the shipped ones share."""

from __future__ import annotations

import gzip
import json
import os
import sys
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from bushel.compat.gulpio2.errors import ListFileError
from bushel.compat.gulpio2.images import Image
from bushel.compat.gulpio2.utils import resize_by_short_edge
from bushel.compat.gulpio2.video import read_video
from bushel.errors import FormatError
from bushel.ingest.labels import load_labels
from bushel.sources.base import extend_labels

__all__ = ["AbstractDatasetAdapter", "Item", "number_labels", "read_json", "video_frames", "write_labels"]

Item = dict[str, Any]


class AbstractDatasetAdapter(ABC):
    """Items to be gulped. Worker processes get copies, so an adapter must be picklable."""

    @abstractmethod
    def iter_data(self, slice_element: slice | None = None) -> Iterator[Item]:
        """Iterate over the items, or over those of a slice.

        Yields:
            Dicts with `id` (unique), `frames` (a list of uint8 arrays HxWx3 or HxW, images of Pillow, or JPEGs as
            bytes) and `meta` (a dict that JSON can hold).
        """

    @abstractmethod
    def __len__(self) -> int:
        """Number of items."""


def video_frames(path: str, size: int, rate: float | None = None) -> list[Image]:
    """The frames of a video, resized; of one that cannot be decoded none, and it is named on standard error."""
    try:
        return read_video(path, rate, partial(resize_by_short_edge, size=size))
    except (FormatError, OSError) as error:
        print(error if path in str(error) else f"{path}: {error}", file=sys.stderr)
        return []


def read_json(path: str) -> Any:
    """What is in a JSON file; `.gz` is unpacked.

    Raises:
        ListFileError: It is no JSON.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8") as file:
            return json.load(file)
    except (ValueError, RecursionError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ListFileError(f"no JSON: {error}", file=path) from error


def number_labels(names: Iterable[str], folder: str | os.PathLike[str]) -> dict[str, int]:
    """Labels to numbers: those in the folder's `label2idx.json` keep theirs, and others follow in sorted order."""
    return extend_labels(names, load_labels(Path(folder, "label2idx.json")))


def write_labels(labels: Mapping[str, int], folder: str | os.PathLike[str]) -> None:
    """Write `label2idx.json` as GulpIO2 does, but whole or not at all, since every worker writes it."""
    path = Path(folder, "label2idx.json")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(json.dumps(labels), "ascii")
    part.replace(path)

"""Bushel datasets as sources."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Self

from bushel.codecs import get_codec
from bushel.containers.ffrecord import empty_folders
from bushel.core.dataset.dataset import Dataset
from bushel.errors import FormatError
from bushel.sources.base import Sample
from bushel.spec import KEY, parse_spec
from bushel.storage import is_local

__all__ = ["Stored", "empty_folders_in", "stored_unchanged"]

_AS_THEY_ARE = (
    *("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "bmp", "tif", "tiff", "gif", "image"),
    *("mp4", "webm", "wav", "flac", "mp3", "ogg"),
)
"""Codecs whose bytes are files, equal in every container."""


def empty_folders_in(dataset: Dataset) -> list[str] | None:
    """Return the empty folders of the packed folders of a dataset; None if there are none, or if it is a view."""
    if len(dataset) < dataset.info.samples:
        return None
    folders: list[str] = []
    for shard in dataset.shards:
        if shard.container == "ffrecord" and shard.keyed:
            with suppress(FormatError):  # a damaged file, of which samples are recovered
                folders += empty_folders(shard.shard.path(0))
    return folders or None


def stored_unchanged(codec: str) -> bool:
    """Return whether values of a codec are copied as stored bytes; others are decoded and encoded again."""
    return codec.partition("(")[0] in (*_AS_THEY_ARE, "bytes")


class Stored:
    """The samples of a dataset, or of a view of one. Images, clips and sounds are passed on as stored bytes.

    Args:
        dataset: The dataset.

    Attributes:
        spec: Its spec.
        labels: Its names of classes.
        folders: The empty folders of a packed folder, or None.

    Examples:
        >>> from bushel.sources import Stored
        >>> source = Stored(ds.where("label == 1"))
        >>> bushel.pack(source, "dogs.tar").samples
        6
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._ahead: Mapping[int, Sample] = {}
        self._keyed = dataset.info.keyed
        self.spec = dataset.spec
        self.labels = dataset.labels
        self.folders: Sequence[str] | None = empty_folders_in(dataset)
        for field in parse_spec(self.spec).values():
            get_codec(field.codec)
        self._kept = frozenset(name for name, field in parse_spec(self.spec).items() if stored_unchanged(field.codec))

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, position: int) -> Sample:
        stored = self._ahead.get(position)
        if stored is None:
            [stored] = self._dataset.read([position], decode=False)
        rest = {name: value for name, value in stored.items() if name not in self._kept}
        sample = self._dataset.decode_sample(rest, position)
        sample.update((name, stored[name]) for name in self._kept if name in stored)
        if not self._keyed:
            sample.pop(KEY, None)
        return sample

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the dataset or view."""
        return self._dataset.fingerprint

    @property
    def remote(self) -> bool:
        """Whether its files are remote."""
        return not all(is_local(shard.shard.root) for shard in self._dataset.shards)

    def fetched(self, positions: Sequence[int]) -> Self:
        """Return the same source with the stored bytes of these samples in memory."""
        other = copy.copy(self)
        with suppress(Exception):  # samples are then read one by one, and damaged ones raise
            other._ahead = dict(zip(positions, self._dataset.read(list(positions), decode=False), strict=True))
        return other

    def origin(self, position: int) -> str:
        """Return the file and the offset of its first field."""
        path, offset = self._dataset.location(position, next(iter(self.spec)))
        return f"{path}@{offset}"

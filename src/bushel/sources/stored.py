"""Bushel datasets and streams of archives as sources."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import suppress

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stream import StreamDataset
from bushel._index.class_names import Labels
from bushel.codecs import get_codec
from bushel.codecs.registry import holds_media
from bushel.containers import get_container
from bushel.errors import FormatError
from bushel.sources.base import Sample
from bushel.sources.samples import Stream
from bushel.spec import KEY, parse_spec

# samples, or bytes, of a stream that are read to find its fields
_FIRST_SAMPLES, _FIRST_BYTES = 1024, 16 << 20


def empty_folders_in(dataset: Dataset) -> list[str] | None:
    """Return the empty folders of the packed folders of a dataset; None if it has no empty folders, or is a view."""
    if len(dataset) < dataset.info.samples:
        return None
    folders: list[str] = []
    for shard in dataset.shards:
        container = get_container(shard.container)
        if shard.keyed:
            with suppress(FormatError):  # a damaged file, from which samples are recovered
                folders += container.empty_folders(shard.shard)
    return folders or None


def stored_unchanged(codec: str) -> bool:
    """Return whether values of a codec are copied as stored bytes; others are decoded and encoded again."""
    return holds_media(codec) or codec == "bytes"


class Stored:
    """The samples of a dataset, or of a view of one. Images, clips and sounds are passed on as stored bytes.

    Args:
        dataset: The dataset.

    Attributes:
        dataset: The dataset.
        spec: Its spec.
        folders: The empty folders of a packed folder, or None.

    Examples:
        >>> from bushel.sources import Stored
        >>> source = Stored(ds.where("label == 1"))
        >>> bushel.pack(source, "dogs.tar").samples
        6
    """

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        self._keyed = dataset.info.keyed
        self.spec = dataset.spec
        self.folders: Sequence[str] | None = empty_folders_in(dataset)
        for field in parse_spec(self.spec).values():
            get_codec(field.codec)
        self._kept = frozenset(
            name for name, field in parse_spec(self.spec).items() if stored_unchanged(field.codec)
        )

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, position: int) -> Sample:
        return self.samples([position])[0]

    def samples(self, positions: Sequence[int]) -> list[Sample]:
        """Return several samples, whose bytes are read at once."""
        stored = self.dataset.read(list(positions), decode=False)
        return list(map(self._sample, stored, positions))

    def _sample(self, stored: Sample, position: int) -> Sample:
        rest = {name: value for name, value in stored.items() if name not in self._kept}
        sample = self.dataset.decode_sample(rest, position)
        sample.update((name, stored[name]) for name in self._kept if name in stored)
        if not self._keyed:
            sample.pop(KEY, None)
        return sample

    @property
    def labels(self) -> Labels:
        """The names of classes of the dataset, by field."""
        return self.dataset.labels

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the dataset or view."""
        return self.dataset.fingerprint

    def origin(self, position: int) -> str:
        """Return the file and the offset of its first field."""
        path, offset = self.dataset.location(position, next(iter(self.spec)))
        return f"{path}@{offset}"


class StoredStream(Stream):
    """The samples of a stream of archives as stored bytes, in order.

    It has the fields of the stream's spec and of its first samples, up to 1024 or 16 MiB, which are
    read at once.

    Args:
        stream: The stream.
    """

    def __init__(self, stream: StreamDataset) -> None:
        samples = iter(stream.stored())
        self._head = list(_first(samples))
        super().__init__(itertools.chain(self._head, samples), spec=stream.spec)

    def lacking(self, names: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the key of each of the first samples that lacks a field, with the name of the field."""
        for sample in self._head:
            yield from ((sample[KEY], name) for name in names if name not in sample)


def _first(samples: Iterator[Sample]) -> Iterator[Sample]:
    size = 0
    for number, sample in enumerate(samples, 1):
        yield sample
        values = (
            value if isinstance(value, list) else [value]
            for name, value in sample.items()
            if name != KEY
        )
        size += sum(len(element) for value in values for element in value)
        if size >= _FIRST_BYTES or number == _FIRST_SAMPLES:
            return

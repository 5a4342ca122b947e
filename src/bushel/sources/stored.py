"""Streams of archives as sources."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from bushel._dataset.views.stream import StreamDataset
from bushel.sources.base import Sample
from bushel.sources.samples import Stream
from bushel.spec import KEY

# samples, or bytes, of a stream that are read to find its fields
_FIRST_SAMPLES, _FIRST_BYTES = 1024, 16 << 20


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

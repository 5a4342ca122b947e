"""Bushel datasets as sources."""

from __future__ import annotations

from bushel.codecs import get_codec
from bushel.dataset import Dataset
from bushel.sources.base import Sample
from bushel.spec import KEY, parse_spec

__all__ = ["Stored"]

_AS_THEY_ARE = ("jpg", "jpeg", "png", "webp", "ppm", "pgm", "pbm", "bmp", "tif", "tiff", "gif", "image", "mp4", "webm")
"""Codecs whose bytes are files, the same in every container."""


class Stored:
    """The samples of a dataset, or of a view of one. Images and clips come as their stored bytes.

    Args:
        dataset: The dataset.

    Attributes:
        spec: Its spec.
    """

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self._keyed = dataset.info.keyed
        self.spec = dataset.spec
        for field in parse_spec(self.spec).values():
            get_codec(field.codec)
        self._kept = frozenset(
            name
            for name, field in parse_spec(self.spec).items()
            if field.codec.partition("(")[0] in (*_AS_THEY_ARE, "bytes")
        )

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, position: int) -> Sample:
        [stored] = self._dataset.read([position], decode=False)
        rest = {name: value for name, value in stored.items() if name not in self._kept}
        sample = self._dataset.decode_sample(rest, position)
        sample.update((name, stored[name]) for name in self._kept if name in stored)
        if not self._keyed:
            sample.pop(KEY, None)
        return sample

    def origin(self, position: int) -> str:
        """The file and the offset of its first field."""
        path, offset = self._dataset.where(position, next(iter(self.spec)))
        return f"{path}@{offset}"

"""The datasets that a viewer shows, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.core.dataset.dataset import Dataset
from bushel.core.pictures.thumbnail import Picture
from bushel.viewer.byte_cache import ByteCache
from bushel.viewer.kinds import ShownField, shown_fields

__all__ = ["Shelf", "Shown", "plain_text"]

_PICTURE_BYTES = 48 << 20
_SELECTION_BYTES = 48 << 20


def plain_text(text: str) -> str:
    """Return a text that can be encoded as UTF-8: bytes of a key that are not are shown with a backslash."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Shown:
    """A dataset in the viewer.

    Attributes:
        number: Its number in URLs.
        name: Its name on pages.
        source: What `bushel.verify` is given to check it.
        dataset: The dataset.
    """

    number: int
    name: str
    source: Any
    dataset: Dataset

    @cached_property
    def fields(self) -> tuple[ShownField, ...]:
        """Its fields."""
        return shown_fields(self.dataset.spec)

    @cached_property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """Names of classes, by field."""
        return self.dataset.labels

    def field(self, name: str) -> ShownField:
        """Return a field.

        Raises:
            KeyError: It does not exist.
        """
        for each in self.fields:
            if each.name == name:
                return each
        raise KeyError(f"there is no field {name!r}: the fields are {', '.join(self.dataset.spec) or 'none'}")

    @cached_property
    def main(self) -> ShownField | None:
        """The field that is shown large by default: the first one with pictures, else the first text, else any."""
        order = ("image", "clip", "audio", "array", "text", "tree", "bytes", "number", "other")
        return min(self.fields, key=lambda each: order.index(each.kind), default=None)

    def key(self, position: int) -> str:
        """Return the key of a sample."""
        return self.dataset.keys[position]


@dataclass(frozen=True)
class Shelf:
    """All datasets of a viewer.

    Attributes:
        datasets: The datasets, by number.
        transforms: Transforms that the training page offers, by name.
        pictures: Thumbnails that were made.
        selections: Positions that filters found, as integer arrays.
    """

    datasets: tuple[Shown, ...]
    transforms: Mapping[str, Any] = field(default_factory=dict)
    pictures: ByteCache[Picture] = field(
        default_factory=lambda: ByteCache(_PICTURE_BYTES, lambda picture: len(picture.data) + 200)
    )
    selections: ByteCache[npt.NDArray[np.signedinteger[Any]]] = field(
        default_factory=lambda: ByteCache(_SELECTION_BYTES, lambda positions: positions.nbytes + 200)
    )

    def shown(self, number: int) -> Shown:
        """Return a dataset.

        Raises:
            KeyError: There is no dataset of this number.
        """
        if not 0 <= number < len(self.datasets):
            raise KeyError(f"there is no dataset {number}: this viewer shows {len(self.datasets)}")
        return self.datasets[number]

"""The dataset protocol of loaders, and how batches are read from a dataset."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import I64
from bushel._runtime.public import public
from bushel.loader.values.collate import Sample

from .batch_reader import BatchReader

if TYPE_CHECKING:
    from bushel._dataset.read.stored_reader import Room
    from bushel.loader.run.ahead_plan import Planned
    from bushel.loader.run.read_ahead import HeldBatch


@public("bushel.loader")
class Loadable(Protocol):
    """The methods of a dataset that a loader uses: a `Dataset`, `ds.map(…)`, or a class of your own.

    Examples:
        >>> from bushel.loader import Loadable
        >>> dataset: Loadable = ds.map(dict)
        >>> bushel.Loader(dataset, 2)
        <bushel.Loader: ...>
    """

    @property
    def spec(self) -> Mapping[str, str]:
        """Field to type."""

    @property
    def fingerprint(self) -> str:
        """Identity of the samples and their order."""

    @property
    def keys(self) -> Sequence[str]:
        """The keys by position."""

    def __len__(self) -> int: ...

    def read(self, positions: Any, fields: Any = None, *, decode: bool = True) -> list[Sample]:
        """Return many samples, in one read."""

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples that `read(decode=False)` returned. Images of the fields `encoded` may stay stored bytes.

        `fields` is the argument of `read` if that was a mapping.
        """

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Announce samples that will be read soon to the storage."""

    def position(self, key: str) -> int:
        """Return the position of a key. Raise KeyError if it is missing."""

    def location(self, position: int, field: str) -> tuple[str | None, int | None]:
        """Return file and offset of a field."""


def source_of(
    dataset: Loadable, fields: Any = None, *, decode: bool = True
) -> BatchReader | PlainReader:
    """Return the reads of a dataset, or of some of its fields."""
    if isinstance(dataset, Dataset):
        reader = dataset.reader.narrowed(dataset.selection.wanted(fields))
        if reader is not dataset.reader:
            dataset = type(dataset)((), reader=reader, selection=dataset.selection)
        return BatchReader(dataset, decode)
    return PlainReader(dataset, decode)


class PlainReader(Struct, frozen=True):
    """The reads of a dataset of another class, as of `BatchReader`. None of its files can be read ahead."""

    dataset: Loadable
    decode: bool = True
    remote: bool = False

    def read_encoded(
        self,
        positions: Any,
        fields: Any = None,
        *,
        held: HeldBatch | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read samples for `decode_samples`."""
        return self.dataset.read(positions, fields, decode=False)

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        fields: Any = None,
    ) -> list[Sample]:
        """Decode samples of `read_encoded`."""
        if fields is None:
            return self.dataset.decode_samples(stored, positions, encoded)
        return self.dataset.decode_samples(stored, positions, encoded, fields)

    def prefetch(self, positions: Any, fields: Any = None) -> None:
        """Tell the storage what `read_encoded` will read soon."""
        self.dataset.prefetch(positions, fields)

    def extents(self, positions: Any, fields: Any = None) -> Planned:
        """Return no extents: its files are unknown."""
        return []

    def drain_whole_clips(self) -> int:
        """Return 0: the dataset reads clips itself."""
        return 0

"""Samples of a dataset: by position, key, field and range, from any container."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self, SupportsIndex, overload

import numpy as np

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.selection import Given, Mask, Positions, Sample, Selection
from bushel._dataset.read.shards import OpenShard
from bushel._runtime.arrays import Array, check_count, chunks
from bushel.spec import format_spec

if TYPE_CHECKING:
    from bushel._index.key_lookup import KeyView

CHUNK = 64
"""Number of samples that iteration reads at once."""

_WINDOWS = 8
"""Number of windows that it reads at once: windows of one clip are decoded together."""


class ShownSample(dict[str, Any]):
    """A sample: a dict, which a notebook shows as a table with its pictures, its sounds, and the names of its classes.

    Attributes:
        origin: The reader and the position of the sample in its whole dataset; None for a copy.
    """

    __slots__ = ("origin",)
    origin: tuple[Reader, int] | None

    def __missing__(self, name: object) -> Never:
        from bushel._dataset.read.read_errors import missing_field

        raise KeyError(missing_field(name, self))

    def __getattr__(self, name: str) -> Never:
        raise AttributeError(f"a sample has no attribute {name!r}: a field is sample[{name!r}]")

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownSample, (dict(self),)

    def __repr__(self) -> str:
        from bushel._pictures.terminal import is_brief, lines_of

        if is_brief(self):
            return dict.__repr__(self)
        return lines_of(self)

    def _repr_html_(self) -> str:
        from .info import sample_in_notebook

        return sample_in_notebook(self, getattr(self, "origin", None))


class Samples:
    """A read-only sequence of samples, by position and key. A view has the same class.

    Attributes:
        reader: Reads the samples. All views of a dataset share it. No page promises what it has.
        selection: The samples and fields of the view. Its positions count as the reader counts them.
    """

    def __init__(
        self,
        shards: Sequence[OpenShard],
        *,
        verify: bool | None = None,
        reader: Reader | None = None,
        selection: Selection | None = None,
    ) -> None:
        if isinstance(shards, str | Path):
            raise TypeError(f"a dataset is not made of a path: write bushel.open({str(shards)!r})")
        self.reader = Reader(shards, verify=verify) if reader is None else reader
        if selection is None:
            # not by `Reader.whole`, a call into a file more for each dataset
            positions: Positions = range(int(self.reader.starts[-1]))
            if self.reader.remaining is not None:
                positions = self.reader.remaining
            selection = Selection(positions, self.reader.fields)
        self.selection = selection

    def _view(
        self,
        positions: Positions | None = None,
        names: Iterable[str] | None = None,
        *,
        made: str = "",
    ) -> Self:
        selection_before, fields = self.selection, self.reader.fields
        if names is None:
            chosen = selection_before.fields
        else:
            chosen = {name: fields[name] for name in names}
        how = ", then ".join(filter(None, (selection_before.made, made)))
        selection = Selection(
            selection_before.positions if positions is None else positions, chosen, how
        )
        return type(self)((), reader=self.reader, selection=selection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. This is optional: the dataset and its views open them again when they are read."""
        self.reader.close()

    def __len__(self) -> int:
        return len(self.selection.positions)

    @property
    def _is_whole(self) -> bool:
        """Whether it has all samples that were not removed, in their order."""
        positions, whole = self.selection.positions, self.reader.whole
        return positions is whole or (isinstance(positions, range) and positions == whole)

    @property
    def spec(self) -> dict[str, str]:
        """Field names to types, such as `{"image": "jpg", "words": "utf8[]"}`.

        Examples:
            >>> ds.spec
            {'image': 'jpg', 'label': 'int'}
        """
        return format_spec(self.selection.fields)

    # Keys

    @property
    def keys(self) -> KeyView:
        """The keys in order, as a sequence that reads them when they are asked for.

        Examples:
            >>> ds.keys[0], ds.keys[-1]
            ('cat/0', 'dog/5')
        """
        from bushel._index.key_lookup import KeyView

        return KeyView(
            len(self), lambda positions: self.reader.keys(self.selection.absolute(positions))
        )

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and self._find(key) is not None

    def position(self, key: str) -> int:
        """Return the position of the first sample with this key.

        Raises:
            KeyError: No sample has this key.
            TypeError: `key` is not a str.

        Examples:
            >>> ds.position("dog/2")
            8
        """
        position = self._find(key)
        if position is None:
            from bushel._dataset.read.read_errors import unknown_key

            raise KeyError(unknown_key(key, self.keys, self._find, self.selection.fields))
        return position

    def _find(self, key: str) -> int | None:
        return self.selection.first(self.reader.find_key(key))

    # Views

    # Arrays have __index__ too, but it raises unless they hold a single number.
    @overload
    def __getitem__(  # type: ignore[overload-overlap]
        self, item: slice | list[int] | list[bool] | range | Array
    ) -> Self: ...
    @overload
    def __getitem__(
        self, item: SupportsIndex | str | tuple[SupportsIndex | str, Mask]
    ) -> Sample: ...

    def __getitem__(self, item: Any) -> Any:
        """Return a sample by position or key, optionally with a mask; or a view of several samples.

        `ds[3]`, `ds[-1]` and `ds["key"]` are samples. `ds[3, ["label"]]` reads only these fields,
        and `ds[3, {"frames": slice(32, 42)}]` only these elements of a sequence field, or frames of
        a clip. `ds[10:20]`, `ds[[5, 1, 1]]` and `ds[mask]` with a boolean array of the dataset's
        length are views, which read nothing.

        Raises:
            IndexError: The position, or an element of a sequence, is out of range.
            KeyError: A key or field does not exist.
            TypeError: `item` has another type.
        """
        selection, mask = self.selection, None
        if isinstance(item, tuple):
            if len(item) != 2:
                raise TypeError(
                    f"ds[position, fields] takes one position and one mask, not {len(item)} items"
                )
            item, mask = item
        if isinstance(item, str):
            item = self.position(item)
        if hasattr(item, "__index__") and getattr(item, "ndim", 0) == 0:
            try:
                position = int(selection.positions[operator.index(item)])
            except (IndexError, OverflowError):
                raise IndexError(selection.out_of_range(operator.index(item))) from None
            if mask is None:
                elements_by_field = dict.fromkeys(selection.fields)
            else:
                elements_by_field = selection.wanted(mask)
            sample = ShownSample(
                self.reader.narrowed(elements_by_field).sample(position, elements_by_field)
            )
            sample.origin = self.reader, position
            return sample
        if not isinstance(item, Iterable | slice) or isinstance(item, bytes):
            from bushel._dataset.read.read_errors import wrong_position

            raise TypeError(wrong_position(item))
        if mask is not None:
            raise TypeError(
                "a mask applies to one sample: choose the fields "
                "of several with ds[...].select_fields(names)"
            )
        if isinstance(item, slice):
            ends = ("" if end is None else str(end) for end in (item.start, item.stop))
            step = "" if item.step is None else f":{item.step}"
            positions = selection.positions[item]
            if len(positions) < 2 and isinstance(positions, range):
                # its step may be more than int64 holds
                positions = range(positions.start, positions.start + len(positions))
            return self._view(positions, made=f"[{':'.join(ends)}{step}]")
        # the array may be the user's own
        chosen = selection.absolute(selection.numbers(item).copy())
        return self._view(chosen, made=f"{len(chosen):,} chosen positions")

    def select_fields(self, names: Iterable[str]) -> Self:
        """Return a view with only these fields.

        Raises:
            KeyError: A field does not exist.
            TypeError: `names` is a str.

        Examples:
            >>> ds.select_fields(["label"])[0]
            {'__key__': 'cat/0', 'label': 0}
        """
        return self._view(names=list(self.selection.wanted(names)))

    def select_keys(self, keys: Iterable[str]) -> Self:
        """Return a view of the samples with these keys, in this order.

        Raises:
            KeyError: No sample has one of the keys.
            TypeError: `keys` is a str.

        Examples:
            >>> ds.select_keys(["dog/2", "cat/0"])[0, ["label"]]
            {'__key__': 'dog/2', 'label': 1}
        """
        if isinstance(keys, str):
            raise TypeError(
                f"give keys as a list, such as [{keys!r}]; ds[{keys!r}] is the sample with this key"
            )
        names = list(keys)
        positions, numbers = self.reader.find_keys(names)
        places = self.selection.places(positions)
        is_shown = places >= 0
        # of several samples with a key, the first one is meant
        chosen = np.full(len(names), len(self), np.int64)
        np.minimum.at(chosen, numbers[is_shown], places[is_shown])
        for missing in np.flatnonzero(chosen == len(self))[:1].tolist():
            self.position(names[missing])  # raises
        return self._view(self.selection.absolute(chosen), made=f"{len(chosen):,} chosen keys")

    def shard(self, index: int, num_shards: int) -> Self:
        """Return one of `num_shards` contiguous parts of the dataset, whose sizes differ by at most one.

        The parts are divisions of the samples; they have nothing to do with the shards in which
        they are stored.

        Args:
            index: Which part, from 0.
            num_shards: Number of parts.

        Raises:
            ValueError: `index` is not in `range(num_shards)`.
            TypeError: One of them is not a whole number.

        Examples:
            >>> [len(ds.shard(number, 5)) for number in range(5)]
            [2, 2, 3, 2, 3]
        """
        parts = check_count("num_shards", num_shards, least=1)
        part = check_count("index", index, most=parts - 1)
        first, last = len(self) * part // parts, len(self) * (part + 1) // parts
        return self._view(self.selection.positions[first:last], made=f"part {part} of {parts}")

    # Reading

    def __getitems__(self, positions: Sequence[int]) -> list[Sample]:
        """Read many samples at once: what a `DataLoader` of torch calls, where a dataset has it."""
        return self.read(positions)

    def __iter__(self) -> Iterator[Sample]:
        chunk = CHUNK if self.reader.windows is None else _WINDOWS
        for some in chunks(range(len(self)), chunk):
            positions = self.selection.all_of(some)
            reader = self.reader.narrowed(self.selection.fields)
            stored = reader.read(
                positions, dict.fromkeys(self.selection.fields), decode=False, parts=True
            )
            for place, sample in enumerate(stored):
                yield reader.decode_samples([sample], positions[place : place + 1])[0]

    def read(self, positions: Given, fields: Mask = None, *, decode: bool = True) -> list[Sample]:
        r"""Read many samples in one batched, coalesced read, which is much faster than one by one.

        Fields whose values the index has (docs/columns.md) are taken from it, unless bytes are
        compared with checksums.

        Args:
            positions: int[n]; negative positions count from the end.
            fields: The mask, as in `ds[position, fields]`.
            decode: Whether to decode the values, or to return the stored bytes. Stored clips are
                always whole.

        Returns:
            The samples in the order of `positions`.

        Raises:
            IndexError: A position is out of range.
            CorruptError: Stored bytes do not match their checksum (with `verify`).
            FormatError: A file is shorter than in the index.
            CodecError: Stored bytes do not decode.

        Examples:
            >>> few = ds.read([3, -1], ["label"])
            >>> [sample["__key__"] for sample in few]
            ['cat/3', 'dog/5']
            >>> ds.read([3], ["image"], decode=False)[0]["image"][:2]
            b'\xff\xd8'
        """
        elements_by_field = self.selection.wanted(fields)
        return self.reader.narrowed(elements_by_field).read(
            self.selection.all_of(positions), elements_by_field, decode=decode
        )

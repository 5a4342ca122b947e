"""Samples of a dataset: by position, key, field and range, from any container."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Self, SupportsIndex, overload

import numpy as np
import numpy.typing as npt

from bushel._dataset.decoding import count_elements, decode_samples, drained
from bushel._dataset.reader import Reader, Sample
from bushel._dataset.shards import OpenShard, kinds
from bushel._index.class_names import Labels
from bushel._index.read_plan import Elements, Mask, normalise_mask, stored_lengths
from bushel.codecs import holds_elements
from bushel.spec import format_spec
from bushel.storage import Extents, File

if TYPE_CHECKING:
    from bushel._index.key_lookup import KeyLookup, KeyView
    from bushel.storage.fetch import Held

__all__ = ["CHUNK", "Positions", "Sample", "Samples", "ShownSample"]

Positions = range | npt.NDArray[np.int64]
"""The samples of a view, in order, as positions in the whole dataset."""

CHUNK = 64
"""Number of samples that iteration reads at once."""


class ShownSample(dict[str, Any]):
    """A sample: a dict, which a notebook shows as a table with its pictures."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import sample_html

        return sample_html(self)


class Samples:
    """A read-only sequence of samples: the part of `Dataset` that reads. A view is of the same class."""

    def __init__(
        self,
        shards: Sequence[OpenShard],
        *,
        verify: bool | None = None,
        reader: Reader | None = None,
        positions: Positions | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        self._reader = Reader(shards, verify=verify) if reader is None else reader
        self._positions: Positions = range(int(self._reader.starts[-1])) if positions is None else positions
        fields = self._reader.fields
        self._fields = fields if names is None else {name: fields[name] for name in names}
        self._lookup: KeyLookup | None = None

    @property
    def _whole(self) -> bool:
        """Whether this is not a view of some samples, or of other orders of them."""
        return isinstance(self._positions, range) and self._positions == range(int(self._reader.starts[-1]))

    def _view(self, positions: Positions | None = None, names: Sequence[str] | None = None) -> Self:
        return type(self)(
            (),
            reader=self._reader,
            positions=self._positions if positions is None else positions,
            names=list(self._fields) if names is None else names,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_lookup": None}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all files. This is optional: the dataset and its views open them again when they are read."""
        self._reader.close()

    def __len__(self) -> int:
        return len(self._positions)

    # Fields

    @property
    def spec(self) -> dict[str, str]:
        """Field names to types, such as `{"image": "jpg", "words": "utf8[]"}`.

        Examples:
            >>> ds.spec
            {'image': 'jpg', 'label': 'int'}
        """
        return format_spec(self._fields)

    @property
    def labels(self) -> Labels:
        """Names of classes, in the order of their numbers, by field: `ds.labels["label"][3]`. Empty if there are none.

        Raises:
            SpecError: Two shards give different names to the same number; `bushel.open` and `concat` refuse them.

        Examples:
            >>> ds.labels["label"]
            ('cat', 'dog')
        """
        if not any(map(attrgetter("labels"), kinds(self._reader.shards))):
            return {}
        from bushel._dataset.labels import labels_of

        return labels_of(kinds(self._reader.shards), self._fields)

    # Keys

    @property
    def keys(self) -> KeyView:
        """The keys in order, as a sequence that reads them when they are asked for.

        Examples:
            >>> ds.keys[0], ds.keys[-1]
            ('cat/0', 'dog/5')
        """
        from bushel._index.key_lookup import KeyView

        return KeyView(len(self), lambda positions: self._reader.keys(self._absolute(positions)))

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
        if not isinstance(key, str):
            raise TypeError(f"a key must be a str, not {key!r}; for positions use ds[3] or ds[[3, 1]]")
        position = self._find(key)
        if position is None:
            from bushel._dataset.wrong_items import unknown_key

            raise KeyError(unknown_key(key, len(self), self._fields))
        return position

    def _find(self, key: str) -> int | None:
        if self._lookup is None:
            from bushel._dataset.key_file import key_lookup

            self._lookup = key_lookup(self._reader.shards, self._reader.starts)
        found: list[int] = []
        for position in self._lookup.find(key):
            if isinstance(self._positions, range):
                found += [self._positions.index(position)] if position in self._positions else []
            else:
                found += np.flatnonzero(self._positions == position)[:1].tolist()
        return min(found, default=None)

    # Views

    # Arrays have __index__ too, but it raises unless they hold a single number.
    @overload
    def __getitem__(  # type: ignore[overload-overlap]
        self, item: slice | list[int] | list[bool] | range | npt.NDArray[Any]
    ) -> Self: ...
    @overload
    def __getitem__(self, item: SupportsIndex | str | tuple[SupportsIndex | str, Mask]) -> Sample: ...

    def __getitem__(self, item: Any) -> Any:
        """Return a sample by position or key, optionally with a mask; or a view of several samples.

        `ds[3]`, `ds[-1]` and `ds["key"]` are samples. `ds[3, ["label"]]` reads only these fields, and
        `ds[3, {"frames": slice(32, 42)}]` only these elements of a sequence field, or frames of a clip. `ds[10:20]`,
        `ds[[5, 1, 1]]` and `ds[mask]` with a boolean array of the dataset's length are views, which read nothing.

        Raises:
            IndexError: The position, or an element of a sequence, is out of range.
            KeyError: A key or field does not exist.
            TypeError: `item` is none of these.
        """
        mask: Mask = None
        if isinstance(item, tuple):
            if len(item) != 2:
                raise TypeError(f"ds[position, fields] takes one position and one mask, not {len(item)} items")
            item, mask = item
        if isinstance(item, str):
            return ShownSample(self._reader.sample(self._at(self.position(item)), self._wanted(mask)))
        if hasattr(item, "__index__") and getattr(item, "ndim", 0) == 0:
            return ShownSample(self._reader.sample(self._at(operator.index(item)), self._wanted(mask)))
        if not isinstance(item, Iterable | slice):
            from bushel._dataset.wrong_items import wrong_position

            raise TypeError(wrong_position(item))
        if mask is not None:
            raise TypeError("a mask applies to one sample: choose the fields of several with ds[...].fields(names)")
        if isinstance(item, slice):
            return self._view(self._positions[item])
        return self._view(self._absolute(self._numbers(item).copy()))  # the array may be the user's own

    # Reading

    def __iter__(self) -> Iterator[Sample]:
        for first in range(0, len(self), CHUNK):
            positions = range(first, min(first + CHUNK, len(self)))
            for position, stored in zip(positions, self.read_encoded(positions), strict=True):
                yield self.decode_sample(stored, position)

    def read(
        self, positions: Iterable[int] | npt.NDArray[Any], fields: Mask = None, *, decode: bool = True
    ) -> list[Sample]:
        r"""Read many samples in one batched, coalesced read, which is much faster than one by one.

        Fields whose values the index has (docs/columns.md) are taken from it, unless bytes are compared with checksums.

        Args:
            positions: int[n]; negative positions count from the end.
            fields: The mask, as in `ds[position, fields]`.
            decode: Whether to decode the values, or to return the stored bytes. Stored clips are always whole.

        Returns:
            The samples in the order of `positions`.

        Raises:
            IndexError: A position is out of range.
            CorruptError: Stored bytes do not match their checksum (with `verify`).
            FormatError: A file is shorter than the index says.
            CodecError: Stored bytes do not decode.

        Examples:
            >>> few = ds.read([3, -1], ["label"])
            >>> [sample["__key__"] for sample in few]
            ['cat/3', 'dog/5']
            >>> ds.read([3], ["image"], decode=False)[0]["image"][:2]
            b'\xff\xd8'
        """
        return self._reader.read(self._absolute(self._numbers(positions)), self._wanted(fields), decode=decode)

    def read_encoded(
        self,
        positions: Iterable[int] | npt.NDArray[Any],
        fields: Mask = None,
        *,
        decode: bool = True,
        held: Held | None = None,
    ) -> list[Sample]:
        """Read samples for `decode_samples`: as `read(..., decode=False)`, but only what decoding needs.

        These are the packets of a clip that a mask needs, and no field whose values the index has.

        Args:
            positions: int[n].
            fields: The mask.
            decode: Whether they will be decoded. If not, all stored bytes are read.
            held: Bytes of remote files that need not be requested.
        """
        absolute = self._absolute(self._numbers(positions))
        return self._reader.read(absolute, self._wanted(fields), decode=False, parts=decode, held=held)

    def extents(
        self, positions: Iterable[int] | npt.NDArray[Any], fields: Mask = None, *, decode: bool = True
    ) -> list[tuple[list[File], Extents]]:
        """Return the extents that `read_encoded` will read together, with the files that they count."""
        from bushel._dataset.stored_extents import stored_extents

        wanted = self._wanted(fields)
        return stored_extents(self._reader, self._absolute(self._numbers(positions)), wanted, parts=decode)

    def drain_whole_clips(self) -> int:
        """Return how many clips were read whole since the last call because their packets did not give the frames."""
        return drained(self._reader.whole_clips) if self._reader.whole_clips else 0

    def gather(
        self, positions: Iterable[int] | npt.NDArray[Any], field: str
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Read the stored bytes of one plain field of many samples into one buffer: the fastest way to read.

        Returns:
            buffer: uint8[total].
            offsets: int64[n + 1]; sample `i` is `buffer[offsets[i]:offsets[i + 1]]`, empty if it lacks the field.

        Raises:
            TypeError: The field is a sequence.
            IndexError, CorruptError, FormatError: As `read`.

        Examples:
            >>> data, offsets = ds.gather([3, 0], "image")
            >>> photo = data[offsets[0] : offsets[1]].tobytes()
            >>> photo == Path("photos/cat/3.jpg").read_bytes()
            True
        """
        [name] = self._wanted([field])
        if self._fields[name].sequence:
            raise TypeError(f"field {name!r} is a sequence: gather() reads plain fields, read() reads both")
        return self._reader.gather(self._absolute(self._numbers(positions)), name)

    def read_crop(self, position: int, field: str, box: tuple[int, int, int, int]) -> npt.NDArray[Any]:
        """Read and decode a part of an image.

        If the index has the segments or the seek table of a JPEG, only the header and the bytes of that part are read.
        Other images are read whole, and so are all images of a dataset with checksums opened with `verify=True`.

        Args:
            position: The position of the sample.
            field: A plain image field.
            box: Left, top, right and bottom in pixels, the last two exclusive.

        Returns:
            HxWx3, or HxW of a grey image, as in `ds[position][field]`.

        Raises:
            KeyError: The field does not exist, or the sample lacks it.
            TypeError: The field is a sequence, or does not hold images.
            ValueError: The box is not inside the image.
            IndexError, CorruptError, FormatError, CodecError: As `read`.

        Examples:
            >>> ds.read_crop(0, "image", (8, 4, 32, 24)).shape
            (20, 24, 3)
        """
        [name] = self._wanted([field])
        if self._fields[name].sequence:
            raise TypeError(f"field {name!r} is a sequence: read_crop() reads plain fields")
        from bushel._dataset.crops import read_crop_of

        return read_crop_of(self._reader, self._at(position), name, box)

    def prefetch(
        self, positions: Iterable[int] | npt.NDArray[Any], fields: Mask = None, *, decode: bool = True
    ) -> None:
        """Ask the operating system to load what a later `read` of these positions will need. Returns at once."""
        self._reader.prefetch(self._absolute(self._numbers(positions)), self._wanted(fields), decode=decode)

    def decode_sample(self, stored: Sample, position: int) -> Sample:
        """Decode a sample that `read(..., decode=False)` returned for this position.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        return decode_samples(self._reader, [stored], np.array([self._positions[position]], np.int64))[0]

    def decode_samples(
        self,
        stored: Sequence[Sample],
        positions: Iterable[int] | npt.NDArray[Any],
        encoded: Collection[str] = (),
        fields: Mask = None,
    ) -> list[Sample]:
        """Decode samples that `read(..., decode=False)` returned for these positions.

        Args:
            stored: The samples.
            positions: Their positions.
            encoded: Image fields whose stored bytes are kept, as `Seekable` where the index has their seek tables.
            fields: The mask that was given to `read`.

        Raises:
            CodecError: Stored bytes do not decode. The error names the sample, field and file.
        """
        numbers = self._absolute(self._numbers(positions))
        return decode_samples(self._reader, stored, numbers, encoded, self._wanted(fields))

    def available(self, item: int | str) -> dict[str, bool | range]:
        """Return the fields that a sample has: True, or the range of a sequence's elements or of a clip's frames.

        Nothing is decoded, and only clips are read whose frames are not in the index.

        Raises:
            SpecError: The sample has a clip, and PyAV, which counts its frames, is not installed.
            CodecError: A clip is damaged.

        Examples:
            >>> ds.available("dog/2")
            {'image': True, 'label': True}
        """
        position = self.position(item) if isinstance(item, str) else operator.index(item)
        absolute = self._at(position)
        [group] = self._reader.readable(np.array([absolute], np.int64))
        row = int(group.rows[0])
        found: dict[str, bool | range] = {}
        for name in self._fields:
            column = group.index.fields.get(name)
            if column is None:
                continue
            if column.starts is not None:
                if column.absent is None or not column.absent[row]:
                    found[name] = range(int(column.starts[row + 1]) - int(column.starts[row]))
            elif column.length[row] >= 0:
                found[name] = (
                    range(count_elements(self._reader, absolute, name)) if holds_elements(column.codec) else True
                )
        return found

    def lengths(self, positions: Iterable[int] | npt.NDArray[Any], field: str) -> npt.NDArray[np.int64]:
        """Return the number of stored bytes of one field in many samples. No data are read.

        Returns:
            int64[n]: for a sequence field, the bytes of all elements; -1 if a sample lacks the field.

        Examples:
            >>> bool(ds.lengths([0], "image")[0] == Path("photos/cat/0.jpg").stat().st_size)
            True
        """
        wanted = self._absolute(self._numbers(positions))
        return stored_lengths(self._reader.groups(wanted), len(wanted), *self._wanted([field]))

    def location(self, position: int, field: str) -> tuple[str, int]:
        r"""Return the path of the file with a field of a sample, and the offset of its stored bytes.

        Examples:
            >>> file, offset = ds.location(0, "image")
            >>> Path(file).read_bytes()[offset : offset + 2]  # a JPEG begins so
            b'\xff\xd8'
        """
        if field not in self._fields:
            raise KeyError(f"there is no field {field!r}: the fields are {', '.join(self._fields) or 'none'}")
        return self._reader.location(self._at(position), field)

    def shard_of(self, position: int) -> int:
        """Return the number in `shards` of the shard that holds a sample."""
        return self._reader.row_of(self._at(position))[0]

    # Positions

    def _wanted(self, mask: Mask) -> dict[str, Elements]:
        if mask is None:
            return dict.fromkeys(self._fields)
        fields = self._fields.items() if isinstance(mask, Mapping) else ()
        ranged = [name for name, field in fields if field.sequence or holds_elements(field.codec)]
        return normalise_mask(mask, list(self._fields), ranged)

    def _numbers(self, positions: Any) -> npt.NDArray[np.int64]:
        """Return the positions that a user gives as int64[n]. They may be negative."""
        if isinstance(positions, range):
            for end in (positions[0], positions[-1]) if positions else ():
                self._checked(end)
            return np.arange(positions.start, positions.stop, positions.step, dtype=np.int64)
        array = np.asarray(positions if hasattr(positions, "__array__") else list(positions))
        if array.dtype.kind == "U":
            from bushel._dataset.wrong_items import texts_as_positions

            raise TypeError(texts_as_positions(array.reshape(-1).tolist(), self._fields))
        if array.dtype == np.bool_:
            if array.shape != (len(self),):
                raise IndexError(f"the boolean mask has shape {array.shape}, but the dataset has {len(self)} samples")
            if isinstance(positions, np.ma.MaskedArray):  # made of a column in which values are missing
                array = array & ~np.ma.getmaskarray(positions)
            return np.flatnonzero(array).astype(np.int64)
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iuO"):
            raise TypeError(f"positions must be a one-dimensional list of integers, not {positions!r}")
        if array.dtype.kind == "O":  # some do not fit into int64, or are not integers
            return np.array([self._checked(operator.index(position)) for position in array], np.int64)
        if array.dtype == np.uint64 and array.size:
            self._checked(int(array.max()))
        return np.ascontiguousarray(array, np.int64)

    def _checked(self, position: int) -> int:
        size = len(self._positions)
        if not -size <= position < size:
            raise IndexError(f"position {position} is out of range for a dataset of {size} samples")
        return position

    def _at(self, position: int) -> int:
        """Return a position in this view as a position in the whole dataset."""
        return int(self._positions[self._checked(position)])

    def _absolute(self, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return positions in this view as positions in the whole dataset."""
        size = len(self._positions)
        # One pass for the usual case: as unsigned numbers, negative positions are beyond every dataset.
        if len(positions) and int(positions.view(np.uint64).max()) >= size:
            low, high = int(positions.min()), int(positions.max())
            if low < -size or high >= size:
                wrong = high if high >= size else low
                raise IndexError(f"position {wrong} is out of range for a dataset of {size} samples")
            if low < 0:
                positions = np.where(positions < 0, positions + size, positions)
        if not isinstance(self._positions, range):
            return self._positions[positions]
        if self._positions.start or self._positions.step != 1:
            return positions * self._positions.step + self._positions.start
        return positions

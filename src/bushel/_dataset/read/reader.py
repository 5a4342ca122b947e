"""The reader: from positions in the whole dataset to samples. Every value that is read comes from here.

There is one way: positions become rows of shards, `StoredReader` reads the stored bytes of their
fields, and these are decoded. Two shortcuts give the same samples sooner: plain fields of one sample
of a local shard are read value by value, and what the index has (`known_values`) is not read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel import storage
from bushel._index.elements import Elements, Group, Ranges, at_place
from bushel._index.key_lookup import KeyLookup, samples_of_keys
from bushel._index.table import MISSING
from bushel._runtime.arrays import I64
from bushel._runtime.system import keep_freed_memory
from bushel.codecs import get_codec, holds_image
from bushel.containers import get_container
from bushel.errors import CodecError, UnsupportedError
from bushel.kernels import ExtentError, crc32
from bushel.spec import KEY
from bushel.storage import FilePool

from .selection import Sample
from .shards import Listing, OpenShard
from .stored_reader import StoredReader

if TYPE_CHECKING:
    from bushel._dataset.open.completeness import Incomplete
    from bushel.storage.fetch import Held

    from .known_values import KnownFields
    from .selection import Remaining
    from .sides import Joined, Side
    from .stored_reader import Room

    Resolve = Callable[[], Mapping[str, Elements]]

KNOWN_TYPES = (bool, int, float, str)
"""Types of values from the index. No stored value has one of them, so decoding recognises such values by their type."""


class Reader(StoredReader):
    """Reads samples of a list of shards by position in the whole dataset.

    Its only state is open files, and the known places of elements, so threads can share it, and a pickled
    copy opens its own files.

    Attributes:
        direct_pool: Files that are open for direct reads, for `direct`.
        incomplete: The state of the dataset if its writer has not finished.
        joins: The descriptions of the joins.
        sides: The datasets that were joined to the first one.
        whole_clips: An entry per clip that had to be read whole after a part was read; a loader
            takes them out.
    """

    _lookup: KeyLookup | None = None

    def __init__(
        self,
        shards: Sequence[OpenShard],
        *,
        verify: bool | None = None,
        incomplete: Incomplete | None = None,
        remaining: Remaining | None = None,
    ) -> None:
        # not by `kinds`, a call into a file more for each dataset
        some = shards[:1] if isinstance(shards, Listing) else shards
        sections = any(shard.section is not None for shard in some)
        containers = {shard.container for shard in some}
        self._promising = {name for name in containers if get_container(name).promises_checksums}
        super().__init__(shards, remaining)
        self.verify, self.incomplete = verify, incomplete
        self.pool, self.direct_pool = FilePool(), FilePool(direct=True)
        self.joins: tuple[Joined, ...] = ()
        self.sides: tuple[Side, ...] = ()
        self._narrowed: dict[frozenset[str], Reader] | None = {} if sections else None
        self.whole_clips: deque[None] = deque()  # threads share it: its methods are atomic
        self.warned_of_clips = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_lookup": None}

    def narrowed(self, names: Collection[str]) -> Reader:
        """Return the reader with which these fields are read: of sections of remote files, only their bytes are."""
        if self._narrowed is None or not names or type(self) is not Reader:
            return self
        if self.fields.keys() <= set(names):
            return self
        only_these = frozenset(names)
        if (narrow := self._narrowed.get(only_these)) is None:
            from .shard_fields import narrowed

            narrow = self.with_shards([narrowed(shard, only_these) for shard in self.shards])
            narrow._narrowed, narrow.whole_clips = None, self.whole_clips
            self._narrowed[only_these] = narrow
        return narrow

    def with_shards(self, shards: Sequence[OpenShard]) -> Reader:
        """Return a reader of the same samples, whose shards have other fields or types."""
        return Reader(
            shards, verify=self.verify, incomplete=self.incomplete, remaining=self.remaining
        )

    def direct(self) -> Reader:
        """Return a reader of the same samples that opens local files for direct reads, past the page cache."""
        copied = copy(self)
        copied.pool = self.direct_pool
        return copied

    def close(self) -> None:
        """Close all files. The next read opens them again."""
        self.pool.close()
        self.direct_pool.close()
        for narrowed in list((self._narrowed or {}).values()):
            narrowed.close()

    @property
    def lookup(self) -> KeyLookup:
        """The table of hashes by which keys are found; made when it is first needed."""
        if self._lookup is None:
            from .key_file import key_lookup

            self._lookup = key_lookup(self.counted, self.starts)
        return self._lookup

    def find_key(self, key: str) -> list[int]:
        """Return the positions of the samples with a key, ascending."""
        return self.lookup.find(key)

    def find_keys(self, keys: Sequence[str]) -> tuple[I64, I64]:
        """Return the positions of all samples with some keys, and the numbers of their keys: see `samples_of_keys`."""
        return samples_of_keys(keys, self.counted, self.starts, self.lookup)

    # Samples

    def sample(
        self, position: int, wanted: Mapping[str, Elements], home: tuple[int, int] | None = None
    ) -> Sample:
        """Read and decode one sample; with `home`, the number of a shard and a row there, fields that are in it.

        A sample that is not read value by value is a batch of one sample, which also names the error of a
        value that cannot be read.
        """
        sample = self._value_by_value(position, wanted, home)
        if sample is None:
            [sample] = self.read(np.array([position], np.int64), wanted, decode=True)
        return sample

    @cached_property
    def _plain_fields(self) -> frozenset[str]:
        """The fields that are not sequences. Others are not begun, as a batch would decode them again."""
        return frozenset(name for name, field in self.fields.items() if not field.sequence)

    def _value_by_value(
        self, position: int, wanted: Mapping[str, Elements], home: tuple[int, int] | None
    ) -> Sample | None:
        """Return a sample that the index has, or of plain fields of local files; None for others."""
        if self.windows is not None or not self._plain_fields.issuperset(wanted):
            return None
        number, row = self.row_of(position) if home is None else home
        shard = self.shards[number]
        shard.check_readable(row, position)
        index = shard.index
        if index.columns and wanted.keys() <= index.columns.keys():
            from_index = self.known.sample(number, index, row, position, wanted)
            if from_index is not None:
                return from_index
        if not isinstance(shard.shard.root, Path):
            return None
        files = self.pool.files
        checked = self.verify or (self.verify is None and shard.container in self._promising)
        sample: Sample = {KEY: str(position) if index.keys is None else index.keys[row]}
        try:
            for name, elements in wanted.items():
                if (extents := index.fields.get(name)) is None:
                    continue
                if elements is not None or extents.starts is not None:
                    return None
                if (length := extents.length.item(row)) == MISSING:
                    continue
                place = number, extents.file
                if (file := files.get(place)) is None:  # `self.file`, without a call for each
                    file_of = partial(self.file, number)
                    file = self.pool.get(place, partial(shard.open, extents.file, file_of))
                stored = file.read(extents.offset.item(row), length)
                if checked and (sums := extents.crc32) is not None and crc32(stored) != sums[row]:
                    return None
                sample[name] = get_codec(extents.codec).decode(stored)
        except (ExtentError, CodecError, ValueError, TypeError):
            return None
        return sample

    def read(
        self,
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool | None = None,
        held: Held | None = None,
        room: Room | None = None,
    ) -> list[Sample]:
        """Read samples with one call to the storage for the whole batch.

        With `parts` (by default, if `decode` is set), only the packets that the wanted frames of
        clips need are read, and no field whose values the index has. Without `decode`, the value of
        such a clip is a `ClipPart`, and a value from the index is decoded, for `decode_samples`.
        Bytes of remote files that are `held` are not read again. With `room`, and without `decode`,
        stored values may be views of memory that is taken from there.
        """
        groups = self.readable(positions, wanted)
        if parts is None:
            parts = decode
        unknown = self.unknown(groups, wanted) if parts else wanted
        # the values that the index has, by field
        columns: dict[str, list[Any]] = {}
        rest = wanted
        if len(unknown) < len(wanted):
            from .known_values import known_values, merged

            names = [name for name in wanted if name not in unknown]
            columns = known_values(groups, len(positions), names)
            rest = {name: elements for name, elements in wanted.items() if name not in columns}
        if rest or not columns:
            samples = self.read_stored(positions, groups, rest, parts=parts, held=held, room=room)
        else:
            samples = [{KEY: key} for key in self.keys(positions, groups)]
        if decode:
            self._decode(samples, groups, positions, rest)
        if not columns:
            return samples
        return merged(samples, columns, wanted)

    def prefetch(
        self, positions: I64, wanted: Mapping[str, Elements], *, decode: bool = True
    ) -> None:
        """Ask for readahead of samples or windows that will be read soon; direct reads have no use for it."""
        if self.pool.direct:
            return
        elements = self.asked(positions, wanted)
        groups = self.groups(positions, elements)
        if decode and not (elements := self.unknown(groups, elements)):
            return
        plan = self.plan(groups, len(positions), elements, parts=True)
        for batch in plan.batches:
            # if too many files would be open, it is read later
            self._call(storage.prefetch, plan, batch, positions)

    def asked(self, positions: I64, wanted: Mapping[str, Elements]) -> Mapping[str, Elements]:
        """Return the elements to read of samples, given those that are wanted of them, or of their windows."""
        return wanted

    def sizes(self, positions: I64, name: str) -> I64 | None:
        """Return the number of elements that windows have of a field; None if they have what samples have."""
        return None

    @property
    def base(self) -> Reader:
        """The reader of samples: this one, unless it reads windows of them."""
        return self

    def samples(self, positions: I64) -> I64:
        """Return the positions in the whole dataset of samples, or of the samples that windows are of."""
        return positions

    def ranges(self, positions: I64, names: Collection[str] | None = None) -> dict[str, Ranges]:
        """Return the elements of windows, of each field that has some, or of these fields; samples have none."""
        return {}

    def refuse_windows(self, instead: str) -> None:
        """Refuse windows, where only whole samples have a meaning.

        Raises:
            UnsupportedError: They are windows; `instead` says what to do.
        """
        if self.windows is not None:
            raise UnsupportedError(f"the samples of this view are {self.windows.shape}: {instead}")

    def unknown(
        self, groups: Sequence[Group], wanted: Mapping[str, Elements]
    ) -> Mapping[str, Elements]:
        """Return the fields of a batch that have to be read, as its indexes do not have them."""
        looked_at = groups[:1] if self.counted is self.shards else groups
        if any(name in group.index.columns for group in looked_at for name in wanted):
            return self.known.unknown(groups, wanted)
        return wanted

    @cached_property
    def known(self) -> KnownFields:
        """The fields that need not be read."""
        from .known_values import KnownFields

        return KnownFields(self.shards, self.checks)

    # Decoding

    def decode_samples(
        self,
        samples: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        wanted: Mapping[str, Elements] | None = None,
    ) -> list[Sample]:
        """Return decoded samples for stored ones of these positions, except for images of the fields `encoded`.

        Those become `Seekable` if the index has their seek table.

        Raises:
            CodecError: A value cannot be decoded.
        """
        if wanted is None:
            wanted = dict.fromkeys(self.fields)
        groups = self.groups(positions, wanted)
        decoded = list(map(dict, samples))
        # parts of values know their elements, so most windows are decoded without this
        resolve = cache(partial(self.asked, positions, wanted))
        self._decode(decoded, groups, positions, wanted, encoded, resolve)
        columns = ((name, group.index.fields.get(name)) for group in groups for name in encoded)
        sought = {
            name for name, column in columns if column is not None and column.seek is not None
        }
        if sought:
            from bushel._index.part_plan import tables_by_field, with_table

            tables_of_fields = tables_by_field(groups, len(positions), sought, wanted)
            for name, tables in tables_of_fields.items():
                for sample, table in zip(decoded, tables, strict=True):
                    if name in sample:
                        sample[name] = with_table(sample[name], table)
        return decoded

    def _decode(
        self,
        samples: Sequence[Sample],
        groups: Iterable[Group],
        positions: I64,
        wanted: Mapping[str, Elements],
        encoded: Collection[str] = (),
        resolve: Resolve | None = None,
    ) -> None:
        """Decode the stored values of samples in place, field by field.

        Args:
            samples: The samples. Values that came from the index are decoded already.
            groups: The samples by shard.
            positions: int64[samples], the position of each.
            wanted: The fields, and the elements of each that were read.
            encoded: Fields whose images stay as they are.
            resolve: Gives the elements that are read for `wanted`; None if `wanted` has them.

        Raises:
            CodecError: A value cannot be decoded.
        """
        resolve = resolve or (lambda: wanted)
        windowed = () if self.windows is None else self.windows.shape.offsets
        keep_freed_memory()  # many values at once, and the same again soon
        for group in groups:
            places = range(len(samples)) if group.places is None else group.places.tolist()
            for name, elements in wanted.items():
                extents = group.index.fields.get(name)
                if extents is None or (name in encoded and holds_image(extents.codec)):
                    continue
                decode = get_codec(extents.codec).decode
                whole = elements is None and name not in windowed
                place = 0
                try:
                    for place in places:
                        sample = samples[place]
                        stored = sample.get(name)
                        if type(stored) is bytes and whole:  # as most are
                            sample[name] = decode(stored)
                        elif isinstance(stored, list):
                            sample[name] = list(map(decode, stored))
                        elif stored is None or type(stored) in KNOWN_TYPES:
                            continue
                        elif whole:
                            sample[name] = decode(stored)
                        else:
                            position = int(positions[place])
                            sample[name] = self._some_of(
                                stored, extents.codec, name, position, resolve, place
                            )
                except CodecError as error:
                    raise self._undecodable(error, name, int(positions[place])) from error

    def _some_of(
        self, value: Any, codec: str, name: str, position: int, resolve: Resolve, place: int
    ) -> Any:
        """Decode elements of a field, given a part of its value or all of it.

        If the bytes of a part do not give its elements, the whole value is read.
        """
        from bushel.codecs.parts import Part, SharedPart

        if isinstance(value, Part) and (decoded := value.decode(codec)) is not None:
            return decoded
        elements: Any = at_place(resolve()[name], place)
        if not isinstance(value, Part):
            ranged = get_codec(codec).ranged
            if ranged is None:
                raise TypeError(
                    f"codec {codec!r} can only decode whole values: ask for the field with True"
                )
            return ranged.decode(value, elements)
        inner = value.part if isinstance(value, SharedPart) else value
        if inner.by_form:
            number, row = self.row_of(position, name)
            column = self.shards[number].index.fields[name]
            self.element_places.look_again(number, column, row, self.file)
        if inner.of_clip:
            self.count_whole_clip(position, name)
        # of a window, too, these are the elements of its sample: `asked` returned them
        at = np.array([position], np.int64)
        [sample] = Reader.read(self, at, {name: elements}, decode=True, parts=False)
        return sample[name]

    def _undecodable(self, error: CodecError, name: str, position: int) -> CodecError:
        """Return the error for stored bytes that do not decode, with the sample and the place that they are of."""
        key, (file, offset) = self.key(position), self.location(position, name)
        place = {"key": key, "field": name, "file": file, "offset": offset, "position": position}
        message = f"sample {key!r}, field {name!r} ({file}@{offset}): {error}"
        return CodecError(message, **{**error.details, **place})

    def count_elements(self, position: int, name: str) -> int:
        """Return the number of elements of a value whose codec can decode them one by one.

        It is read only if the index lacks it.
        """
        number, row = self.row_of(position, name)
        extents = self.shards[number].index.fields[name]
        if extents.frames is not None and (count := extents.frames.count(row)) is not None:
            return int(count)
        [sample] = self.read(np.array([position], np.int64), {name: None}, decode=False)
        ranged = get_codec(extents.codec).ranged
        if ranged is None:
            raise TypeError(f"field {name!r} cannot be decoded in part")
        try:
            return ranged.count(sample[name])
        except CodecError as error:
            raise self._undecodable(error, name, position) from error

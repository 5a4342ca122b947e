"""The reader: from positions in the whole dataset to samples."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec, holds_image
from bushel.codecs.clip_parts import ClipPart
from bushel.core.dataset.crops import crop_in_part, cut
from bushel.core.dataset.decoding import (
    decode_field,
    decoder_of,
    frames_of,
    joined_parts,
    warn_of_whole_clip,
    with_field,
)
from bushel.core.dataset.discovery import Incomplete
from bushel.core.dataset.read_errors import corrupt, differs, undecodable, unreadable
from bushel.core.dataset.shards import Listing, OpenShard, any_keyed, kinds, read_stored, readable, samples_of
from bushel.core.index.read_plan import Elements, Group, Piece, ReadPlan, plan_read
from bushel.core.index.seek_lookup import tables_by_field, with_table
from bushel.core.index.table import INLINE, MISSING, Keys
from bushel.core.index.values import KNOWN_TYPES
from bushel.core.parallel import map_all
from bushel.errors import CodecError, CorruptError, FormatError
from bushel.jpeg import Box
from bushel.kernels import JpegError, crc32
from bushel.spec import KEY
from bushel.storage import ExtentError, Extents, File, FilePool, gather, prefetch, read_many
from bushel.storage.base import extent_error

if TYPE_CHECKING:
    from bushel.core.dataset.known_values import KnownFields
    from bushel.storage.reading import Held

__all__ = ["Reader", "Sample"]

Sample = dict[str, Any]
"""A training example: its key under `__key__`, and the value of each field that it has."""

I64 = npt.NDArray[np.int64]

_AT_ONCE = 32
"""Number of remote indexes that are fetched at once."""


class Reader:
    """Reads samples of a list of shards by position in the whole dataset. Every value that is read comes from here.

    Its only state is open files, so threads can share it, and a pickled copy opens its own files.

    Attributes:
        shards: The shards in order.
        starts: int64[shards + 1], position of each shard's first sample, followed by the number of samples.
        keyed: Whether any sample has a key of its own.
        verify: Whether bytes are compared with their checksum where that is known; None to compare those of containers
            that promise it.
        incomplete: The state of the dataset if its writer has not finished.
        whole_clips: An entry per clip that had to be read whole after a part was read; `drain_whole_clips` takes them.
    """

    def __init__(self, shards: Sequence[OpenShard], *, verify: bool | None = None) -> None:
        self.shards: Sequence[OpenShard] = shards if isinstance(shards, Listing) else tuple(shards)
        self.verify = verify
        verified = [shard.promises_checksums if verify is None else verify for shard in kinds(self.shards)]
        self._verified = verified * len(self.shards) if isinstance(shards, Listing) else verified
        self.starts = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum(samples_of(self.shards), out=self.starts[1:])
        self.keyed = any_keyed(self.shards)
        self._pool = FilePool()
        self._known_fields: KnownFields | None = None
        self.incomplete: Incomplete | None = None
        self.whole_clips: deque[None] = deque()  # threads share it: its methods are atomic
        self._warned_of_clips = False

    def close(self) -> None:
        """Close all files. The next read opens them again."""
        self._pool.close()

    @property
    def most_files(self) -> int:
        """Number of files that are kept open at the same time."""
        return self._pool.limit

    def verifies(self, number: int) -> bool:
        """Return whether bytes of a shard are compared with their checksums, where these are known."""
        return self._verified[number]

    def groups(self, positions: I64) -> list[Group]:
        """Divide a batch by shard."""
        if len(self.shards) == 1:
            return [Group(0, self.shards[0].index, positions, None)]
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        order = np.argsort(numbers, kind="stable")
        ordered = numbers[order]
        begins = np.flatnonzero(np.diff(ordered, prepend=-1))  # np.unique would import numpy.ma
        present = ordered[begins].tolist()
        if len(present) == 1:
            [number] = present
            return [Group(number, self.shards[number].index, positions - self.starts[number], None)]
        self._load(present)
        offsets = begins.tolist() + [len(order)]
        groups = []
        for at, number in enumerate(present):
            places = order[offsets[at] : offsets[at + 1]]
            groups.append(Group(number, self.shards[number].index, positions[places] - self.starts[number], places))
        return groups

    def _load(self, numbers: Sequence[int]) -> None:
        """Load the indexes of these shards, many at once if each is a request to an object store."""
        missing = [shard for shard in map(self.shards.__getitem__, numbers) if not shard.loaded]
        if len(missing) > 1 and not missing[0].local:
            map_all(lambda shard: shard.index, missing, workers=_AT_ONCE, name="bushel-index")

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """Return the keys of these samples. A sample without a key has its position as text."""
        if not self.keyed:
            return [str(position) for position in positions.tolist()]
        keys: list[str] = [""] * len(positions)
        for group in self.groups(positions) if groups is None else groups:
            if group.index.keys is None:
                own = list(map(str, (positions if group.places is None else positions[group.places]).tolist()))
            else:
                own = self._own_keys(group, group.index.keys)
            if group.places is None:
                return own
            for place, key in zip(group.places.tolist(), own, strict=True):
                keys[place] = key
        return keys

    def _own_keys(self, group: Group, keys: Keys) -> list[str]:
        try:
            return keys.take(group.rows)
        except ValueError as error:
            sidecar = str(self.shards[group.number].shard.sidecar)
            hint = "run `bushel index --force` on the dataset"
            raise FormatError(f"the index is damaged: {error}", file=sidecar, hint=hint) from error

    def sample(self, position: int, wanted: Mapping[str, Elements]) -> Sample:
        """Read and decode one sample.

        Plain fields of a local shard are read extent by extent, without the arrays of a batch. Everything else is a
        batch of one sample.
        """
        number = int(self.starts.searchsorted(position, "right")) - 1 if len(self.shards) > 1 else 0
        shard = self.shards[number]
        index = shard.index
        shard.check_readable(row := position - int(self.starts[number]), position)
        listed = index.values and all(name in index.values for name in wanted)
        if listed and (known := self._known.sample(number, index, row, position, wanted)) is not None:
            return known
        columns = []
        direct = shard.local
        for name, elements in wanted.items():
            if (column := index.columns.get(name)) is not None:
                columns.append((name, column))
                direct = direct and elements is None and column.plain
        if not direct:
            return self.read(np.array([position], np.int64), wanted, decode=True)[0]
        sample: Sample = {KEY: str(position) if index.keys is None else index.keys[row]}
        for name, column in columns:
            if (length := int(column.length[row])) == MISSING:
                continue
            offset = int(column.offset[row])
            file = self.file(number, column.file)
            try:
                if offset < 0 or length < 0:
                    raise extent_error(0, "beyond", offset + length, file.size, file.path)
                stored = file.read(offset, length)
            except ExtentError as error:
                raise self._unreadable(error, name, position, number, column.file, offset) from None
            if self._verified[number] and column.crc32 is not None and (found := crc32(stored)) != column.crc32[row]:
                path, expected = str(shard.path(column.file)), int(column.crc32[row])
                what = differs(expected, found)
                raise corrupt(what, self._key(position), name, path, offset, expected, found)
            try:
                sample[name] = get_codec(column.codec).decode(stored)
            except CodecError as error:
                raise self.undecodable(error, sample[KEY], name, position) from error
        return sample

    def read(
        self,
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool | None = None,
        held: Held | None = None,
    ) -> list[Sample]:
        """Read samples with one call to the storage for the whole batch.

        With `parts` (by default, if `decode` is set), only the packets that the wanted frames of clips need are read,
        and no field whose values the index has. Without `decode`, the value of such a clip is a `ClipPart`, and a value
        from the index is decoded, for `Reader.decode`. What is `held` of the bytes of remote files is not read again.
        """
        groups, parts = readable(self.shards, self.starts, self.groups(positions)), decode if parts is None else parts
        if not parts or len(rest := self._known.unknown(groups, wanted)) == len(wanted):
            return self._read(groups, positions, wanted, decode=decode, parts=parts, held=held)
        from bushel.core.dataset.known_values import known_values, merged

        known = known_values(groups, len(positions), [name for name in wanted if name not in rest])
        rest = {name: elements for name, elements in wanted.items() if name not in known}
        if not rest:
            return merged([{KEY: key} for key in self.keys(positions, groups)], known, wanted)
        samples = self._read(groups, positions, rest, decode=decode, parts=True, held=held)
        return merged(samples, known, wanted) if known else samples

    @property
    def _known(self) -> KnownFields:
        if self._known_fields is None:
            from bushel.core.dataset.known_values import KnownFields

            self._known_fields = KnownFields(self._verified)
        return self._known_fields

    def _read(
        self,
        groups: Sequence[Group],
        positions: I64,
        wanted: Mapping[str, Elements],
        *,
        decode: bool,
        parts: bool,
        held: Held | None = None,
    ) -> list[Sample]:
        if (verify := self._verifies(groups, wanted)) is None:
            return self._read_by_group(groups, positions, wanted, decode=decode, parts=parts)
        if not decode and groups and all(self.shards[group.number].local for group in groups):
            keys_of = partial(self.keys, positions, groups)
            whole = read_stored(groups, len(positions), wanted, self.file, keys_of, verify=verify)
            if whole is not None:
                return whole
        plan = plan_read(groups, len(positions), wanted, checksums=verify, parts=parts and not self.verify)
        stored: list[bytes | None] | None = None
        try:
            stored = self._execute(plan, positions, held)
        except OSError as error:
            if error.errno != errno.EMFILE or len(groups) == 1:
                raise
        if stored is None:  # after the except clause, whose traceback keeps the files open
            return self._read_by_group(groups, positions, wanted, decode=decode, parts=parts)
        keys = self.keys(positions, groups)
        samples: list[Sample] | None = None
        for number, field in enumerate(plan.fields):
            last = plan.fields[number + 1].first if number + 1 < len(plan.fields) else len(stored)
            own = stored if len(plan.fields) == 1 else stored[field.first : last]
            if field.parts is not None:
                own = joined_parts(field.parts, own)
            values: list[Any] = decode_field(self, field, own, keys, positions) if decode else own
            samples = with_field(samples, field, own, values, keys)
        return [{KEY: key} for key in keys] if samples is None else samples

    def _verifies(self, groups: Sequence[Group], wanted: Iterable[str]) -> bool | None:
        """Return whether to compare these samples with checksums; None if that differs from shard to shard."""
        asked = {self._verified[group.number] for group in groups}
        if len(asked) > 1 or (True in asked and _checked_unequally(groups, wanted)):
            return None
        return True in asked

    def _read_by_group(
        self, groups: Sequence[Group], positions: I64, wanted: Mapping[str, Elements], *, decode: bool, parts: bool
    ) -> list[Sample]:
        """Read shard by shard, because too many files would be open at once, or only some shards have checksums."""
        samples: list[Sample] = [{}] * len(positions)
        for group in groups:
            places = np.arange(len(positions)) if group.places is None else group.places
            own = self._read([replace(group, places=None)], positions[places], wanted, decode=decode, parts=parts)
            for place, sample in zip(places.tolist(), own, strict=True):
                samples[place] = sample
        return samples

    def gather(self, positions: I64, name: str) -> tuple[npt.NDArray[np.uint8], I64]:
        """Return the stored bytes of one plain field in one buffer, and int64[n + 1] offsets into it."""
        groups = readable(self.shards, self.starts, self.groups(positions))
        verify = self._verifies(groups, {name: None})
        plan = plan_read(groups, len(positions), {name: None}, checksums=bool(verify))
        if not plan.pieces and verify is not None:
            try:
                return gather(self._files(plan), plan.extents[0])
            except ExtentError as error:
                self._fail(plan, plan.extents[0], error, 0, positions)
            except OSError as error:
                if error.errno != errno.EMFILE or len(groups) == 1:
                    raise
        parts = [sample.get(name, b"") for sample in self.read(positions, {name: None}, decode=False)]
        offsets = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        return np.frombuffer(b"".join(parts), np.uint8), offsets

    def crop(self, position: int, name: str, box: Box) -> npt.NDArray[Any]:
        """Return a crop of an image. If the index has its segments or seek table, only the needed bytes are read."""
        positions = np.array([position], np.int64)
        [group] = readable(self.shards, self.starts, self.groups(positions))
        column = group.index.columns.get(name)
        known = column is not None and (column.segments is not None or column.seek is not None)
        if column is not None and known and not (self.verify and column.crc32 is not None):
            try:
                file = self.file(group.number, column.file)
                if (pixels := crop_in_part(file, column, int(group.rows[0]), box)) is not None:
                    return pixels
            except (CodecError, ExtentError, JpegError):
                pass  # not tiled, or damaged: decoding the whole image finds the error
        [sample] = self.read(positions, {name: None}, decode=True)
        if name not in sample:
            raise KeyError(f"sample {sample[KEY]!r} has no field {name!r}")
        return cut(sample[name], name, box)

    def prefetch(self, positions: I64, wanted: Mapping[str, Elements], *, decode: bool = True) -> None:
        """Ask for readahead of a batch that will be read soon, decoded or not."""
        groups = self.groups(positions)
        if decode and not (wanted := self._known.unknown(groups, wanted)):
            return
        plan = plan_read(groups, len(positions), wanted, checksums=False, parts=not self.verify)
        try:
            files = self._files(plan)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            return  # too many files to open at once: the batch will be read shard by shard
        first = 0
        for extents in plan.extents:
            try:
                prefetch(files, extents)
            except ExtentError as error:
                self._fail(plan, extents, error, first, positions)
            first += len(extents.offset)

    def elements(self, position: int, name: str) -> int:
        """Return the number of elements of a value whose codec can decode them one by one.

        It is read only if the index does not know.
        """
        [group] = self.groups(np.array([position], np.int64))
        column = group.index.columns[name]
        if column.frames is not None and (count := column.frames.count(int(group.rows[0]))) is not None:
            return count
        [sample] = self.read(np.array([position], np.int64), {name: None}, decode=False)
        ranged = get_codec(column.codec).ranged
        if ranged is None:
            raise TypeError(f"field {name!r} cannot be decoded in part")
        try:
            return ranged.count(sample[name])
        except CodecError as error:
            raise self.undecodable(error, sample[KEY], name, position) from error

    def decode(
        self,
        samples: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        wanted: Mapping[str, Elements] | None = None,
    ) -> list[Sample]:
        """Decode stored samples of these positions, except for images of the fields `encoded`.

        Those become `Seekable` if the index has their seek table.
        """
        wanted = wanted or {}
        if len(self.shards) == 1:
            numbers = [0] * len(samples)
        else:
            numbers = (np.searchsorted(self.starts, positions, side="right") - 1).tolist()
        decoders = {number: self._decoders(number, encoded, wanted) for number in set(numbers)}
        columns = ((name, self.shards[number].index.columns.get(name)) for number in decoders for name in encoded)
        sought = {name for name, column in columns if column is not None and column.seek is not None}
        tables = tables_by_field(self.groups(positions), len(positions), sought, wanted) if sought else {}
        decoded = []
        for place, (sample, number) in enumerate(zip(samples, numbers, strict=True)):
            own = decoders[number]
            values: Sample = {}
            name = KEY
            try:
                for name, value in sample.items():
                    decode = own.get(name)
                    if decode is None or type(value) in KNOWN_TYPES:
                        values[name] = with_table(value, tables[name][place]) if name in tables else value
                    elif isinstance(value, ClipPart):
                        values[name] = frames_of(self, value, name, int(positions[place]), wanted[name])
                    elif isinstance(value, list):
                        values[name] = [decode(each) for each in value]
                    else:
                        values[name] = decode(value)
            except CodecError as error:
                raise self.undecodable(error, sample[KEY], name, int(positions[place])) from error
            decoded.append(values)
        return decoded

    def _decoders(
        self, number: int, encoded: Collection[str], wanted: Mapping[str, Elements]
    ) -> dict[str, Callable[[Any], Any]]:
        return {
            name: get_codec(column.codec).decode
            if column.starts is not None or wanted.get(name) is None
            else decoder_of(column.codec, wanted[name])
            for name, column in self.shards[number].index.columns.items()
            if name not in encoded or not holds_image(column.codec)
        }

    def read_whole_clip(self, position: int, name: str, elements: Elements) -> Any:
        """Return frames of a clip that is read whole, since a part of it did not give them. It is counted."""
        at = np.array([position], np.int64)
        self.whole_clips.append(None)
        if not self._warned_of_clips:
            self._warned_of_clips = True
            [key], (file, _) = self.keys(at), self.location(position, name)
            warn_of_whole_clip(f"sample {key!r}, field {name!r} ({file})")
        return self.read(at, {name: elements}, decode=True, parts=False)[0][name]

    def location(self, position: int, name: str) -> tuple[str, int]:
        """Return the path of the file with a field of a sample, and the offset of its stored bytes."""
        [group] = self.groups(np.array([position], np.int64))
        column = group.index.columns[name]
        row = int(group.rows[0] if column.starts is None else column.starts[group.rows[0]])
        offset = int(column.offset[row]) if 0 <= row < column.rows else 0
        return str(self.shards[group.number].path(max(column.file, 0))), offset

    def _files(self, plan: ReadPlan) -> list[File]:
        return [self.file(shard, number) for shard, number in plan.files]

    def file(self, shard: int, number: int) -> File:
        """Return an open file of a shard, given the numbers of both."""
        return self._pool.get((shard, number), lambda: self.shards[shard].open(number))

    def _execute(self, plan: ReadPlan, positions: I64, held: Held | None) -> list[bytes | None]:
        files = self._files(plan)
        values: list[bytes | None] = []
        for extents in plan.extents:
            try:
                values += read_many(files, extents, held)
            except ExtentError as error:
                self._fail(plan, extents, error, len(values), positions)
        for piece in plan.pieces:
            values[piece.row] = self._piece(plan, piece, positions)
        return values

    def _piece(self, plan: ReadPlan, piece: Piece, positions: I64) -> bytes:
        shard = self.shards[piece.shard]
        inline = shard.index.inline
        name, place = plan.owner(piece.row)
        position, path = int(positions[place]), str(shard.path(max(piece.file, 0)))
        start = piece.start
        try:
            if piece.file == INLINE:
                raw, start = b"" if inline is None else inline, piece.offset
            else:
                raw = shard.join(self.file(piece.shard, piece.file).read(piece.offset, piece.length))
        except (ExtentError, ValueError) as error:
            what = f"cannot be read: {error}"
            raise corrupt(what, self._key(position), name, path, piece.offset) from error
        value = bytes(raw[start : start + piece.size]) if start >= 0 else b""
        found = crc32(value)
        if len(value) != piece.size or (
            self._verified[piece.shard] and piece.crc32 is not None and found != piece.crc32
        ):
            what = "is not what was written"
            raise corrupt(what, self._key(position), name, path, piece.offset, piece.crc32, found)
        return value

    def undecodable(self, error: CodecError, key: str, name: str, position: int) -> CodecError:
        """Return the error of a codec, with the sample and the file that it belongs to."""
        return undecodable(error, key, name, *self.location(position, name), position)

    def _fail(self, plan: ReadPlan, extents: Extents, error: ExtentError, first: int, positions: I64) -> NoReturn:
        """Raise the error of an extent of a plan, with the sample and the file that it belongs to."""
        name, place = plan.owner(first + error.row)
        shard, file = plan.files[extents.file_of(error.row)]
        offset = int(extents.offset[error.row])
        raise self._unreadable(error, name, int(positions[place]), shard, file, offset) from None

    def _unreadable(
        self, error: ExtentError, name: str, position: int, shard: int, file: int, offset: int
    ) -> CorruptError | FormatError:
        path = str(self.shards[shard].path(file))
        return unreadable(error, self._key(position), name, path, offset)

    def _key(self, position: int) -> str:
        return self.keys(np.array([position], np.int64))[0]


def _checked_unequally(groups: Sequence[Group], wanted: Iterable[str]) -> bool:
    """Return whether only some shards have checksums of a field: a batch of both kinds would verify none."""
    columns = ([group.index.columns.get(name) for group in groups] for name in wanted)
    return any(len({column.crc32 is None for column in field if column is not None}) > 1 for field in columns)

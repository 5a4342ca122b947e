"""Carrying out of read plans: from positions in the whole dataset to samples."""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from bushel.codecs import get_codec, holds_image
from bushel.codecs.base import codec_error
from bushel.core.dataset.shards import OpenShard
from bushel.core.index.read_plan import Elements, FieldPlan, Group, Piece, ReadPlan, plan_read
from bushel.core.index.table import INLINE, MISSING, Column, Keys
from bushel.core.parallel import map_all
from bushel.errors import CodecError, CorruptError, FormatError
from bushel.jpeg import Box, Tiles, read_crop
from bushel.kernels import JpegError, crc32
from bushel.spec import KEY
from bushel.storage import ExtentError, Extents, File, FilePool, gather, is_local, prefetch, read_many

__all__ = ["Reader", "Sample"]

Sample = dict[str, Any]
"""One training example: its key under `__key__`, and the value of each field that it has."""

I64 = npt.NDArray[np.int64]

_AT_ONCE = 32
"""Indexes that are fetched at a time."""


class Reader:
    """Reads samples of a list of shards by absolute position: the one way from the index to values.

    It holds open files and nothing else that changes, so threads share it, and a pickled copy opens its own files.

    Attributes:
        shards: The shards in order.
        starts: int64[shards + 1], position of each shard's first sample; the last is the number of samples.
        verify: Whether bytes are compared with their CRC where that is known.
    """

    def __init__(self, shards: Sequence[OpenShard], *, verify: bool = False) -> None:
        self.shards = tuple(shards)
        self.verify = verify
        self.starts = np.zeros(len(self.shards) + 1, np.int64)
        np.cumsum([shard.samples for shard in self.shards], out=self.starts[1:])
        self._pool = FilePool()

    def close(self) -> None:
        """Let go of all files; the next read opens them again."""
        self._pool.close()

    def groups(self, positions: I64) -> list[Group]:
        """A batch by shards."""
        if len(self.shards) == 1:
            return [Group(0, self.shards[0].index, positions, None)]
        numbers = np.searchsorted(self.starts, positions, side="right") - 1
        present = np.unique(numbers)
        if len(present) == 1:
            [number] = present.tolist()
            return [Group(number, self.shards[number].index, positions - self.starts[number], None)]
        self._load(present.tolist())
        order = np.argsort(numbers, kind="stable")
        borders = np.searchsorted(numbers[order], present).tolist() + [len(order)]
        groups = []
        for at, number in enumerate(present.tolist()):
            places = order[borders[at] : borders[at + 1]]
            groups.append(Group(number, self.shards[number].index, positions[places] - self.starts[number], places))
        return groups

    def _load(self, numbers: Sequence[int]) -> None:
        """Get the indexes of these shards, many at once where each is a request to an object store."""
        missing = [shard for shard in map(self.shards.__getitem__, numbers) if not shard.at_hand]
        if len(missing) > 1 and not is_local(missing[0].shard.root):
            map_all(lambda shard: shard.index, missing, workers=_AT_ONCE, name="bushel-index")

    def keys(self, positions: I64, groups: Sequence[Group] | None = None) -> list[str]:
        """The keys of these samples; a sample without one of its own has its position as text."""
        if not any(shard.keyed for shard in self.shards):
            return [str(position) for position in positions.tolist()]
        keys: list[str] = [""] * len(positions)
        for group in self.groups(positions) if groups is None else groups:
            if group.index.keys is None:
                numbers = positions if group.places is None else positions[group.places]
                own = [str(number) for number in numbers.tolist()]
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
        """Read one sample: as `read`, but without the arrays of a batch where every field is one plain extent."""
        number = int(self.starts.searchsorted(position, "right")) - 1 if len(self.shards) > 1 else 0
        if not is_local(self.shards[number].shard.root):  # where fields are asked for together, they cost one request
            return self.read(np.array([position], np.int64), wanted, decode=True)[0]
        index = self.shards[number].index
        row = position - int(self.starts[number])
        sample: Sample = {KEY: str(position) if index.keys is None else index.keys[row]}
        try:
            for name in wanted:
                if (column := index.columns.get(name)) is None:
                    continue
                if column.starts is not None or column.file == INLINE or column.fragments is not None:
                    break
                if wanted[name] is not None:
                    break
                if (length := int(column.length[row])) == MISSING:
                    continue
                stored = self._file(number, column.file).read(int(column.offset[row]), length)
                if self.verify and column.crc32 is not None and crc32(stored) != column.crc32[row]:
                    break
                sample[name] = get_codec(column.codec).decode(stored)
            else:
                return sample
        except (CodecError, ValueError):
            pass  # the batched way says what is wrong, and where
        return self.read(np.array([position], np.int64), wanted, decode=True)[0]

    def read(self, positions: I64, wanted: Mapping[str, Elements], *, decode: bool) -> list[Sample]:
        """Read samples: one call to the storage for the whole batch."""
        groups = self.groups(positions)
        if self.verify and _checked_unequally(groups, wanted):
            return self._read_by_group(groups, positions, wanted, decode=decode)
        plan = plan_read(groups, len(positions), wanted, checksums=self.verify)
        stored: list[bytes | None] | None = None
        try:
            stored = self._execute(plan, positions)
        except OSError as error:
            if error.errno != errno.EMFILE or len(groups) == 1:
                raise
        if stored is None:  # outside of the except clause, whose traceback holds the files that were opened
            return self._read_by_group(groups, positions, wanted, decode=decode)
        keys = self.keys(positions, groups)
        samples: list[Sample] | None = None
        for number, field in enumerate(plan.fields):
            last = plan.fields[number + 1].first if number + 1 < len(plan.fields) else len(stored)
            own = stored if len(plan.fields) == 1 else stored[field.first : last]
            values: list[Any] = self._decode(field, own, keys, positions) if decode else own
            name = field.name
            if field.counts is None and samples is None and None not in own:
                samples = [{KEY: key, name: value} for key, value in zip(keys, values, strict=True)]
                continue
            samples = samples or [{KEY: key} for key in keys]
            if field.counts is None:
                for sample, raw, value in zip(samples, own, values, strict=True):
                    if raw is not None:
                        sample[name] = value
                continue
            at = 0
            for sample, count in zip(samples, field.counts, strict=True):
                if count >= 0:
                    sample[name] = values[at : at + count]
                    at += count
        return [{KEY: key} for key in keys] if samples is None else samples

    def _read_by_group(
        self, groups: Sequence[Group], positions: I64, wanted: Mapping[str, Elements], *, decode: bool
    ) -> list[Sample]:
        """Read shard by shard: they are too many to be open at once, or only some have checksums to compare with."""
        samples: list[Sample] = [{}] * len(positions)
        for group in groups:
            places = np.arange(len(positions)) if group.places is None else group.places
            for place, sample in zip(places.tolist(), self.read(positions[places], wanted, decode=decode), strict=True):
                samples[place] = sample
        return samples

    def gather(self, positions: I64, name: str) -> tuple[npt.NDArray[np.uint8], I64]:
        """The stored bytes of one plain field in one buffer, and int64[n + 1] offsets into it."""
        groups = self.groups(positions)
        plan = plan_read(groups, len(positions), {name: None}, checksums=self.verify)
        if not plan.pieces and not (self.verify and _checked_unequally(groups, {name: None})):
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
        """A crop of an image, from the bytes that it needs where the index knows its segments; else from all."""
        positions = np.array([position], np.int64)
        [group] = self.groups(positions)
        column = group.index.columns.get(name)
        if column is not None and column.segments is not None and not (self.verify and column.crc32 is not None):
            row = int(group.rows[0])
            try:
                return self._tiled_crop(group.number, column, row, column.segments.of(row), box)
            except (CodecError, ExtentError, JpegError):
                pass  # not tiled; or damaged, and the whole says what is wrong, and where
        [sample] = self.read(positions, {name: None}, decode=True)
        if name not in sample:
            raise KeyError(f"sample {sample[KEY]!r} has no field {name!r}")
        image, (left, top, right, bottom) = sample[name], box
        if not isinstance(image, np.ndarray) or image.ndim < 2:
            raise TypeError(f"field {name!r} holds no images")
        if not (0 <= left < right <= image.shape[1] and 0 <= top < bottom <= image.shape[0]):
            raise ValueError(f"the box {box} is not inside the image, which is {image.shape[1]}x{image.shape[0]}")
        return image[top:bottom, left:right].copy()

    def _tiled_crop(self, shard: int, column: Column, row: int, begins: I64, box: Box) -> npt.NDArray[Any]:
        start = int(column.offset[row])
        if not len(begins) or begins[-1] > column.length[row]:
            raise codec_error("jpg", "a tiled JPEG", "none, or the segments of another one")
        file = self._file(shard, column.file)

        def fetch(ranges: Sequence[tuple[int, int]]) -> list[bytes]:
            offsets, lengths = np.ascontiguousarray(np.array(ranges, np.int64).T)
            return [part or b"" for part in read_many([file], Extents(0, start + offsets, lengths))]

        return read_crop(Tiles(file.read(start, int(begins[0])), begins), box, fetch)

    def prefetch(self, positions: I64, wanted: Mapping[str, Elements]) -> None:
        """Ask for readahead of a batch that will be read soon."""
        plan = plan_read(self.groups(positions), len(positions), wanted, checksums=False)
        try:
            files = self._files(plan)
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            return  # more files than may be open at once: they will be read shard by shard
        first = 0
        for extents in plan.extents:
            try:
                prefetch(files, extents)
            except ExtentError as error:
                self._fail(plan, extents, error, first, positions)
            first += len(extents)

    def elements(self, position: int, name: str) -> int:
        """The number of elements in a value of a codec that decodes them alone."""
        [sample] = self.read(np.array([position], np.int64), {name: None}, decode=False)
        [group] = self.groups(np.array([position], np.int64))
        ranged = get_codec(group.index.columns[name].codec).ranged
        if ranged is None:
            raise TypeError(f"field {name!r} has no elements that are decoded alone")
        try:
            return ranged.count(sample[name])
        except CodecError as error:
            raise self._undecodable(error, sample[KEY], name, position) from error

    def decode(
        self,
        samples: Sequence[Sample],
        positions: I64,
        encoded: Collection[str] = (),
        wanted: Mapping[str, Elements] | None = None,
    ) -> list[Sample]:
        """Decode stored samples, which came from these positions; leave images of the fields `encoded` as they are."""
        if len(self.shards) == 1:
            numbers = [0] * len(samples)
        else:
            numbers = (np.searchsorted(self.starts, positions, side="right") - 1).tolist()
        decoders = {number: self._decoders(number, encoded, wanted or {}) for number in set(numbers)}
        decoded = []
        for place, (sample, number) in enumerate(zip(samples, numbers, strict=True)):
            own = decoders[number]
            values: Sample = {}
            for name, value in sample.items():
                decode = own.get(name)
                try:
                    if decode is None:
                        values[name] = value
                    elif isinstance(value, list):
                        values[name] = [decode(each) for each in value]
                    else:
                        values[name] = decode(value)
                except CodecError as error:
                    raise self._undecodable(error, sample[KEY], name, int(positions[place])) from error
            decoded.append(values)
        return decoded

    def _decoders(
        self, number: int, encoded: Collection[str], wanted: Mapping[str, Elements]
    ) -> dict[str, Callable[[Any], Any]]:
        columns = self.shards[number].index.columns.items()
        return {
            name: _decoder(column.codec, None if column.starts is not None else wanted.get(name))
            for name, column in columns
            if name not in encoded or not holds_image(column.codec)
        }

    def location(self, position: int, name: str) -> tuple[str, int]:
        """Path of the file and offset at which a field of a sample begins."""
        [group] = self.groups(np.array([position], np.int64))
        column = group.index.columns[name]
        row = int(group.rows[0] if column.starts is None else column.starts[group.rows[0]])
        offset = int(column.offset[row]) if 0 <= row < column.rows else 0
        return str(self.shards[group.number].shard.path(max(column.file, 0))), offset

    def _files(self, plan: ReadPlan) -> list[File]:
        return [self._file(shard, number) for shard, number in plan.files]

    def _file(self, shard: int, number: int) -> File:
        return self._pool.get((shard, number), lambda: self.shards[shard].open(number))

    def _execute(self, plan: ReadPlan, positions: I64) -> list[bytes | None]:
        files = self._files(plan)
        values: list[bytes | None] = []
        for extents in plan.extents:
            try:
                values += read_many(files, extents)
            except ExtentError as error:
                self._fail(plan, extents, error, len(values), positions)
        for piece in plan.pieces:
            values[piece.row] = self._piece(plan, piece, positions)
        return values

    def _piece(self, plan: ReadPlan, piece: Piece, positions: I64) -> bytes:
        shard = self.shards[piece.shard]
        inline = shard.index.inline
        name, place = plan.owner(piece.row)
        where = (name, int(positions[place]), str(shard.shard.path(max(piece.file, 0))), piece.offset)
        start = piece.start
        try:
            if piece.file == INLINE:
                raw, start = b"" if inline is None else inline, piece.offset
            else:
                raw = shard.join(self._file(piece.shard, piece.file).read(piece.offset, piece.length))
        except (ExtentError, ValueError) as error:
            raise self._corrupt(f"cannot be read: {error}", *where) from error
        value = bytes(raw[start : start + piece.size]) if start >= 0 else b""
        found = crc32(value)
        if len(value) != piece.size or (self.verify and piece.crc32 is not None and found != piece.crc32):
            raise self._corrupt("is not what was written", *where, piece.crc32, found)
        return value

    def _decode(self, field: FieldPlan, values: list[bytes | None], keys: Sequence[str], positions: I64) -> list[Any]:
        if isinstance(field.codecs, str):
            decode = _decoder(field.codecs, field.elements)
            try:
                return [None if value is None else decode(value) for value in values]
            except CodecError:
                pass  # once more, value by value, to say which one
        counts = [1] * len(keys) if field.counts is None else [max(count, 0) for count in field.counts]
        decoded = []
        at = 0
        for place, count in enumerate(counts):
            decode = _decoder(field.codecs if isinstance(field.codecs, str) else field.codecs[place], field.elements)
            for value in values[at : at + count]:
                try:
                    decoded.append(None if value is None else decode(value))
                except CodecError as error:
                    raise self._undecodable(error, keys[place], field.name, int(positions[place])) from error
            at += count
        return decoded

    def _undecodable(self, error: CodecError, key: str, name: str, position: int) -> CodecError:
        file, offset = self.location(position, name)
        return CodecError(
            f"sample {key!r}, field {name!r} ({file}@{offset}): {error}",
            **{**error.details, "key": key, "field": name, "file": file, "offset": offset, "position": position},
        )

    def _corrupt(
        self,
        what: str,
        name: str,
        position: int,
        file: str,
        offset: int,
        expected: int | None = None,
        found: int | None = None,
    ) -> CorruptError:
        [key] = self.keys(np.array([position], np.int64))
        return CorruptError(
            f"sample {key!r}, field {name!r} {what}",
            key=key,
            field=name,
            file=file,
            offset=offset,
            expected=expected,
            found=found,
            hint="run `bushel verify` on the dataset",
        )

    def _fail(self, plan: ReadPlan, extents: Extents, error: ExtentError, first: int, positions: I64) -> NoReturn:
        """Say which sample and file an unreadable extent belongs to."""
        name, place = plan.owner(first + error.row)
        position = int(positions[place])
        number, file = plan.files[extents.file_of(error.row)]
        path, offset = str(self.shards[number].shard.path(file)), int(extents.offset[error.row])
        if error.reason == "checksum":
            what = f"has the CRC-32 {error.found:08x} where {error.expected:08x} was written"
            raise self._corrupt(what, name, position, path, offset, error.expected, error.found) from None
        [key] = self.keys(np.array([position], np.int64))
        if error.reason == "shrunk":
            what = f"the file has shrunk from {error.expected} to {error.found} bytes since it was opened"
        else:
            what = f"sample {key!r}, field {name!r} ends at byte {error.expected} of a file of {error.found} bytes"
        raise FormatError(
            what,
            file=path,
            offset=offset,
            hint="run `bushel verify` on the dataset",
        ) from None


def _decoder(name: str, elements: Elements) -> Callable[[Any], Any]:
    """What decodes the stored values of a codec, or only these elements of each."""
    codec = get_codec(name)
    if elements is None:
        return codec.decode
    if codec.ranged is None:
        raise TypeError(f"codec {name!r} decodes whole values only: ask for its field with True")
    ranged = codec.ranged
    return lambda data: ranged.decode(data, elements)


def _checked_unequally(groups: Sequence[Group], wanted: Iterable[str]) -> bool:
    """Whether some shards know the checksums of a field and others do not: a batch of both would check neither."""
    columns = ([group.index.columns.get(name) for group in groups] for name in wanted)
    return any(len({column.crc32 is None for column in field if column is not None}) > 1 for field in columns)

"""Grouping the members of an archive into samples, piece by piece."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import FileStamp, Keys, Strings
from bushel._index.table import MISSING, FieldExtents, ShardIndex
from bushel._runtime.arrays import I32, I64, NO_NUMBERS, U8, U32, GrowingArrays, joined
from bushel._runtime.messages import log_warning
from bushel.errors import FormatError
from bushel.kernels import SampleNames
from bushel.spec import KEY, Spec

from .names import Naming, Place, field_name

if TYPE_CHECKING:
    from bushel.kernels import TarMembers
    from bushel.storage import Blocks

Repeated = Callable[[FormatError, int], None]

_STEP = 1 << 16
_MOST_CELLS = 1 << 24
_CELLS_PER_MEMBER = 64
_MISSING = {"offset": np.int64(0), "length": np.int64(MISSING), "crc32": np.uint32(0)}
"""What the arrays of a field have for a sample that lacks it."""


class Members(Struct, frozen=True):
    """The regular files of an archive, in order."""

    names: Strings
    offset: I64  # int64[members], offset of each member's data
    size: I64  # int64[members], size of its data in bytes
    header: I64  # int64[members], offset of its header
    crc32: U32 | None = None  # uint32[members], their checksums, if the archive has them

    @classmethod
    def of(cls, scanned: TarMembers) -> Members:
        """Return all members that a scan found."""
        names = Strings(scanned.names, scanned.name_offsets)
        return cls(names, scanned.offset, scanned.size, scanned.header)

    def __len__(self) -> int:
        return len(self.offset)

    def chosen(self, rows: I64) -> Members:
        """Return the members of these numbers, ascending."""
        return Members(
            self.names.chosen(rows), self.offset[rows], self.size[rows], self.header[rows]
        )

    @classmethod
    def joined(cls, parts: list[Members]) -> Members:
        """Return the members of several parts of an archive, one after the other."""
        if len(parts) == 1:
            return parts[0]
        offset, size, header = (
            np.concatenate([NO_NUMBERS, *(getattr(part, name) for part in parts)])
            for name in ("offset", "size", "header")
        )
        return cls(Strings.join(part.names for part in parts), offset, size, header)


class Table(Struct, frozen=True):
    """The samples of an archive.

    Attributes:
        samples: Number of samples.
        keys: Their keys. Duplicates occur where the members of a sample are not adjacent.
        columns: By field, in order of first appearance.
        left_out: Number of files that belong to no sample, by kind.
    """

    samples: int
    keys: Keys
    columns: dict[str, FieldExtents]
    left_out: Counter[str]

    def report_pieces(self, path: str) -> None:
        """Warn if many samples are in pieces: the archive has all files of one extension, then of another."""
        hashes = self.keys.hashes
        whole = self.samples - int(np.count_nonzero(hashes[1:] == hashes[:-1]))
        counts = [np.count_nonzero(column.length != MISSING) for column in self.columns.values()]
        pieces = self.samples - whole
        if 0 < self.samples <= 4 * pieces and max(counts) <= whole:
            log_warning(
                "%s: the files of a sample are not adjacent, so that %d samples are %d "
                "pieces, for webdataset, too: extract the archive, and pack the folder",
                path,
                whole,
                self.samples,
            )

    def index(self, files: tuple[FileStamp, ...], blocks: tuple[Blocks, ...] = ()) -> ShardIndex:
        """Return the table of a shard of one file, or of the one block file in it."""
        fields = self.columns
        if blocks:
            fields = {name: replace(extents, file=len(files)) for name, extents in fields.items()}
        return ShardIndex(self.samples, files, fields, "tar", self.keys, blocks=blocks)


def tabulate(
    members: Members, spec: Spec | None, path: str, repeated: Repeated | None = None
) -> Table:
    """Group adjacent members with the same key into samples.

    Args:
        members: The files of the archive.
        spec: Fields that the user declared, or None.
        path: The archive's path for error messages.
        repeated: Called for a field that a sample has twice, with the error and the number of the
            sample. By default, the error is raised. With it, samples of the same key that share no
            field are joined, too.

    Raises:
        FormatError: A sample has two members with the same extension, or the names have too many
            different extensions for a table.
    """
    table = SampleTable(spec, path, len(members), repeated)
    return table.finish(members)


class Groups(Struct, frozen=True):
    """Some members that belong to samples, and these samples."""

    member: I64  # numbers of the members
    sample: I64  # number of the sample of each, ascending
    extension: I64 | I32  # number of the extension of each
    text: U8  # the keys of the samples
    ends: I64  # where each key ends


class _Column:
    """A field of the table so far."""

    def __init__(self, place: Place) -> None:
        self.field, self.codec = place.field, place.codec
        self.samples = self.elements = 0


class SampleTable:
    """The table of the samples of an archive, whose members are added piece by piece.

    The arrays go to a temporary file if they are large, so memory does not grow with the archive.

    Args:
        spec: As for `tabulate`.
        path: As for `tabulate`.
        most: The number of members that the archive can have.
        repeated: As for `tabulate`; all members are then given to `finish`.
        keys: The keys of all samples, if a directory has them; it has the checksums, too.
    """

    def __init__(
        self,
        spec: Spec | None,
        path: str,
        most: int,
        repeated: Repeated | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._keys, self._left_out = keys, Counter[str]()
        self._naming, self._path, self._repeated = Naming(spec), path, repeated
        self._most_cells = max(_MOST_CELLS, _CELLS_PER_MEMBER * most)
        self._names, self._arrays = SampleNames(), GrowingArrays()
        none = NO_NUMBERS
        self._arrays.add(
            text=none.view(np.uint8),
            hashes=none.view(np.uint64),
            order=none,
            ends=np.zeros(1, np.int64),
        )
        self._parts = list(_MISSING)[: 2 + (keys is not None)]  # only a directory has checksums
        self._columns: list[_Column] = []
        self._numbers: dict[str, int] = {}
        for place in self._naming.declared:
            self._add_column(place)
        # of each extension
        self._field, self._element = NO_NUMBERS, NO_NUMBERS
        # the members that wait, and the share of the archive that they and those before them take
        self._rest: list[Members] = []
        self._share = 0.0
        self._samples = self._members = self._text = 0

    def add(self, members: Members, share: float) -> None:
        """Add members. They wait for the next call, as the last ones do for `finish`.

        Args:
            members: The next regular files of the archive.
            share: The share of the archive that they and those before them take.

        Raises:
            FormatError: As of `tabulate`.
        """
        if self._rest:
            # while rows are added, the share of the rows before them
            self._arrays.share = self._arrays.share or self._share
            waiting = Members.joined(self._rest)
            used = self._put(waiting, last=False)
            # the last sample may go on in the new members
            self._rest = [waiting.chosen(np.arange(used, len(waiting)))]
            self._arrays.share = self._share
        self._rest.append(members)
        self._share = share

    def finish(self, members: Members | None = None) -> Table:
        """Add the last members, and return the table.

        Raises:
            FormatError: As of `tabulate`.
        """
        rest = self._rest if members is None else [*self._rest, members]
        if rest:
            self._put(Members.joined(rest), last=True)
        self._check_cells(self._samples, max(_MOST_CELLS, _CELLS_PER_MEMBER * self._members))
        for number in range(len(self._columns)):
            self._fill(number)
        if self._keys is None:  # room for the hashes, which are computed at the end
            for first in range(0, self._samples, _STEP):
                room = np.zeros(min(_STEP, self._samples - first), np.int64)
                self._arrays.add(hashes=room.view(np.uint64), order=room)
        arrays, keys = self._arrays.finish(), self._keys
        if keys is None:
            hashes = arrays["hashes"], arrays["order"]
            keys = Keys.build(arrays["text"], arrays["ends"], hashes)
        columns = {}
        for number, column in enumerate(self._columns):
            places: dict[str, Any] = {
                # without samples, no array has elements
                part: arrays.get(f"{number} {part}", np.full(0, _MISSING[part]))
                for part in self._parts
            }
            columns[column.field.name] = FieldExtents(
                column.field, column.codec, 0, **places, starts=arrays.get(f"{number} starts")
            )
        return Table(self._samples, keys, columns, self._left_out)

    def close(self) -> None:
        """Drop the table, where `finish` is not called."""
        self._arrays.close()

    def _put(self, members: Members, *, last: bool) -> int:
        """Add the samples of some members, and return the number of members that they take."""
        grouped = self._names.group(members.names.text, members.names.offsets, last)
        used, groups = grouped[0], Groups(*grouped[1:])
        if len(groups.member) < used:
            nameless = members.names.take(np.setdiff1d(np.arange(used), groups.member))
            self._left_out.update(map(kind_of_nameless, nameless))
        if self._repeated is not None:
            groups = _joined(groups)
        self.put(members, groups, self._names.extensions)
        return used

    def put(self, members: Members, groups: Groups, extensions: Sequence[bytes]) -> None:
        """Add some samples.

        Args:
            members: Their members, and perhaps others.
            groups: The members of each sample.
            extensions: All extensions so far, by their numbers.

        Raises:
            FormatError: As of `tabulate`.
        """
        self._name_extensions(extensions)
        self._members += len(groups.member)
        self._check_cells(self._samples + len(groups.ends), self._most_cells)
        if len(groups.ends):
            pieces = self._pieces_of(members, groups)
            if self._keys is None:
                pieces |= {"text": groups.text, "ends": groups.ends + self._text}
            self._arrays.add(**pieces)
            self._text += len(groups.text)
            self._samples += len(groups.ends)

    def _name_extensions(self, extensions: Sequence[bytes]) -> None:
        """Find the fields of new extensions."""
        if len(extensions) == len(self._field):
            return
        places = [
            self._naming(field_name(extension)) for extension in extensions[len(self._field) :]
        ]
        if any(place.field.name == KEY for place in places):
            raise FormatError(
                f"a member has the extension {KEY!r}, which is reserved for the key of a sample",
                self._path,
            )
        for place in places:
            if place.field.name not in self._numbers:
                self._add_column(place)
        fields = [self._numbers[place.field.name] for place in places]
        self._field = np.concatenate([self._field, np.array(fields, np.int64)])
        self._element = np.concatenate(
            [self._element, np.array([place.number or 0 for place in places], np.int64)]
        )

    def _add_column(self, place: Place) -> None:
        number = self._numbers[place.field.name] = len(self._columns)
        self._columns.append(_Column(place))
        if place.field.sequence:
            self._arrays.append(f"{number} starts", np.zeros(1, np.int64))

    def _check_cells(self, samples: int, most: int) -> None:
        if samples * len(self._columns) > most:
            raise FormatError(
                f"{len(self._columns)} different extensions in {samples} samples: "
                "the keys probably contain dots, but a key ends at its first dot",
                self._path,
                hint="rename the members, or declare sequences with spec=",
            )

    def _pieces_of(self, members: Members, groups: Groups) -> dict[str, np.ndarray]:
        """Return the extents of some samples, by the names of the arrays to which they are added."""
        pieces = dict[str, np.ndarray]()
        field = self._field[groups.extension]
        small = len(self._columns) <= 1 << 16  # then NumPy sorts in one scan
        order = np.argsort(field.astype(np.uint16) if small else field, kind="stable")
        counts = np.bincount(field, minlength=len(self._columns))
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts).tolist():
            rows = order[ends[number] - counts[number] : ends[number]]
            column = self._columns[number]
            if column.field.sequence:
                element = self._element[groups.extension[rows]]
                by_element = np.lexsort((element, groups.sample[rows]))
                rows, element = rows[by_element], element[by_element]
            sample, member = groups.sample[rows], groups.member[rows]
            repeated = sample[1:] == sample[:-1]
            if column.field.sequence:
                repeated &= element[1:] == element[:-1]
            for row in np.flatnonzero(repeated).tolist():
                second = int(member[row + 1])
                error = FormatError(
                    f"{members.names[second]!r}: its sample already has a member for the field "
                    f"{column.field.name!r}",
                    self._path,
                    int(members.header[second]),
                    "run `bushel verify` on it",
                )
                if self._repeated is None:
                    raise error
                self._repeated(error, int(sample[row]))
            self._fill(number)
            places: dict[str, Any] = {
                "offset": members.offset[member],
                "length": members.size[member],
            }
            if members.crc32 is not None:
                places["crc32"] = members.crc32[member] * (places["length"] > 0)
            samples = len(groups.ends)
            if column.field.sequence:
                in_sample = np.bincount(sample, minlength=samples)
                pieces[f"{number} starts"] = column.elements + np.cumsum(in_sample)
                column.elements += len(sample)
            elif len(sample) != samples or (sample[1:] == sample[:-1]).any():
                for part, numbers in places.items():
                    places[part] = np.full(samples, _MISSING[part], numbers.dtype)
                    places[part][sample] = numbers
            column.samples += samples
            pieces |= {f"{number} {part}": numbers for part, numbers in places.items()}
        return pieces

    def _fill(self, number: int) -> None:
        """Add to a field what stands for the samples that lack it since the last one that has it."""
        column = self._columns[number]
        lacking, column.samples = self._samples - column.samples, self._samples
        for first in range(0, lacking, _STEP):
            count = min(_STEP, lacking - first)
            if column.field.sequence:
                self._arrays.append(f"{number} starts", np.full(count, column.elements, np.int64))
                continue
            for part in self._parts:
                self._arrays.append(f"{number} {part}", np.full(count, _MISSING[part]))


def _joined(groups: Groups) -> Groups:
    """Join groups of the same key that share no extension: a sample whose members are not adjacent."""
    text, ends = groups.text.tobytes(), groups.ends.tolist()
    keys = [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    numbers = {key: number for number, key in reversed(list(enumerate(keys)))}
    if len(numbers) == len(keys):
        return groups
    first = np.array([numbers[key] for key in keys], np.int64)  # the first group of the same key
    pairs = np.stack([first[groups.sample], groups.extension], 1)
    unique, counts = np.unique(pairs, axis=0, return_counts=True)
    shared = np.isin(first, unique[counts > 1, 0])
    numbers_of_groups = np.arange(len(first))
    target = np.where(shared, numbers_of_groups, first)
    first_groups = np.flatnonzero(target == numbers_of_groups)
    sample = np.searchsorted(first_groups, target)[groups.sample]
    order = np.argsort(sample, kind="stable")
    joined_keys, offsets = joined([keys[number] for number in first_groups.tolist()])
    places = groups.member[order], sample[order], groups.extension[order]
    return Groups(*places, joined_keys, offsets[1:])


def kind_of_nameless(name: str) -> str:
    """Return how a report calls a file that belongs to no sample: `no extension`."""
    name = name.rpartition("/")[2]
    if name.startswith("."):
        return "hidden"
    return "reserved name" if "." in name else "no extension"

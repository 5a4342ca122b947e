"""An index.json that describes all shards of a folder: it is parsed once for all of them.

The samples of MDS and LitData, which have one, begin with the sizes of their values, after a table of
offsets. All numbers are u32 and little-endian. The table is the number of samples, where each
begins, and where the last one ends.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from msgspec import Struct

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64, offsets_of
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, parse_spec
from bushel.storage import (
    AnyPath,
    ExtentError,
    Extents,
    File,
    as_path,
    below,
    gather,
    names_in,
    open_file,
)

from .base import Container
from .plain_table import PlainField, table_of

INDEX = "index.json"
AS_BYTES = "spec={%r: 'bytes'} reads its stored bytes"

_MOST_FOLDERS = 32

T = TypeVar("T")
_Parse = Callable[[bytes, str], T]
Places: TypeAlias = Iterable[tuple[I64, I64]]


class ListedField(NamedTuple):
    """A field of a shard, and how its values are stored."""

    field: Field
    stored: str | None = None  # the codec of the stored bytes, if it differs
    skip: int | None = None  # for a list, the bytes of a value before the number of its elements


class IndexFormat(Struct, Generic[T], frozen=True):
    """One of the formats whose file is named index.json.

    Attributes:
        name: What its files are, for messages, such as `an index of MDS`.
        kind: The struct of its contents.
        keys: Names that every file of it has at the top.
        own: Finds names by which a damaged file is one of this format.
        hint: The advice of errors.
    """

    name: str
    kind: type[T]
    keys: frozenset[str]
    own: re.Pattern[bytes]
    hint: str

    def parse(self, data: bytes, path: str) -> T | None:
        """Return the contents of a file; None if it is of another format.

        Raises:
            FormatError: It is damaged.
        """
        is_own = False
        try:
            is_own = self.keys <= msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
            return msgspec.json.decode(data, type=self.kind) if is_own else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if is_own or self.own.search(data):
                raise self.damaged(error, path) from error
            return None

    def damaged(self, error: Exception, path: str) -> FormatError:
        """Return the error of a damaged file."""
        return FormatError(f"not {self.name}: {error}", path, hint=self.hint)


def load_index(folder: AnyPath, parse: _Parse[T], name: str = INDEX) -> T:
    """Return the contents of an index.json, or of another file of JSON that describes all shards of a folder.

    Args:
        folder: The folder that it is in.
        parse: Maps its bytes and its path to the result, which is kept until the file changes.
        name: The name of the file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    file = open_file(below(folder, name))
    if not file.mtime_ns:  # the file may have changed unnoticed
        return parse(file.read(0, file.size), file.path)
    contents: T = _parsed(parse, file.path, file.size, file.mtime_ns)
    return contents


@lru_cache(maxsize=8)
def _parsed(parse: _Parse[Any], path: str, size: int, mtime_ns: int) -> Any:
    return parse(open_file(as_path(path)).read(0, size), path)


class ListedContainer(Container, Generic[T]):
    """A container whose shards an index.json lists.

    Attributes:
        word: What its own tool calls a shard.
        hint: The advice of errors.
    """

    word: str
    hint: str

    @abstractmethod
    def parsed(self, data: bytes, path: str) -> T | None:
        """Return the contents of an index.json, given its bytes and its path; None if it is of another format."""

    @abstractmethod
    def files_in(self, contents: T) -> Mapping[str, str | None]:
        """Return the files of the shards, each with the one that may replace it, or None."""

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shards that the index.json of a folder lists; the file itself stands for its folder."""
        folder = path.parent if path.name == INDEX else path
        if folder.is_dir() and (folder / INDEX).exists():
            return self.listed(folder)
        return None

    def listed(self, folder: AnyPath) -> list[Shard] | None:
        """Return the shards that the index.json of a folder lists; None if it belongs to another format.

        Raises:
            FormatError: It is damaged, lists a shard of another format, or a shard is missing.
        """
        contents = load_index(folder, self.parsed)
        if contents is None:
            return None
        listing, shards = Listing(folder), []
        for name, other in self.files_in(contents).items():
            file = name if listing.has(name) else other
            if file is None or not listing.has(file):
                raise FormatError(
                    f"it lists the {self.word} {name!r}, which does not exist",
                    folder / INDEX,
                    hint=self.hint,
                )
            shards.append(Shard(folder, name, (file, INDEX)))
        return shards

    def contents_of(self, shard: Shard) -> T:
        """Return the contents of the index.json that lists a shard. Raise FormatError if it does not any more."""
        contents = load_index(shard.root, self.parsed)
        if contents is None or shard.name not in self.files_in(contents):
            raise FormatError(
                f"it does not list the {self.word} {shard.name!r} any more",
                shard.path(1),
                hint=self.hint,
            )
        return contents

    @contextmanager
    def expanding(self, shard: Shard) -> Iterator[None]:
        """Let data that cannot be expanded be an error of the file of a shard."""
        try:
            yield
        except ExtentError as error:
            raise FormatError(
                f"the compressed data are damaged: {error}", str(shard.path(0)), hint=self.hint
            ) from error

    def table(
        self, shard: Shard, samples: int, file: File, columns: Iterable[ListedField], places: Places
    ) -> ShardIndex:
        """Return the table of a shard.

        Args:
            shard: The shard.
            samples: Its number of samples.
            file: Its file, or the block file that it expands to.
            columns: The fields.
            places: Offset and length of the values of each: see `values_of`.
        """
        from bushel.storage import BlockFile  # which the lists beside archives do not need

        blocks = (file.blocks,) if isinstance(file, BlockFile) else ()
        number, fields = len(shard.files) if blocks else 0, {}
        for (field, stored, skip), (offset, length) in zip(columns, places, strict=True):
            starts = None
            if skip is not None:
                starts, offset, length = elements_of(file, offset, length, skip, field.name)
            fields[field.name] = PlainField(
                field.type, offset, length, starts, file=number, codec=stored
            )
        return table_of(self.name, shard, samples, fields, blocks=blocks)


def described_field(what: str, name: str, codec: str, file: File) -> Field:
    """Return the field of a column or leaf (`what`) with this codec, or raise a `FormatError`."""
    try:
        field = parse_spec({name: codec})[name]
        get_codec(field.codec)
    except SpecError as error:
        raise FormatError(
            f"{what} {name!r} cannot be a field: {error}", file.path, hint=AS_BYTES % name
        ) from error
    return field


class Listing:
    """The names of the files in a folder and its sub-folders. Each is listed once, when it is needed."""

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._known: dict[str, frozenset[str]] = {"": frozenset(names_in(folder))}

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder of this path, which is relative to the folder, with `/`."""
        above, _, base_name = name.rpartition("/")
        if above not in self._known:
            names: list[str] = []
            if name.count("/") <= _MOST_FOLDERS and self.has(above):
                path = below(self._folder, above)
                names = names_in(path) if path.is_dir() else []
            self._known[above] = frozenset(names)
        return base_name in self._known[above]


_HINT = "the file is damaged or does not belong to its index.json: fetch or write both again"


def offset_table(file: File, count: int) -> I64:
    """Return where each sample of a file begins, and where the last one ends: int64[count + 1].

    Raises:
        FormatError: The table contradicts `count` or the size of the file.
    """
    head = 4 * (count + 2)
    stored_count = int.from_bytes(file.read(0, min(file.size, 4)), "little")
    if stored_count != count or file.size < head:
        message = (
            f"a file of {count} samples begins with their number and {head - 4} bytes of offsets, "
        )
        raise _damage(file, message + f"found {stored_count} in {file.size} bytes", 0)
    ends = np.frombuffer(file.read(4, head - 4), "<u4").astype(np.int64)
    check_ends(file, ends, head, 4)
    return ends


def check_ends(file: File, ends: I64, first: int, at: int) -> None:
    """Refuse offsets of samples that are not in order, or not inside the file.

    Args:
        file: The file.
        ends: int64[samples + 1], where each sample begins, and where the last one ends.
        first: Where the first sample begins at the earliest.
        at: Where the offsets are, for messages.

    Raises:
        FormatError: They are not in order, or not inside the file.
    """
    bad = (ends[1:] < ends[:-1]) | (ends[1:] > file.size)
    if ends[0] < first or bad.any():
        row = int(bad.argmax()) if bad.any() else 0
        raise _damage(
            file,
            f"sample {row} is said to be at {ends[row]} to {ends[row + 1 : row + 2]}",
            at + 4 * row,
        )


def values_of(file: File, ends: I64, sizes: Sequence[int | None]) -> Iterator[tuple[I64, I64]]:
    """Yield offset and length of the values of each field: two int64[samples].

    Args:
        file: The file.
        ends: int64[samples + 1], where each sample begins, and where the last one ends.
        sizes: Size of each field's values, None if each sample begins with it.

    Raises:
        FormatError: A sample does not have as many bytes as its values.
    """
    begin, span = ends[:-1], np.diff(ends)
    variable = [number for number, size in enumerate(sizes) if size is None]
    head = 4 * len(variable)
    least = head + sum(size or 0 for size in sizes)
    short = span < least  # before a table of as many fields is made
    if short.any():
        row = int(short.argmax())
        raise _damage(
            file,
            f"sample {row} has {span[row]} bytes, but its fields need at least {least}",
            int(begin[row]),
        )
    lengths = np.zeros((len(sizes), len(begin)), np.int64)
    for number, size in enumerate(sizes):
        lengths[number] = size or 0
    if variable:
        data, _ = gather([file], Extents(0, begin, np.full(len(begin), head, np.int64)))
        lengths[variable] = data.view("<u4").reshape(-1, len(variable)).T
    wrong = lengths.sum(axis=0) != span - head
    if wrong.any():
        row = int(wrong.argmax())
        raise _damage(
            file,
            f"sample {row}: its fields have {lengths[:, row].sum()} "
            f"bytes, expected {span[row] - head}",
            int(begin[row]),
        )
    at = begin + head
    for number in range(len(sizes)):
        yield at.copy(), lengths[number]
        at += lengths[number]


def _damage(file: File, message: str, offset: int) -> FormatError:
    return FormatError(message, file.path, offset, _HINT)


def elements_of(file: File, offset: I64, length: I64, skip: int, name: str) -> tuple[I64, I64, I64]:
    """Return how many elements are before each list, and offset and length of the elements.

    A list is their number and their sizes, both u32, and then the elements.

    Args:
        file: The file.
        offset: int64[samples], where each value begins.
        length: int64[samples], bytes of each value.
        skip: Bytes of a value before the number of elements.
        name: The field, for messages.

    Raises:
        FormatError: A list is longer than its value.
    """
    head = skip + 4
    short = length < head
    counts = np.zeros(len(offset), np.int64)
    if not short.any():
        data, _ = gather([file], Extents(0, offset + skip, np.full(len(offset), 4, np.int64)))
        counts = data.view("<u4").astype(np.int64)
    wrong = short | (counts > (length - head) // 4)
    if not wrong.any():
        data, _ = gather([file], Extents(0, offset + head, 4 * counts))
        sizes = data.view("<u4").astype(np.int64)
        starts = offsets_of(counts)
        before = offsets_of(sizes)
        bytes_before = before[starts]
        wrong = np.diff(bytes_before) != length - head - 4 * counts
        if not wrong.any():
            first = offset + head + 4 * counts
            return starts, np.repeat(first - bytes_before[:-1], counts) + before[:-1], sizes
    row = int(wrong.argmax())
    raise FormatError(
        f"field {name!r}, sample {row}: its {counts[row]} "
        f"elements do not fit its {length[row]} bytes",
        file.path,
        int(offset[row]),
        _HINT,
    )

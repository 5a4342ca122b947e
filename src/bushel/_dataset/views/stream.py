"""`StreamDataset` and `bushel.open_stream`: archives that can only be read from front to back."""

from __future__ import annotations

import copy
import io
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn, cast

from bushel._dataset.open.caller_fields import checked_spec, warn_withheld
from bushel._dataset.open.sources import expand_paths
from bushel._dataset.open.tables import table_to_read
from bushel._dataset.read.shards import OpenShard
from bushel._index.shard import Shard, may_lack_samples
from bushel._recognise.names import junk_kind
from bushel._runtime.messages import few
from bushel._runtime.progress import user_call
from bushel._runtime.public import command, public
from bushel.codecs import get_codec, holds_image
from bushel.containers.base import ReadOptions
from bushel.containers.tar.members import ForwardReader, Member, members
from bushel.containers.tar.names import Naming, Place, field_name, split_name
from bushel.containers.tar.scan import fields_and_names
from bushel.errors import CodecError, FormatError, UnsupportedError
from bushel.spec import KEY, Spec, format_spec, parse_spec
from bushel.storage import AnyLocation, AnyPath, absolute, expand_braces, real_file
from bushel.storage.forward import Readable, decompressed, output_of

_PIPE = "pipe:"
_STDIN = "-"
# largest number of bytes of one sample; a larger size is damaged, or does not fit into memory
_MOST_BYTES = 16 << 30


class ForwardOnly(UnsupportedError, TypeError):
    """A stream was used like a dataset with random access.

    It is also a `TypeError`, because `list(stream)` asks for the length first and ignores only that
    error.
    """


class _Handle:
    """A file object that the caller opened. It can be read once."""

    __slots__ = ("handle", "read_already")

    def __init__(self, handle: Readable) -> None:
        self.handle, self.read_already = handle, False

    def __str__(self) -> str:
        return str(getattr(self.handle, "name", "<stream>"))


_Source = str | AnyPath | _Handle


_INSTEAD = {
    "bushel.StreamLoader(stream, batch_size, buffer=1000)": "shuffle batch batched",
    "bushel.StreamLoader(stream, batch_size, sample_transform=function)": "map map_dict",
    "for sample in stream, which decodes the values": "decode to_tuple samples",
    "itertools.islice(stream, n)": "take slice skip select",
}
"""What to write instead of methods that streams of other libraries have."""


@public("bushel.datasets", _INSTEAD)
class StreamDataset:
    """Samples of WebDataset archives, read once from front to back. `bushel.open_stream` makes it.

    Iterating gives decoded samples, dicts with `__key__`, in the order of the sources; one sample
    is in memory at a time. Every `for` starts again from the first source.

    Examples:
        >>> stream = bushel.open_stream("train/*.tar", fields=["label"])
        >>> [sample["label"] for sample in stream][:3]
        [0, 0, 0]
    """

    def __init__(
        self,
        sources: Iterable[_Source],
        declared: Spec,
        wanted: frozenset[str] | None,
        *,
        decode: bool,
    ) -> None:
        self._sources, self._declared = list(sources), declared
        self._wanted, self._decode = wanted, decode
        # the types of fields that are declared or were seen so far, and the codecs of stored bytes
        self._fields = {name: field for name, field in declared.items() if self._wants(name)}
        self._codecs: dict[str, str] = {}

    def _names(self, spec: Spec) -> tuple[Naming, list[str]]:
        """Return how the members of an archive are named, and the sequence fields that are read of it."""
        sequences = [name for name, field in spec.items() if field.sequence and self._wants(name)]
        return Naming(spec), sequences

    def _wants(self, name: str) -> bool:
        return self._wanted is None or name in self._wanted

    def __repr__(self) -> str:
        return f"<bushel.datasets.StreamDataset: {few(list(map(str, self._sources)))}>"

    def __bool__(self) -> bool:
        return True

    @property
    def spec(self) -> dict[str, str]:
        """Names and types of the fields known so far: the fields of the given spec, and of the samples read so far."""
        return format_spec(self._fields)

    def stored(self) -> StreamDataset:
        """Return the same stream with stored bytes as values.

        Examples:
            >>> stream = bushel.open_stream("train/*.tar")
            >>> next(iter(stream.stored()))["label"]
            b'0'
        """
        same = copy.copy(self)
        same._decode = False
        return same

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources, in order."""
        return tuple(map(str, self._sources))

    def part(self, numbers: Iterable[int]) -> StreamDataset:
        """Return a stream of some of the sources, by their numbers and in that order.

        Examples:
            >>> stream = bushel.open_stream("train/*.tar")
            >>> len(stream.sources), len(stream.part([0]).sources)
            (1, 1)
        """
        same = copy.copy(self)
        same._sources = [self._sources[number] for number in numbers]
        return same

    def decode_sample(
        self, stored: dict[str, Any], encoded: Collection[str] = ()
    ) -> dict[str, Any]:
        """Decode a sample of the stream that `stored()` returned.

        Args:
            stored: The sample.
            encoded: Image fields whose stored bytes are kept.

        Raises:
            CodecError: Stored bytes do not decode. The error names the field.
        """
        decoded: dict[str, Any] = {}
        for name, value in stored.items():
            if name == KEY or (
                name in encoded and name in self._codecs and holds_image(self._codecs[name])
            ):
                decoded[name] = value
                continue
            decode = get_codec(self._codecs[name]).decode
            try:
                several = isinstance(value, list)
                decoded[name] = list(map(decode, value)) if several else decode(value)
            except CodecError as error:
                raise CodecError(
                    f"field {name!r}: {error}", **{**error.details, "field": name}
                ) from error
        return decoded

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Read all sources.

        Raises:
            FormatError: An archive is damaged or truncated, or a command failed. The samples before
                that were complete.
            CodecError: Stored bytes do not decode.
        """
        for source in self._sources:
            removed = _removed_of(source)
            with _open(source) as (handle, name):
                yield from self._samples(ForwardReader(decompressed(handle, name), name), removed)

    def _samples(self, reader: ForwardReader, removed: frozenset[int]) -> Iterator[dict[str, Any]]:
        sample: _Sample | None = None
        number = 0
        naming, sequences = self._names(self._declared)

        def describe(comment: bytes) -> None:
            nonlocal naming, sequences
            spec = fields_and_names(comment, self._declared, reader.name)[0] or {}
            warn_withheld(
                (field for field in spec.values() if self._wants(field.name)), reader.name
            )
            naming, sequences = self._names(spec)

        for member in members(reader, describe):
            data = member.regular and junk_kind(member.name) is None
            split = None
            if data:
                split = split_name(member.name.encode("utf-8", "surrogateescape"))
            if split is None:
                continue
            if sample is None or split[0] != sample.key:
                if sample is not None:
                    if number not in removed:
                        yield self._finished(sample, sequences)
                    number += 1
                sample = _Sample(split[0], reader.name)
            place = naming(field_name(split[1]))
            sample.claim(place, member)
            if self._wants(place.field.name):
                self._fields.setdefault(place.field.name, place.field)
                self._codecs.setdefault(place.field.name, place.codec)
                sample.read(place, member, reader)
        if sample is not None and number not in removed:
            yield self._finished(sample, sequences)

    def _finished(self, sample: _Sample, sequences: Iterable[str]) -> dict[str, Any]:
        values: dict[str, Any] = {KEY: sample.key.decode("utf-8", "surrogateescape")}
        values |= {name: [] for name in sequences}
        for place, member, data in sorted(sample.parts, key=lambda part: part[0].number or 0):
            value = self._decoded(sample, place, member, data) if self._decode else data
            if place.number is None:
                values[place.field.name] = value
            else:
                values[place.field.name].append(value)
        return values

    def _decoded(self, sample: _Sample, place: Place, member: Member, data: bytes) -> Any:
        try:
            return get_codec(place.codec).decode(data)
        except CodecError as error:
            at = {"field": place.field.name, "file": sample.file, "offset": member.offset}
            raise CodecError(
                f"{member.name!r} ({sample.file}@{member.offset}): {error}",
                **{**error.details, **at},
            ) from error

    # Unsupported operations

    def __len__(self) -> int:
        self._refuse("has no length")

    def __getitem__(self, what: object) -> Any:
        self._refuse("cannot be indexed")

    def __contains__(self, key: object) -> bool:
        self._refuse("does not know its keys")

    def read(self, positions: object, fields: object = None, *, decode: bool = True) -> NoReturn:
        """Raise an error: a stream has no positions.

        Raises:
            UnsupportedError: Always.
        """
        self._refuse("cannot be read at random")

    def _refuse(self, what: str) -> NoReturn:
        first = self._sources[0] if self._sources else _STDIN
        if isinstance(first, str | _Handle):
            instead = "write it into a file and open that for random access"
        else:
            convert = command("convert", first, "out/", "--container", "tar")
            instead = f"run {convert} and open the result for random access"
            if str(first).endswith("gz"):
                instead = (
                    f"run `gunzip {shlex.quote(str(first))}` and open the result, or {instead}"
                )
        raise ForwardOnly(
            f"{first} is a stream, which {what} and is read from front to back: {instead}"
        )


class _Sample:
    """A sample whose members are being read."""

    __slots__ = ("_bytes", "_taken", "file", "key", "parts")

    def __init__(self, key: bytes, file: str) -> None:
        self.key, self.file = key, file
        self.parts: list[tuple[Place, Member, bytes]] = []
        self._taken: set[tuple[str, int | None]] = set()
        self._bytes = 0

    def claim(self, place: Place, member: Member) -> None:
        """Record that the sample has this field, or this element of it."""
        slot = place.field.name, place.number
        if slot in self._taken or place.field.name == KEY:
            message = (
                f"{member.name!r}: its sample already has a "
                f"member for the field {place.field.name!r}"
            )
            raise FormatError(message, self.file, member.header)
        self._taken.add(slot)

    def read(self, place: Place, member: Member, reader: ForwardReader) -> None:
        """Read the data of a member."""
        self._bytes += member.size
        if self._bytes > _MOST_BYTES:
            message = (
                f"with {member.name!r} a sample has {self._bytes} "
                f"bytes; at most {_MOST_BYTES} are allowed"
            )
            raise FormatError(message, self.file, member.header)
        data = reader.read(member.size)
        if len(data) < member.size:
            message = f"the archive ends inside the {member.size} bytes of {member.name!r}"
            raise FormatError(message, self.file, member.header)
        self.parts.append((place, member, data))


def _names_of(fields: Iterable[str]) -> frozenset[str]:
    """Return the names of the fields to read. Raise TypeError if these are not names, or they select elements."""
    if isinstance(fields, Mapping):
        for name, chosen in fields.items():
            if not isinstance(chosen, bool):
                raise TypeError(
                    f"fields={{{name!r}: {chosen!r}}}: a stream gives whole values, and has no "
                    "index by which to read elements of them. Run `bushel index`, or "
                    "`bushel convert` if the files are compressed, and use bushel.open and a Loader"
                )
        fields = [name for name, chosen in fields.items() if chosen]
    if isinstance(fields, str):
        raise TypeError(f"fields={fields!r}: give names as a list, such as [{fields!r}]")
    return frozenset(fields)


def _sources(sources: object, *, allow_commands: bool) -> Iterator[_Source]:
    if isinstance(sources, list | tuple):
        for source in sources:
            yield from _sources(source, allow_commands=allow_commands)
    elif isinstance(sources, str) and sources.startswith(_PIPE):
        if not allow_commands:
            raise UnsupportedError(
                f"{sources!r} would run a command: pass allow_commands=True "
                "if you trust where this name comes from"
            )
        yield from expand_braces(sources, only_ranges=True)
    elif sources == _STDIN:
        yield _STDIN
    elif isinstance(sources, io.TextIOBase):
        raise TypeError("an archive needs a binary file object, such as sys.stdin.buffer, not text")
    elif hasattr(sources, "read") and not hasattr(sources, "open"):
        yield _Handle(cast("Readable", sources))
    else:
        for path in expand_paths(sources):
            if isinstance(path, Path) and path.is_dir():
                raise UnsupportedError(
                    f"{path} is a folder, and a stream consists of archives: "
                    f"bushel.open({str(path)!r}) reads a dataset, and "
                    f"bushel.open_stream({str(path / '*.tar')!r}) archives from front to back"
                )
            yield absolute(path)


def check_again(stream: StreamDataset, so: str) -> None:
    """Check that all sources can be read more than once.

    Args:
        stream: The stream.
        so: What cannot be done otherwise.

    Raises:
        UnsupportedError: One is standard input or an open file.
    """
    for source in stream._sources:
        if isinstance(source, _Handle) or source == _STDIN:
            raise UnsupportedError(f"{source} can be read only once, so {so}")


def _removed_of(source: _Source) -> frozenset[int]:
    """Return the numbers of the removed samples of an archive. For commands and open files they are not known."""
    if not isinstance(source, Path):
        return frozenset()
    shard = Shard(source.parent, source.name, (source.name,), alias=real_file(source))
    if not may_lack_samples([shard]):
        return frozenset()
    from bushel._dataset.read.remaining import remaining_in

    container = "tar"  # the only one that is read as a stream
    table = table_to_read(container, shard, ReadOptions(), "memory")
    remaining = remaining_in([OpenShard.of(container, shard, table.index, stored=table.stored)])
    if remaining is None:
        return frozenset()
    return frozenset(remaining.removed.tolist())


@contextmanager
def _open(source: _Source) -> Iterator[tuple[Readable, str]]:
    if isinstance(source, _Handle):
        if source.read_already:
            raise UnsupportedError(
                f"{source} was read already; a file object can be read only once"
            )
        source.read_already = True
        yield source.handle, str(source)
    elif isinstance(source, str) and source.startswith(_PIPE):
        with output_of(source.removeprefix(_PIPE)) as output:
            yield output, source
    elif isinstance(source, str):
        yield sys.stdin.buffer, "standard input"
    else:
        with source.open("rb") as handle:
            yield handle, str(source)


@public()
@user_call()
def open_stream(
    source: AnyLocation | IO[bytes] | Sequence[AnyLocation | IO[bytes]],
    *,
    spec: Mapping[str, str] | None = None,
    fields: Iterable[str] | None = None,
    decode: bool = True,
    allow_commands: bool = False,
) -> StreamDataset:
    """Open WebDataset archives to read them once, from front to back.

    Args:
        source: A tar file, compressed or not; a glob, a brace pattern or a URL of such files;
            `pipe:COMMAND`, which the shell runs, with `{000..146}` expanded; `-` for standard
            input; a binary file object; or a list of these. Gzip, bzip2 and xz are recognised by
            the first bytes, not by the name.
        spec: Types of fields whose extension does not imply one, and names of sequence fields.
        fields: The fields to read; others are skipped. Default: all.
        decode: Whether to decode values, or to give the stored bytes.
        allow_commands: Whether `pipe:` may run commands.

    Raises:
        FileNotFoundError: A file does not exist.
        SpecError: `spec` is malformed, or a type in it is unknown.
        UnsupportedError: `source` is a command, and `allow_commands` is false.

    Examples:
        >>> stream = bushel.open_stream("train/*.tar")
        >>> next(iter(stream))["__key__"]
        'cat/0'
    """
    checked_spec(spec)
    return StreamDataset(
        _sources(source, allow_commands=allow_commands),
        parse_spec(spec or {}),
        None if fields is None else _names_of(fields),
        decode=decode,
    )

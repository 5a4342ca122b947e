"""Parsing the `.gmeta` table of a gulp chunk, and the fields in its meta dicts. Pure: no I/O.

It is one JSON object of `id: {"frame_info": [[offset, pad, length], ...], "meta_data": [{...}]}`.
`length` counts the padding. Readers use the first dict of `meta_data`. GulpIO2 can also pickle the
same mapping.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.table import MISSING, FieldExtents
from bushel._runtime.arrays import I64, offsets_of
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _Item(msgspec.Struct, gc=False):
    """An entry whose metadata stay text, since the index stores the position of that text."""

    frame_info: list[tuple[_Count, _Count, _Count]]
    meta_data: list[msgspec.Raw]


class _LooseItem(msgspec.Struct):
    """An entry whose metadata are not JSON text in the file."""

    frame_info: list[tuple[_Count, _Count, _Count]]
    meta_data: list[Any]


_DECODER = msgspec.json.Decoder(dict[str, _Item])
_ENTRY = msgspec.json.Decoder(_Item)
_RAW_ENTRIES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_SCANNER = json.JSONDecoder()
_HEAD = re.compile(
    rb'(?:\A.?\s*|\}[^"]{0,3})("(?:[^"\\]|\\.)*")\s*:\s*(?=\{\s*"(?:frame_info|meta_data)"\s*:)',
    re.DOTALL,
)
"""The id of an entry, after the end of the one before it."""
msgspec.json.Decoder(_LooseItem)  # registers the type before threads convert to it: see `sidecar`


class Gmeta(Struct, frozen=True):
    """A parsed table."""

    # id to entry, in the order of the file; the numbers in `frame_info` are at most 2**62
    items: Mapping[str, _Item | _LooseItem]
    frames: I64  # int64[frames, 3], offset, padding and length of each frame
    starts: I64  # int64[items + 1], number of frames before each item
    # int64[items], offset of the first meta dict's JSON: in `inline` if that is set, else in the
    # file
    offset: I64
    # int64[items], its size in bytes; `MISSING` for an item without metadata
    length: I64
    # the JSON of metadata that was pickled, or that strict parsers refuse as the file spells it
    inline: bytes | None = None

    @classmethod
    def of(
        cls,
        items: Mapping[str, _Item | _LooseItem],
        offset: I64,
        length: I64,
        inline: bytes | None = None,
    ) -> Gmeta:
        """Return a table with the frames of these items."""
        frames_of_items = [item.frame_info for item in items.values()]
        starts = offsets_of(map(len, frames_of_items))
        numbers = chain.from_iterable(chain.from_iterable(frames_of_items))
        frames = np.fromiter(numbers, np.int64, 3 * int(starts[-1])).reshape(-1, 3)
        return cls(items, frames, starts, offset, length, inline)


def parse_gmeta(text: bytes, path: str, *, unpickle: bool = False) -> Gmeta:
    """Parse a table. If an id appears twice, its last entry counts, as in the original.

    Args:
        text: The whole file.
        path: Name for error messages.
        unpickle: Whether the table may be a pickle.

    Raises:
        FormatError: The text is not the table of a gulp chunk, or it is a pickle and `unpickle` is
            False.
    """
    if text[:1] == b"\x80":
        if not unpickle:
            raise FormatError(
                "pickled metadata is read only on request",
                path,
                hint="open it with pickle=True",
            )
        return _inline(_unpickle(text, path), path)
    try:
        items = _DECODER.decode(text)
    except msgspec.ValidationError as error:
        raise FormatError(
            f"not the metadata of a gulp chunk: {error}", path, hint=hint(path)
        ) from error
    except (ValueError, RecursionError):
        # GulpIO2 may have written NaN or lone surrogates, which strict JSON forbids
        return _inline(_lenient(text, path), path)
    return _located(text, items)


def parse_entries(text: bytes, path: str, fault: Callable[[FormatError], None]) -> Gmeta:
    """Parse the valid entries of a damaged table.

    Args:
        text: The whole file, which is not a pickle.
        path: Name for error messages.
        fault: Called with an error for everything that is not a valid entry.
    """
    items: dict[str, _Item] = {}
    for key, start, end in _entries(text, path, fault):
        try:
            items[key] = _ENTRY.decode(memoryview(text)[start:end])
        except ValueError as error:
            fault(FormatError(f"item {key!r} is lost: {error}", path, start))
    return _located(text, items)


def _entries(
    text: bytes, path: str, fault: Callable[[FormatError], None]
) -> Iterator[tuple[str, int, int]]:
    """Yield the id of each entry and where its value starts and ends. After invalid JSON, look for the next entry."""
    with suppress(ValueError, RecursionError):
        base = _address(text)
        for key, raw in _RAW_ENTRIES.decode(text).items():
            start = _address(raw) - base
            yield key, start, start + len(memoryview(raw))
        return
    characters = text.decode("latin-1")  # one for each byte
    at = 0
    while (head := _HEAD.search(text, max(at - 1, 0))) is not None:
        start = head.end()
        try:
            key, (_, at) = json.loads(head[1]), _SCANNER.raw_decode(characters, start)
        except (ValueError, RecursionError) as error:
            fault(
                FormatError(
                    f"invalid JSON in the entry {head[1][:60].decode('utf-8', 'replace')}: {error}",
                    path,
                    start,
                )
            )
            at = start
        else:
            yield key, start, at


def _located(text: bytes, items: Mapping[str, _Item]) -> Gmeta:
    """Return a table whose metadata are views of its text."""
    base = _address(text)
    offset, length = np.zeros(len(items), np.int64), np.full(len(items), MISSING, np.int64)
    for number, item in enumerate(items.values()):
        if item.meta_data:
            raw = np.frombuffer(cast("Any", item.meta_data[0]), np.uint8)
            offset[number], length[number] = _address(raw) - base, len(raw)
    return Gmeta.of(items, offset, length)


def _address(buffer: Any) -> int:
    """Return the address of a buffer. A `Raw` is a view of the parsed text, so its address gives its offset."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


def _lenient(text: bytes, path: str) -> object:
    """Parse as Python's `json` does."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("invalid JSON: it is not UTF-8", path, error.start, hint(path)) from error
    try:
        return json.loads(decoded)
    except json.JSONDecodeError as error:
        at = len(decoded[: error.pos].encode())
        raise FormatError(f"invalid JSON: {error.msg}", path, at, hint(path)) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"invalid JSON: {error}", path, hint=hint(path)) from error


def _inline(loose: object, path: str) -> Gmeta:
    """Return the table for metadata whose JSON the index itself must hold."""
    offset, length, inline = [], [], bytearray()
    try:
        items = msgspec.convert(loose, dict[str, _LooseItem])
        for item in items.values():
            text = b""
            if item.meta_data:
                text = json.dumps(item.meta_data[0]).encode("ascii")
            offset.append(len(inline))
            length.append(len(text) if item.meta_data else MISSING)
            inline += text
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(
            f"not the metadata of a gulp chunk: {error}", path, hint=hint(path)
        ) from error
    return Gmeta.of(items, np.array(offset, np.int64), np.array(length, np.int64), bytes(inline))


class _Frame(NamedTuple):
    """The tuple that GulpIO2 pickles as `gulpio2.fileio.ImgInfo`."""

    loc: int
    pad: int
    length: int


class _Unpickler(pickle.Unpickler):
    """Accepts only the classes that GulpIO2 pickles, so it runs no code of the file."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if name == "ImgInfo" and module in ("gulpio2.fileio", "gulpio.fileio"):
            return _Frame
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which JSON cannot represent")


def _unpickle(data: bytes, path: str) -> object:
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle can fail in any way
        raise FormatError(
            f"the pickled metadata cannot be read: {error}", path, hint=hint(path)
        ) from error


def hint(path: str) -> str:
    """Return the hint for errors about a damaged file."""
    return f"run `bushel verify` on {path.rpartition('/')[0] or '.'}"


_META = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def frames_field(spec: Spec) -> Field:
    """Return the one field of JPEG frames. Raise SpecError if the spec has no such field, or several."""
    frames = [field for field in spec.values() if field.base_codec in ("jpg", "jpeg")]
    if len(frames) != 1:
        names = ", ".join(repr(field.name) for field in frames) or "none"
        raise SpecError(
            "a gulp item has exactly one field of JPEG frames (jpg[], or jpg for images), "
            f"but this spec has {names}; use bag, tar, ffrecord or recordio for these samples, "
            "or bushel.sources.Frames (--frames) for videos"
        )
    return frames[0]


def meta_columns(
    parsed: Gmeta, text: bytes, file: int, fields: list[Field]
) -> dict[str, FieldExtents]:
    """Return the columns of fields that are in the meta dicts."""
    if [(field.type, field.name) for field in fields] == [("json", "meta")]:
        return {"meta": FieldExtents(fields[0], "json", file, parsed.offset, parsed.length)}
    from bushel._index.builders import FieldBuilder

    builders = {field.name: FieldBuilder(field, "json", file) for field in fields}
    whole = memoryview(text)
    base = _address(whole)
    for number, (start, length) in enumerate(
        zip(parsed.offset.tolist(), parsed.length.tolist(), strict=True)
    ):
        values = _values(whole[start : start + length]) if length > 0 else {}
        for name, builder in builders.items():
            if (raw := values.get(name)) is None:
                builder.mark_absent()
            elif builder.field.sequence:
                for element in _elements(raw, name, number):
                    builder.add(_address(element) - base, len(memoryview(element)), 0)
            else:
                builder.add(_address(raw) - base, len(memoryview(raw)), 0)
            builder.close_sample(number)
    return {name: replace(builder.build(), crc32=None) for name, builder in builders.items()}


def _elements(raw: msgspec.Raw, name: str, number: int) -> list[msgspec.Raw]:
    try:
        return _LIST.decode(raw)
    except msgspec.MsgspecError as error:
        raise SpecError(
            f"field {name!r} is not a list in item {number}: declare its type without []"
        ) from error


def _values(meta: memoryview) -> Mapping[str, msgspec.Raw]:
    try:
        return _META.decode(meta)
    except msgspec.MsgspecError:  # metadata may be any JSON, but only a dict has fields
        return {}

"""The `.gmeta` table of a gulp chunk: text to numbers, without I/O.

It is one JSON object of `id: {"frame_info": [[offset, pad, length], ...], "meta_data": [{...}]}`. `length` counts the
padding, and of `meta_data` readers take the first dict. GulpIO2 can also pickle the same mapping.
"""

from __future__ import annotations

import io
import json
import pickle
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, cast

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.core.index.table import MISSING
from bushel.errors import FormatError

__all__ = ["Gmeta", "parse_gmeta"]

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _Item(msgspec.Struct, gc=False):
    """An entry, its metadata still text: where the text lies is what the index needs."""

    frame_info: list[tuple[_Count, _Count, _Count]]
    meta_data: list[msgspec.Raw]


class _LooseItem(msgspec.Struct):
    """An entry whose metadata has no text of its own in the file."""

    frame_info: list[tuple[_Count, _Count, _Count]]
    meta_data: list[Any]


_DECODER = msgspec.json.Decoder(dict[str, _Item])
msgspec.json.Decoder(_LooseItem)  # so that msgspec knows it before threads convert to it: see `sidecar`


@dataclass(frozen=True, slots=True)
class Gmeta:
    """A parsed table.

    Attributes:
        items: Id to entry, in the order of the file. The numbers in `frame_info` are at most 2**62.
        offset: int64[items], where the first meta dict's JSON begins: in `inline` if there is one, else in the file.
        length: int64[items], its bytes; `MISSING` for an item without.
        inline: The JSON of metadata that was pickled, or that strict parsers refuse in the file's own spelling.
    """

    items: Mapping[str, _Item | _LooseItem]
    offset: npt.NDArray[np.int64]
    length: npt.NDArray[np.int64]
    inline: bytes | None = None


def parse_gmeta(text: bytes, path: str, *, unpickle: bool = False) -> Gmeta:
    """Parse a table. Of an id that appears twice the last entry counts, as in the original.

    Args:
        text: The whole file.
        path: Name for error messages.
        unpickle: Whether the table may be a pickle.

    Raises:
        FormatError: It is not the table of a gulp chunk, or a pickle without leave.
    """
    if text[:1] == b"\x80":
        if not unpickle:
            raise FormatError("pickled metadata is read only on request", file=path, hint="open it with pickle=True")
        return _inline(_unpickle(text, path), path)
    try:
        items = _DECODER.decode(text)
    except msgspec.ValidationError as error:
        raise FormatError(f"not the metadata of a gulp chunk: {error}", file=path, hint=_hint(path)) from error
    except (ValueError, RecursionError):  # GulpIO2 may have written NaN or lone surrogates, which are not quite JSON
        return _inline(_lenient(text, path), path)
    base = _address(text)
    offset, length = np.zeros(len(items), np.int64), np.full(len(items), MISSING, np.int64)
    for number, item in enumerate(items.values()):
        if item.meta_data:
            raw = np.frombuffer(cast("Any", item.meta_data[0]), np.uint8)
            offset[number], length[number] = _address(raw) - base, len(raw)
    return Gmeta(items, offset, length)


def _address(buffer: bytes | npt.NDArray[np.uint8]) -> int:
    """Where a buffer lies: a `Raw` is a view of the text it was parsed from, so the difference is its place there."""
    return int(np.frombuffer(buffer, np.uint8).__array_interface__["data"][0])


def _lenient(text: bytes, path: str) -> object:
    """Parse as Python does."""
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("no JSON: it is not UTF-8", file=path, offset=error.start, hint=_hint(path)) from error
    try:
        return json.loads(decoded)
    except json.JSONDecodeError as error:
        at = len(decoded[: error.pos].encode())
        raise FormatError(f"no JSON: {error.msg}", file=path, offset=at, hint=_hint(path)) from error
    except (ValueError, RecursionError) as error:
        raise FormatError(f"no JSON: {error}", file=path, hint=_hint(path)) from error


def _inline(loose: object, path: str) -> Gmeta:
    """The table of metadata whose JSON the index itself must hold."""
    offset, length, inline = [], [], bytearray()
    try:
        items = msgspec.convert(loose, dict[str, _LooseItem])
        for item in items.values():
            text = json.dumps(item.meta_data[0]).encode("ascii") if item.meta_data else b""
            offset.append(len(inline))
            length.append(len(text) if item.meta_data else MISSING)
            inline += text
    except (ValueError, TypeError, RecursionError) as error:
        raise FormatError(f"not the metadata of a gulp chunk: {error}", file=path, hint=_hint(path)) from error
    return Gmeta(items, np.array(offset, np.int64), np.array(length, np.int64), bytes(inline))


class _Frame(NamedTuple):
    """What GulpIO2 pickles as `gulpio2.fileio.ImgInfo`."""

    loc: int
    pad: int
    length: int


class _Unpickler(pickle.Unpickler):
    """Knows the classes that GulpIO2 pickles and no others, so it runs nobody's code."""

    def find_class(self, module: str, name: str, /) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if name == "ImgInfo" and module in ("gulpio2.fileio", "gulpio.fileio"):
            return _Frame
        raise pickle.UnpicklingError(f"it wants {module}.{name}, which JSON cannot hold")


def _unpickle(data: bytes, path: str) -> object:
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a damaged pickle can fail in any way
        raise FormatError(f"its pickle cannot be read: {error}", file=path, hint=_hint(path)) from error


def _hint(path: str) -> str:
    return f"run `bushel verify` on {path.rpartition('/')[0] or '.'}"

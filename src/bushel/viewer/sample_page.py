"""The page of one sample: every field, the place of its bytes, and the check of their checksum."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bushel._kinds import PNG
from bushel._pictures.pixels import (
    array_facts,
    array_pixels,
    class_colours,
    is_index_mask,
    mask_classes,
)
from bushel._pictures.texts import plain_text
from bushel._pictures.thumbnail import arrays_in
from bushel._runtime.messages import count, size
from bushel.codecs import get_codec
from bushel.codecs.audio import sample_rate
from bushel.codecs.headers import clip_header
from bushel.codecs.image import ImageReading, decode_image
from bushel.errors import BushelError
from bushel.transforms.fused import image_size

from .kinds import Kind, ShownField
from .rows import Table, chat_of, line_of, table_of, tree_of
from .shelf import Shown
from .stored import Stored, elements_of, media_type, stored_values

_TEXT = 100_000  # number of characters of a text on the page
_HEX = 2048
_ELEMENTS = 120  # number of elements of a sequence on the page
_CHECKED = 64 << 20  # size in bytes up to which values are read to compare them with their checksum
_DECODED = 32 << 20  # size in bytes up to which values other than images are decoded
_KINDS_OF_MEDIA: Mapping[str, Kind] = {"image": "image", "video": "clip", "audio": "audio"}


@dataclass(slots=True)
class FieldView:
    """A field on the page."""

    field: ShownField
    there: bool = False  # whether the sample has it
    size: int = 0  # bytes of all its values
    # the values, and the results of comparing them with their checksums
    places: Sequence[tuple[Stored, str]] = ()
    # how it is shown: `image`, `images`, `video`, `audio`, `array`, `text`, `tree`, `line` or `hex`
    shape: str = ""
    content: Any = None  # the content, as the template expects it for that shape
    note: str = ""  # more about the value in a few words
    error: str = ""  # description of its error
    # the turns of a chat, each a role and a text
    chat: Sequence[tuple[str, str]] = ()
    table: Table | None = None  # the columns and rows of a list of mappings
    more: int = 0  # number of elements that are not shown
    # for a mask of class numbers, each class as its name, its colour such as `#1f77b4`, and its
    # share
    classes: Sequence[tuple[str, str, float]] = ()

    @property
    def states(self) -> Sequence[str]:
        """The results of checking its places, worst first."""
        states = {checked for _, checked in self.places}
        return [state for state in ("differs", "unknown", "skipped", "matches") if state in states]


def sample_fields(shown: Shown, position: int) -> list[FieldView]:
    """Return all fields of a sample, pictures first. An error in one of them is shown in its place.

    Raises:
        IndexError: The position is out of range.
    """
    shown.dataset.selection.at(position)  # raises if it is out of range
    fields = sorted(shown.fields, key=lambda field: not field.pictured)
    return [_field(shown, position, field) for field in fields]


def _field(shown: Shown, position: int, field: ShownField) -> FieldView:
    view = FieldView(field)
    try:
        values = stored_values(shown.dataset, position, field.name)
        if values is None:
            return view
        view.there, view.size = True, sum(value.size for value in values)
        view.more = max(0, len(values) - _ELEMENTS)
        read = [
            (value, value.read() if value.size <= _CHECKED else None)
            for value in values[:_ELEMENTS]
        ]
        view.places = [(value, value.check(data)) for value, data in read]
        if field.sequence:
            _show_sequence(shown, view, read)
        else:
            [(value, data)] = read
            _show(shown, view, position, value, data)
    except (BushelError, OSError, ValueError, LookupError, MemoryError, RecursionError) as error:
        view.error = plain_text(str(error) or type(error).__name__)
    return view


def _show_sequence(
    shown: Shown, view: FieldView, read: Sequence[tuple[Stored, bytes | None]]
) -> None:
    view.note = count(len(read) + view.more, "element")
    if view.field.kind in ("image", "array") and read:
        view.shape, view.content = "images", range(len(read))
        return
    lines = []
    for value, data in read:
        if data is None or value.size > _DECODED:
            lines.append(size(value.size))
        elif view.field.kind == "bytes":
            lines.append(data[:32].hex(" ") + (" …" if len(data) > 32 else ""))
        else:
            lines.append(line_of(shown, view.field.name, get_codec(value.codec).decode(data)))
    view.shape, view.content = "lines", lines


def _show(shown: Shown, view: FieldView, position: int, value: Stored, data: bytes | None) -> None:
    kind = view.field.kind
    if kind == "frame" or view.field.frames:
        view.shape = "drawn"
        return
    media = media_type(value.read(0, 16) if data is None else data[:16]) or ""
    family = media.partition("/")[0]
    if kind == "bytes":  # shown by what their first bytes say
        kind = _KINDS_OF_MEDIA.get(family, kind)
    if kind in ("clip", "audio"):
        view.shape = "audio" if "audio" in (kind, family) else "video"
        view.note = media or "unknown format"
        if kind == view.field.kind and data is not None:
            view.note += _rates(kind, value.codec, data)
        return
    if kind == "image":
        view.shape, view.note = "image", media
        if data is not None:
            width, height = image_size(data)
            view.content = width, height
            view.note = f"{width} × {height} pixels, {media or 'image'}"
            # a PNG of one channel of up to 8 bits may be a mask
            if data.startswith(PNG) and data[24:25] <= b"\x08" and data[25:26] == b"\0":
                view.classes = _classes(shown, view.field.name, data)
        # a browser shows no TIFF and PNM files, and masks of class numbers in black: pictures of
        # them are made here
        if not media or view.classes:
            view.shape = "drawn"
        return
    if data is None or value.size > _DECODED or kind == "bytes":
        view.shape, view.content = "hex", hex_lines(value.read(0, _HEX))
        view.more = max(0, value.size - _HEX)
        return
    decoded = get_codec(value.codec).decode(data)
    if kind == "array" and view.field.name in elements_of(shown.dataset, position):
        decoded = shown.dataset[position, [view.field.name]][view.field.name]
        view.note = "the elements of this window; the bytes below belong to the whole value"
    if isinstance(decoded, str):
        view.shape, view.content = "text", plain_text(decoded[:_TEXT])
        view.note = f"{len(decoded):,} characters"
        view.more = max(0, len(decoded) - _TEXT)
    elif isinstance(decoded, bytes | bytearray | memoryview):
        view.shape, view.content = "hex", hex_lines(bytes(decoded[:_HEX]))
    elif kind == "array" or isinstance(decoded, np.ndarray):
        view.shape, view.content = "arrays", _array_views(decoded)
    elif isinstance(decoded, Mapping | list | tuple):
        view.shape, view.content = "tree", tree_of(decoded)
        view.chat, view.table = chat_of(decoded), table_of(decoded)
    else:
        view.shape, view.content = "line", line_of(shown, view.field.name, decoded)


def _rates(kind: str, codec: str, data: bytes) -> str:
    """Return the frames, the rate and the duration of a clip, or the rate of a sound, as far as they are known."""
    try:
        if kind == "audio":
            return f", {sample_rate(data, codec):,} Hz"
        header = clip_header(codec, data)
    except BushelError:  # PyAV is not installed, or the value is damaged: the browser says more
        return ""
    if header is None:
        return ""
    facts = {"frames": header.frames, "frames/s": header.fps, "s": header.duration}
    return "".join(f", {number:.4g} {unit}" for unit, number in facts.items() if number)


def _classes(shown: Shown, name: str, data: bytes) -> list[tuple[str, str, float]]:
    mask = decode_image(data, ImageReading())
    if not is_index_mask(mask):
        return []
    colours = class_colours()
    return [
        (line_of(shown, name, number), "#" + bytes(colours[number]).hex(), share)
        for number, share in mask_classes(mask)
    ]


def _array_views(decoded: Any) -> list[dict[str, Any]]:
    views = []
    for name, array in arrays_in(decoded).items():
        drawn = array_pixels(array, 16)
        values = np.array2string(array, threshold=64, edgeitems=4, max_line_width=100, precision=5)
        views.append(
            {
                "name": name,
                "facts": array_facts(array),
                "drawn": "" if drawn is None else drawn[1],
                "values": values[:4000],
            }
        )
    return views


_SEEN = set(string.ascii_letters + string.digits + string.punctuation + " ")


def hex_lines(data: bytes) -> list[tuple[str, str, str]]:
    """Return bytes as lines of 16: offset, hex digits, and characters."""
    lines = []
    for first in range(0, len(data), 16):
        part = data[first : first + 16]
        text = "".join(chr(byte) if chr(byte) in _SEEN else "·" for byte in part)
        digits = part[:8].hex(" ") + ("  " + part[8:].hex(" ") if len(part) > 8 else "")
        lines.append((f"{first:08x}", digits, text))
    return lines

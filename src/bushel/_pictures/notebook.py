"""HTML for notebooks: galleries of samples, single samples, tables. Pictures are part of the HTML."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bushel._kinds import kind_of
from bushel._runtime.arrays import check_count
from bushel.codecs import holds_clip, holds_image, holds_sound
from bushel.codecs.base import describe
from bushel.codecs.registry import NUMBERS, holds_array
from bushel.errors import BushelError, CodecError
from bushel.spec import KEY

from .pixels import array_pixels
from .texts import class_name, plain_text, shortened, value_line
from .thumbnail import FRAMES, encoded, shrunk, value_pixels

_SIDE = 128
_LINE = 120
_ELEMENTS = 8
_IN_BATCH = 6  # samples of a batch that are shown
_PLAYED = 4 << 20  # size in bytes of the largest sound that a notebook contains
_SOUNDS = {kind: f"audio/{kind}" for kind in ("wav", "flac", "ogg")} | {"m4a": "audio/mp4"}

_STYLE = (
    f"display:inline-block;vertical-align:top;width:{_SIDE}px;margin:0 "
    "8px 10px 0;font:11px/1.4 monospace;overflow-wrap:anywhere"
)
_BOX = (
    f"display:flex;align-items:center;justify-content:center;width:{_SIDE}px;height:{_SIDE}px;background:rgba(128,128,128,.12);"
    "border-radius:6px;overflow:hidden;margin-bottom:4px"
)
_CELL = "text-align:left;vertical-align:top;padding:2px 12px 2px 0"


def sample_html(
    sample: Mapping[str, Any],
    labels: Mapping[str, Sequence[str]] | None = None,
    sounds: Mapping[str, bytes | None] | None = None,
) -> str:
    """Return a sample as a table, with pictures of its arrays.

    Args:
        sample: The decoded sample.
        labels: Names of classes, by field.
        sounds: Stored bytes of the fields that are sounds: these have a waveform and a player. None
            for a part of a sound, which has no player.
    """
    rows = []
    for name, value in sample.items():
        if sounds and name in sounds:
            rows.append((name, sound_html(name, np.asarray(value), sounds[name])))
        elif labels and (named := class_name(value, labels.get(name, ()))):
            rows.append((name, f"{html.escape(str(value))} {html.escape(named)}"))
        else:
            rows.append((name, _value_html(value)))
    return table_html(rows, escape=False)


def sound_html(name: str, frames: Any, data: bytes | None) -> str:
    """Return the waveform and a player of a sound.

    Args:
        name: Name of the field.
        frames: float32[frames, channels], the decoded sound.
        data: The stored sound; None without a player. Larger ones than 4 MB have none, so that
            notebooks stay small.
    """
    drawn = array_pixels(
        frames.mean(axis=1) if frames.ndim == 2 and frames.size else frames.reshape(-1), _SIDE
    )
    parts = []
    if drawn is not None:
        parts = [_image(shrunk(drawn[0], 2 * _SIDE), f"waveform of {name}")]
    if data is not None and len(data) <= _PLAYED:
        kind = _SOUNDS.get(kind_of(data, sound=True) or "", "audio/mpeg")
        parts.append(
            f'<audio controls src="data:{kind};base64,{base64.b64encode(data).decode()}"></audio>'
        )
    parts.append(_facts(frames))
    return "<br>".join(parts)


def batch_html(batch: Mapping[str, Any], labels: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return a batch as a table: shape and dtype of each field, and pictures or values of its first samples."""
    rows = []
    for name, values in batch.items():
        shape = getattr(values, "shape", None)
        if isinstance(values, list):
            facts = f"list of {len(values)}"
        else:
            facts = html.escape(describe(values)) if shape is None else _facts(values)
        try:
            first = [
                _item(np.asarray(element)) if shape is not None else element
                for element in values[:_IN_BATCH]
            ]
        except (TypeError, ValueError, KeyError):  # what a collate function of the user returned
            first = []
        names = (labels or {}).get(name, ())
        shown = [
            f"<span>{_value_html(element)} {html.escape(class_name(element, names))}".rstrip()
            for element in first
        ]
        rows.append((name, facts, "</span>, ".join(shown) + "</span>" * bool(shown)))
    return table_html(rows, header=("field", "shape", "first samples"), escape=False)


def _facts(array: Any) -> str:
    """Return the shape and the dtype of an array, as HTML."""
    return html.escape(f"{' × '.join(map(str, array.shape)) or 'scalar'}, {array.dtype}")


def _item(value: np.ndarray) -> Any:
    """Return an array, or the number of one without dimensions."""
    if value.ndim:
        return value
    return value.item()


class Gallery:
    """The first samples of a dataset, as a notebook shows them; elsewhere, lines of text.

    Args:
        dataset: The dataset or view (of a room above this one).
        n: Number of samples.
        columns: Columns to show below each; by default the fields of numbers and short texts.

    Raises:
        TypeError: `n` is not a whole number.
        KeyError: The column does not exist.
    """

    def __init__(self, dataset: Any, n: int = 12, columns: Sequence[str] | None = None) -> None:
        self._dataset, self._count = dataset, min(check_count("n", n), len(dataset))
        self._values = {name: dataset.column(name)[: self._count] for name in columns or ()}
        self._named = columns is not None
        self._main = main_field(dataset.spec)
        self._labels = dataset.labels

    def __len__(self) -> int:
        """Number of samples."""
        return self._count

    def __repr__(self) -> str:
        return "\n".join(
            "  ".join([key, *(f"{name}={text}" for name, text in texts)])
            for key, texts in self._texts()
        )

    def _repr_html_(self) -> str:
        cards = []
        for position, (key, texts) in enumerate(self._texts()):
            picture = ""
            if self._main is not None:
                picture = _picture_html(self._dataset, position, self._main)
            lines = "".join(
                f"<div>{html.escape(name)}: {html.escape(text)}</div>" for name, text in texts
            )
            cards.append(
                f'<div style="{_STYLE}">{picture}<b>{html.escape(plain_text(key))}</b>{lines}</div>'
            )
        return f"<div>{''.join(cards)}</div>"

    def _texts(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return for each sample its key, and names and texts of its values."""
        if self._named:
            names = []
        else:
            short = (*NUMBERS, "utf8")
            spec = self._dataset.spec.items()
            names = [name for name, kind in spec if kind.partition("(")[0] in short]
        rows = []
        for position in range(self._count):
            texts = [
                (
                    name,
                    "–"
                    if values[position] is np.ma.masked
                    else value_line(values[position], _LINE),
                )
                for name, values in self._values.items()
            ]
            try:
                [sample] = self._dataset.read([position], names)
                texts += [
                    (name, value_line(sample[name], _LINE, self._labels.get(name, ())))
                    for name in names
                    if name in sample
                ]
                key = sample[KEY]
            except (BushelError, OSError) as error:
                key, texts = str(position), [*texts, ("error", _line(str(error)))]
            rows.append((key, texts))
        return rows


def main_field(spec: Mapping[str, str]) -> str | None:
    """Return the first field that is shown as pictures: images, clips, sounds, arrays; else None."""
    kinds = {name: kind.removesuffix("[]") for name, kind in spec.items()}
    for suits in (
        holds_image,
        holds_clip,
        _one_of("frame", "frames"),
        holds_sound,
        _one_of("array", "npy"),
    ):
        for name, kind in kinds.items():
            if suits(kind):
                return name
    return None


def _one_of(*codecs: str) -> Callable[[str], bool]:
    return lambda kind: kind.partition("(")[0] in codecs


def sample_pixels(dataset: Any, position: int, field: str, side: int) -> Any:
    """Return a small picture of a field of a sample: of a sequence, its first element; of a clip, its first frame.

    Returns:
        HxWx3, uint8; None if the sample lacks the field.

    Raises:
        BushelError: It cannot be read or decoded.
    """
    kind = dataset.spec[field]
    if holds_clip(kind):
        frames = dataset[position, {field: [0]}].get(field)
        if frames is None:
            return None
        return shrunk(np.asarray(frames)[0], side)
    # windows of an array or a sound have some of its elements, and its stored bytes all
    is_decoded = holds_array(kind) or holds_sound(kind)
    elements: slice | bool = True
    if holds_sound(kind):
        elements = slice(FRAMES)
    [sample] = dataset.read([position], {field: elements}, decode=is_decoded)
    value = sample.get(field)
    if isinstance(value, list):
        value = value[0] if value else None
    if value is None:
        return None
    if is_decoded:
        drawn = array_pixels(value.mean(axis=1) if holds_sound(kind) else value, side)
        if drawn is None:
            raise CodecError(f"a value of codec {kind!r} has no picture")
        return shrunk(drawn[0], side)
    return value_pixels(kind.removesuffix("[]"), value, side)


def _picture_html(dataset: Any, position: int, field: str) -> str:
    try:
        pixels = sample_pixels(dataset, position, field, _SIDE)
    except (BushelError, OSError) as error:
        return f'<div style="{_BOX};color:#a8321f">{html.escape(_line(str(error)))}</div>'
    inside = f"no {html.escape(field)}" if pixels is None else _image(pixels, field)
    return f'<div style="{_BOX}">{inside}</div>'


def _image(pixels: Any, name: str) -> str:
    picture = encoded(pixels)
    data = base64.b64encode(picture.data).decode()
    return (
        f'<img alt="{html.escape(name)}" width="{picture.width}" height="{picture.height}" '
        f'style="margin:0" src="data:{picture.media_type};base64,{data}">'
    )


def _value_html(value: Any) -> str:
    if isinstance(value, list) and value and isinstance(value[0], np.ndarray):
        more = ""
        if len(value) > _ELEMENTS:
            more = f" and {len(value) - _ELEMENTS} more"
        return " ".join(_value_html(element) for element in value[:_ELEMENTS]) + more
    if isinstance(value, np.ndarray):
        drawn = array_pixels(value, _SIDE)
        if drawn is None:
            return _facts(value)
        return f"{_image(shrunk(drawn[0], 2 * _SIDE), drawn[1])}<br>{_facts(value)}"
    return html.escape(_line(value, 20 * _LINE))


def _line(value: Any, most: int = _LINE) -> str:
    return shortened(describe(value) if isinstance(value, bytes) else str(value), most)


def facts_html(
    title: str, facts: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]], gallery: str = ""
) -> str:
    """Return a description: a title, facts in a line, a table with a header, and a gallery."""
    line = " · ".join(f"{html.escape(name)} <b>{html.escape(value)}</b>" for name, value in facts)
    table = table_html(rows[1:], header=rows[0]) if rows else ""
    return f"<div><div><b>{html.escape(title)}</b></div><div>{line}</div>{table}{gallery}</div>"


def table_html(
    rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, escape: bool = True
) -> str:
    """Return a table. With `escape`, cells after the first are text; the first cell and the header always are."""
    head = "".join(f'<th style="{_CELL}">{html.escape(name)}</th>' for name in header)
    lines = []
    for row in rows:
        cells = [
            html.escape(plain_text(row[0])),
            *(html.escape(plain_text(cell)) if escape else cell for cell in row[1:]),
        ]
        lines.append(
            "<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>"
        )
    body = f"<thead><tr>{head}</tr></thead>" if head else ""
    return f'<table style="margin:6px 0">{body}<tbody>{"".join(lines)}</tbody></table>'

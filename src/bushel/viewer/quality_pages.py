"""The page of quality: extremes of each measure, and near-duplicates in one or two datasets."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel._pictures.thumbnail import value_pixels
from bushel.codecs import get_codec
from bushel.errors import BushelError

from .histograms import condition_name
from .quality import (
    HASH,
    MEASURES,
    Measures,
    array_measures,
    near_duplicates,
    picture_hash,
    picture_measures,
    sound_measures,
    text_hash,
    text_measures,
)
from .rows import line_of, rows_of
from .shelf import QUALITY, Shown
from .site import Pages, at
from .stored import stored_values

_SIDE = 96
_FRAMES = 3_000_000  # number of frames of a sound that are measured at most: a minute at 48 kHz
_SECONDS = 1.0  # seconds for which a request measures
_EXTREME = 6
_GROUPS, _TILES = 30, 8
_LISTED = 200  # members of a group up to which a condition lists them in the grid
_LABELS = ("label", "cls", "class")

_Side = tuple[Shown, Measures]


class QualityPages(Pages):
    """The handler of the page of quality."""

    @at("/d/{d:int}/quality")
    def quality(self, shown: Shown, request: Any) -> Any:
        """Measure some more values of a field, and show the findings so far."""
        parameters = request.query_params
        if not shown.measured:
            raise KeyError("this dataset has no pictures, sounds, texts or arrays to measure")
        measures = shown.measures_of(parameters.get("field") or shown.measured[0].name)
        partners = [
            dataset
            for dataset in self._shelf.datasets
            if dataset is not shown and _alike(dataset, measures)
        ]
        partner = next(
            (dataset for dataset in partners if str(dataset.number) == parameters.get("with", "")),
            None,
        )
        sides = [(shown, measures)]
        if partner is not None:
            sides.append((partner, partner.measures_of(_alike(partner, measures) or "")))
        with self._site.decoding:
            for side in sides:
                measure(*side, _SECONDS)
        return self._site.page(
            request,
            "quality.html",
            shown,
            own=measures,
            words=MEASURES[measures.kind],
            column=f"{QUALITY}{measures.field}.",
            condition_name=condition_name,
            others=partners,
            partner=partner,
            sides=sides,
            extremes=[(name, *_extremes(shown, measures, name)) for name in measures.values],
            groups=_groups(sides),
        )

    @at("/api/{d:int}/measure", "POST")
    def measure(self, shown: Shown, request: Any) -> Any:
        """Measure some more values of a field, and return how many samples are done, of how many."""
        measures = shown.measures_of(request.query_params.get("field", ""))
        with self._site.decoding:
            measure(shown, measures, _SECONDS)
        return {"done": measures.done, "total": len(shown.dataset)}


def _alike(shown: Shown, measures: Measures) -> str | None:
    """Return the field of a dataset with the kind of these values, of the same name if possible, else None."""
    names = [field.name for field in shown.measured if field.kind == measures.kind]
    if measures.field in names:
        return measures.field
    return next(iter(names), None)


def measure(shown: Shown, measures: Measures, seconds: float) -> None:
    """Measure the values of further samples for a time. Samples without a value have no measures."""
    until = time.monotonic() + seconds
    while measures.done < len(shown.dataset) and time.monotonic() < until:
        position = measures.done
        measures.done += 1
        try:
            values = stored_values(shown.dataset, position, measures.field)
            if not values:
                continue
            values_measured, hash_ = _measured(
                measures.kind, values[0].extent.codec, values[0].read()
            )
        except (BushelError, OSError, ValueError):  # its tile and its page show the error
            measures.failed += 1
            continue
        measures.add(position, values_measured, hash_)


def _measured(kind: str, codec: str, data: bytes) -> tuple[dict[str, float], int | None]:
    """Return the measures of a stored value, and its hash if values of its kind have one.

    Raises:
        CodecError: The value cannot be decoded.
    """
    if kind == "image":
        pixels = value_pixels(codec, data, _SIDE)
        return picture_measures(pixels), picture_hash(pixels)
    codec_of_value = get_codec(codec)
    if kind == "audio":
        ranged = codec_of_value.ranged
        sound = np.asarray(
            codec_of_value.decode(data)
            if ranged is None
            else ranged.decode(data, slice(0, _FRAMES))
        )
        return (sound_measures(sound.reshape(len(sound), -1)) if sound.size else {}), None
    value = codec_of_value.decode(data)
    if kind == "text":
        return text_measures(value), text_hash(value)
    array = np.asarray(value)
    return (array_measures(array) if array.size and array.dtype.kind in "biuf" else {}), None


def _extremes(shown: Shown, own: Measures, name: str) -> tuple[Any, Any]:
    """Return the samples with the least and with the greatest values."""
    values = own.values[name]
    measured = np.flatnonzero(np.isfinite(values))
    order = measured[np.argsort(values[measured], kind="stable")]
    ends = order[:_EXTREME].tolist(), order[::-1][:_EXTREME].tolist()
    return tuple(  # type: ignore[return-value]
        [(row, float(values[row["position"]])) for row in _rows(shown, own.field, end)]
        for end in ends
    )


def _rows(shown: Shown, field: str, positions: Sequence[int]) -> list[dict[str, Any]]:
    """Return rows of the grid, with `line`: the value of the field in words, where it is not shown as a picture."""
    rows = rows_of(shown, positions, [field])
    shown_field = shown.field(field)
    for row in rows:
        if shown_field.visual:
            row["line"] = ""
        else:
            row["line"] = dict(row["values"]).get(field) or _long(shown, field, row["position"])
    return rows


def _long(shown: Shown, field: str, position: int) -> str:
    """Return the beginning of a value that is too long for a row of the grid."""
    try:
        return line_of(shown, field, shown.dataset[position, [field]].get(field))
    except (BushelError, OSError, ValueError) as error:
        return str(error)


def _groups(sides: Sequence[_Side]) -> list[dict[str, Any]]:
    """Return groups of near-duplicates: with two datasets, those that have members in both."""
    hashed_rows = [np.flatnonzero(measures.hashed) for _, measures in sides]
    hashes = np.concatenate(
        [measures.hashes[rows] for (_, measures), rows in zip(sides, hashed_rows, strict=True)]
    )
    members = [(side, int(row)) for side, rows in enumerate(hashed_rows) for row in rows]
    groups = []
    for group in near_duplicates(hashes):
        listed = [members[number] for number in group]
        if len(sides) > 1 and len({side for side, _ in listed}) < 2:
            continue
        most = _TILES // len(sides)
        rows = []
        for side, (shown, measures) in enumerate(sides):
            chosen = [position for of, position in listed if of == side][:most]
            rows += [(shown, measures.field, row) for row in _rows(shown, measures.field, chosen)]
        labels = {value for _, _, row in rows for name, value in row["values"] if name in _LABELS}
        groups.append(
            {
                "count": len(listed),
                "rows": rows,
                "labels": sorted(labels),
                "where": _listing(sides, listed),
            }
        )
        if len(groups) == _GROUPS:
            break
    return groups


def _listing(sides: Sequence[_Side], members: Sequence[tuple[int, int]]) -> str:
    """Return a condition that lists the members of a group in the first dataset; empty for very large groups."""
    measures = sides[0][1]
    hashes = sorted({int(measures.hashes[position]) for side, position in members if side == 0})
    if len(hashes) > _LISTED:
        return ""
    return (
        f"{condition_name(f'{QUALITY}{measures.field}.{HASH}')} in ({', '.join(map(str, hashes))},)"
    )

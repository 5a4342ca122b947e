"""The pages of quality: extremes of each measure, near-duplicates in one or two datasets, and duplicates.

Duplicates have the same length and CRC-32. They are compared byte by byte when they are shown.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._pictures.thumbnail import value_pixels
from bushel._runtime.arrays import I64, NO_NUMBERS, U32, offsets_of
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
from .shelf import QUALITY, ByteCache, Shown
from .site import Pages, Site, at, number_in
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
            values_measured, hash_ = _measured(measures.kind, values[0].codec, values[0].read())
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


_PAGE = 20
_SHOWN_COPIES = 12
_CHUNK = 1 << 18
_COMPARED = 32 << 20  # size in bytes up to which values are compared byte by byte


class Groups(Struct, frozen=True):
    """Samples with equal values, largest groups first."""

    positions: I64  # int64[n], positions of the samples, group by group
    starts: I64  # int64[groups + 1], where each group begins in `positions`
    lengths: I64  # int64[groups], bytes of a value of the group
    known: int  # number of samples whose checksum is known
    unknown: int  # number of samples whose checksum is not

    @property
    def wasted(self) -> int:
        """Bytes of all values but one of each group."""
        return int(((np.diff(self.starts) - 1) * self.lengths).sum())

    @property
    def samples(self) -> int:
        """Number of samples in groups."""
        return len(self.positions)

    def __len__(self) -> int:
        return len(self.lengths)


def groups_of(crc32: U32, length: I64, positions: I64, unknown: int = 0) -> Groups:
    """Group values with the same length and checksum. Nothing is read.

    `unknown` values have no checksum; the others have one, a length and a position each.
    """
    samples = len(positions)
    rows = _repeated(crc32)
    if len(rows) < samples:
        crc32, length, positions = crc32[rows], length[rows], positions[rows]
    del rows
    order = np.lexsort((positions, crc32, length))
    sums, sizes = crc32[order], length[order]
    same = (sums[1:] == sums[:-1]) & (sizes[1:] == sizes[:-1])
    if len(order):
        borders = np.flatnonzero(np.concatenate([[True], ~same, [True]]))
    else:
        borders = np.zeros(1, np.int64)
    counts = np.diff(borders)
    large = np.flatnonzero(counts > 1)
    ranked = large[np.lexsort((borders[large], -counts[large]))]
    starts = offsets_of(counts[ranked])
    members = np.repeat(borders[ranked] - starts[:-1], counts[ranked])
    members += np.arange(len(members))
    return Groups(positions[order[members]], starts, sizes[borders[ranked]], samples, unknown)


def _repeated(crc32: U32) -> I64:
    """Return the rows whose checksum another row has, too: often few, so that sorting the others is saved."""
    ascending = np.sort(crc32)
    repeated = ascending[1:][ascending[1:] == ascending[:-1]]
    del ascending
    parts = [NO_NUMBERS]
    for first in range(0, len(crc32) if len(repeated) else 0, _CHUNK):
        chunk = crc32[first : first + _CHUNK]
        nearest = repeated.take(np.searchsorted(repeated, chunk), mode="clip")
        parts.append(np.flatnonzero(nearest == chunk) + first)
    return np.concatenate(parts)


def checksums_of(shown: Shown, name: str) -> tuple[U32, I64, I64, int]:
    """Return checksums, lengths and positions of the values of a plain field, and the number without a checksum.

    Samples without the field are left out. Only the index is read.
    """
    dataset = shown.dataset
    sums = np.empty(len(dataset), np.uint32)
    lengths, places = np.empty((2, len(dataset)), np.int64)
    count_known = unknown = 0
    for first in range(0, len(dataset), _CHUNK):
        positions = np.arange(first, min(first + _CHUNK, len(dataset)))
        for group in dataset.reader.groups(dataset.selection.absolute(positions), [name]):
            chosen = positions[group.in_batch]
            column = group.index.fields.get(name)
            if column is None:
                continue
            present = column.length[group.rows] >= 0
            count = int(np.count_nonzero(present))
            if column.crc32 is None:
                unknown += count
                continue
            part = slice(count_known, count_known + count)
            sums[part] = column.crc32[group.rows][present]
            lengths[part] = column.length[group.rows][present]
            places[part] = chosen[present]
            count_known += count
    return sums[:count_known], lengths[:count_known], places[:count_known], unknown


class DuplicatePages(Pages):
    """The handler of the page of duplicates."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        # of one field: finding them again takes a while
        self._last: ByteCache[Groups] = ByteCache()

    @at("/d/{d:int}/duplicates")
    def duplicates(self, shown: Shown, request: Any) -> Any:
        """Groups of samples whose values are equal."""
        parameters = request.query_params
        plain = [field for field in shown.fields if not field.sequence]
        default = shown.main if shown.main in plain else next(iter(plain), None)
        name = parameters.get("field") or (default.name if default else "")
        page = number_in(parameters, "page", 0, 1 << 40)
        found, groups = None, []
        if name:
            if shown.field(name).sequence:
                raise ValueError(
                    f"field {name!r} is a sequence: duplicates are found in plain fields"
                )
            found = self._last.get(
                (shown.number, name), lambda: groups_of(*checksums_of(shown, name))
            )
            listed = range(len(found))[page * _PAGE : (page + 1) * _PAGE]
            groups = [_group(shown, name, found, number) for number in listed]
        return self._site.page(
            request,
            "duplicates.html",
            shown,
            fields=[field.name for field in plain],
            name=name,
            found=found,
            groups=groups,
            page=page,
            pages_total=-(-len(found or ()) // _PAGE),
        )


def _group(shown: Shown, name: str, found: Groups, at: int) -> dict[str, Any]:
    first, last = found.starts[at : at + 2].tolist()
    listed = found.positions[first : min(last, first + _SHOWN_COPIES)].tolist()
    length = int(found.lengths[at])
    return {
        "rows": rows_of(shown, listed, [name]),
        "count": last - first,
        "bytes": length,
        "equal": _equal(shown, name, listed) if length * len(listed) <= _COMPARED else None,
    }


def _equal(shown: Shown, name: str, positions: list[int]) -> bool | None:
    """Return whether the values are equal byte by byte; None if one of them cannot be read."""
    try:
        values = [stored_values(shown.dataset, position, name) for position in positions]
        return len({stored[0].read() if stored else b"" for stored in values}) == 1
    except (OSError, ValueError):
        return None

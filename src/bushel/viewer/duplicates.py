"""Duplicates: values with the same length and CRC-32, which are compared byte by byte when they are shown."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from bushel._runtime.arrays import I64, U32, offsets_of

from .rows import rows_of
from .shelf import Shown
from .site import Pages, Site, at, number_in
from .stored import stored_values

_PAGE = 20
_TILES = 12
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
    parts = [np.zeros(0, np.int64)]
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
        self._last: tuple[tuple[int, str], Groups] | None = None

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
            found = self._groups(shown, name)
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

    def _groups(self, shown: Shown, name: str) -> Groups:
        last = self._last
        if last is None or last[0] != (shown.number, name):
            last = self._last = ((shown.number, name), groups_of(*checksums_of(shown, name)))
        return last[1]


def _group(shown: Shown, name: str, found: Groups, at: int) -> dict[str, Any]:
    first, last = found.starts[at : at + 2].tolist()
    listed = found.positions[first : min(last, first + _TILES)].tolist()
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

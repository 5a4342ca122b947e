"""What other programs keep beside archives: lists of them, and where their samples begin.

The lists are the ones of wids in an `index.json`, and of Energon in `.nv-meta/.info.json`.

With Energon's offsets of samples, a remote archive is scanned in parts at once. Energon writes
`ARCHIVE.idx` beside an archive (uint64, little-endian: the offset of the first header of every
sample, then the end). It is not trusted: a part is accepted if the headers in it lead exactly to
the recorded beginning of the next one, so it finds the same members as a scan from front to back.
If they do not, the archive is scanned from front to back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec
import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_warning
from bushel.containers.json_index import IndexFormat, Listing, load_index
from bushel.errors import FormatError
from bushel.storage import AnyPath, File, below, is_local, leads_out, open_file

from .names import LISTS, META
from .samples import Members
from .scan import regular, scan

_INFO = ".info.json"

_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Shard(msgspec.Struct):
    url: str
    nsamples: _Count
    filesize: _Count | None = None


class _Wids(msgspec.Struct):
    wids_version: int
    shardlist: list[_Shard]


class _Info(msgspec.Struct):
    shard_counts: dict[str, _Count]


_OWN, _HINT = re.compile(b'"wids_version"'), "run `bushel widsindex create`"
_wids = IndexFormat("a list of wids", _Wids, frozenset({"wids_version"}), _OWN, _HINT).parse
_ANY, _PREPARE_FIRST = re.compile(b""), "run `energon prepare`"
_info = IndexFormat("a list of Energon", _Info, frozenset(), _ANY, _PREPARE_FIRST).parse


def listed_archives(folder: AnyPath, names: Collection[str]) -> list[str] | None:
    """Return the archives of a folder in the order of a list in it; None without a list.

    Archives of the folder that are not in the list follow, with a warning. A list of wids that
    names archives elsewhere is for others.

    Raises:
        FormatError: The list is damaged, or names files that are missing or of another size.
    """
    path = f"{folder}/{META}/{_INFO}"
    listed = energon_archives(folder) if META in names else None
    for name in (known_list for known_list in LISTS if known_list in names and listed is None):
        path = f"{folder}/{name}"
        if (wids_list := load_index(folder, _wids, name)) and not any(
            leads_out(shard.url) for shard in wids_list.shardlist
        ):
            listed = wids_archives(folder, name)
    if listed is None:
        return None
    more = sorted(
        {name for name in names if name.endswith(".tar") and not name.startswith(".")} - {*listed}
    )
    if more:
        log_warning(
            "%s does not list %d archives beside it, from %s on: they are read after those",
            path,
            len(more),
            more[0],
        )
    return listed + more


def wids_archives(folder: AnyPath, name: str) -> list[str] | None:
    """Return the archives that a list of wids names, in its order; None if it is not a list of wids.

    Raises:
        FormatError: The list is damaged, names files elsewhere, or names files that are missing or
            of another size.
    """
    wids_list = load_index(folder, _wids, name)
    if wids_list is None:
        return None
    path, hint = (
        f"{folder}/{name}",
        "fetch the archives again, run `bushel widsindex create`, or open the archives",
    )
    _all_there(folder, (shard.url for shard in wids_list.shardlist), path, hint)
    for shard in wids_list.shardlist if is_local(folder) else ():
        size = below(folder, shard.url).stat().st_size
        if shard.filesize is not None and size != shard.filesize:
            message = (
                f"it says that {shard.url} has {shard.filesize} bytes, and the file has {size}"
            )
            raise FormatError(message, path, hint=hint)
    return [shard.url for shard in wids_list.shardlist]


def energon_archives(folder: AnyPath) -> list[str] | None:
    """Return the archives that Energon lists for a folder, relative to it; None if it has no list.

    Raises:
        FormatError: The list is damaged, or names files elsewhere or files that are missing.
    """
    try:
        energon_info = load_index(folder / META, _info, _INFO)
    except FileNotFoundError:
        energon_info = None
    if energon_info is None:
        return None
    _all_there(
        folder,
        energon_info.shard_counts,
        str(folder / META / _INFO),
        "fetch the missing files, or run `energon prepare`",
    )
    return list(energon_info.shard_counts)


def _all_there(folder: AnyPath, names: Iterable[str], path: str, hint: str) -> None:
    listing = Listing(folder)
    for name in names:
        if leads_out(name):
            raise FormatError(
                f"it lists {name!r}, which is not below its folder",
                path,
                hint="open the archives",
            )
        if not listing.has(name):
            raise FormatError(
                f"it lists the archive {name!r}, which does not exist", path, hint=hint
            )


SUFFIX = ".idx"
"""The suffix that Energon adds to the name of an archive."""
_PREPARE = "run `energon prepare` again, or delete the index"
_BLOCK = 512
_PARTS = 32
# bytes of a part, at least: headers that are closer are read faster one after the other
_LEAST = 1 << 20


def recorded_starts(archive: AnyPath, size: int) -> I64 | None:
    """Return where samples begin, and the end, by Energon's index beside an archive; None without an index.

    An index whose offsets do not increase, or are outside the archive, is left out with a warning.
    """
    path = archive.parent / f"{archive.name}{SUFFIX}"
    try:
        file = open_file(path)
        # a sample has a block or more
        data = file.read(0, min(file.size, 8 * (size // _BLOCK + 2)))
    except (FileNotFoundError, PermissionError):
        # a store that forbids listing refuses access to missing objects
        return None
    starts = np.frombuffer(data, "<u8", len(data) // 8).astype(np.int64)
    outside = (starts < 0) | (starts > size)
    if len(data) % 8 or outside.any() or (np.diff(starts) <= 0).any():
        log_warning("%s: it does not fit the %d bytes of %s: %s", path, size, archive, _PREPARE)
        return None
    return starts


def scan_parts(file: File, starts: I64) -> Members | None:
    """Return the regular files of an archive, whose parts are scanned at once.

    None if it is small, or the offsets do not fit it, or it has records for the whole archive.
    `starts` has offsets of headers, ascending, and the end.

    Raises:
        FormatError: The file shrank, or a member is a sparse file.
    """
    count = min(_PARTS, file.size // _LEAST)
    if len(starts) < 2 or count < 2:
        return None
    from bushel._runtime.parallel import map_all

    evenly = np.linspace(0, file.size, count + 1)[1:-1]
    inner = np.unique(starts[np.maximum(np.searchsorted(starts[:-1], evenly) - 1, 0)])
    borders = [0, *inner[(inner > 0) & (inner % _BLOCK == 0)].tolist(), file.size]
    spans = list(zip(borders[:-1], borders[1:], strict=True))
    scanned = map_all(lambda span: _part(file, *span), spans, threads=len(spans))
    parts = [part for part in scanned if part is not None]
    if len(parts) == len(spans):
        return Members.joined(parts)
    return None


def _part(file: File, first: int, last: int) -> Members | None:
    """Return the regular files of a part, if it consists of members and ends where the next one begins."""
    scanned = scan(file, first, last)
    ends = scanned.offset + -(-scanned.size // _BLOCK) * _BLOCK
    if last == file.size:
        whole = scanned.terminated and not scanned.trailing_bytes
    else:
        whole = not scanned.terminated and len(ends) > 0 and int(ends[-1]) == last
    # a record for the whole archive would be between a member and the next header
    if (
        not whole
        or scanned.problem is not None
        or scanned.comment
        or (scanned.header != [first, *ends[:-1]]).any()
    ):
        return None
    return regular(scanned, file.path)

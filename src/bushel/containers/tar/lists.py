"""Lists of archives that other programs keep: wids in an `index.json`, Energon in `.nv-meta/.info.json`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec

from bushel._runtime.messages import log_warning
from bushel.containers.json_index import IndexFormat, Listing, load_index
from bushel.errors import FormatError
from bushel.storage import AnyPath, below, is_local, leads_out

from .names import LISTS, META

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
            raise FormatError(
                f"it says that {shard.url} has {shard.filesize} bytes, and the file has {size}",
                path,
                hint=hint,
            )
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

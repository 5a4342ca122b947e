"""The files below a folder, and their table, kept in the user's cache of tables for the next opening.

A local folder changes its times when a file is added, removed or renamed in it, so a million files
are known by the times of their folders. A file that was written in place is noticed when it is
read; the kept data are removed then.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.json import Decoder
from msgspec.structs import replace

from bushel._index.saving import encode_index, encoded, parse
from bushel._index.shard import FOLDER, FileStamp, FileStamps
from bushel._index.sidecar import decode_index
from bushel._index.table import ShardIndex
from bushel._index.table_cache import cache_of_tables
from bushel._recognise.names import junk_kind, without_junk
from bushel._runtime.arrays import U8
from bushel._runtime.messages import log_info
from bushel._runtime.progress import slow_work
from bushel.errors import FormatError
from bushel.storage import AnyPath, Blocks, list_names
from bushel.storage.files import leads_to_folder

# version of the kept data; it changes when its rules, or the rules of the container `folder`,
# change
_LAYOUT = 5
# nothing is kept for fewer files: looking at them takes less than a tenth of a second
_MANY = 10_000
_SETTLED_NS = 2_000_000_000
"""Age of a folder's time from which a later change is sure to have another time: file system clocks have steps."""

# links to folders that are followed: in one path, and to one folder
_MOST_NESTED_LINKS, _MOST_LINKS = 8, 1000
_BLOCK = 0  # number of the block in the cache
_KINDS = {
    "names": "U8",
    "sizes": "I64",
    "times": "I64",
    "index": "U8",
    "watched": "U8",
    "marks": "I64",
}


class Watched(NamedTuple):
    """A folder, or a file of metadata, that shows by its times whether a kept table is still valid."""

    name: str
    mtime_ns: int
    ctime_ns: int
    inode: int


class FolderNames(tuple[str, ...]):
    """The names of the files below a folder."""

    folders: Sequence[Watched] = ()  # the folders, as they were before they were listed
    listed_ns: int = 0  # the time before the first was listed
    junk: Counter[str] = Counter()  # number of files that are left out, by kind in words
    # the table of the files, if it was kept; a copy in another process has only the names
    table: ShardIndex | None = None

    def __reduce__(self) -> tuple[type[tuple[str, ...]], tuple[tuple[str, ...]]]:
        return tuple, (tuple(self),)


def watched(root: str, name: str) -> Watched:
    """Return a folder or file below `root` as it is now. Raise OSError if it cannot be looked at."""
    stat = os.stat(f"{root}/{name}" if name else root)
    return Watched(name, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


def names_below(path: AnyPath) -> FolderNames:
    """Return the names of the files below a folder that may be samples or metadata, sorted by code point.

    They have the table of the files if that was kept, and no folder has changed since.
    """
    names = _kept_names(path) if isinstance(path, Path) else None
    return list_below(path) if names is None else names


def list_below(path: AnyPath) -> FolderNames:
    """Return the names of the files below a folder as they are now: see `names_below`."""
    started, folders, hidden = time.time_ns(), list[Watched](), Counter[str]()
    with slow_work("listing"):
        if isinstance(path, Path):
            names_found = list(_walk(str(path), "", folders, Counter(), hidden))
        else:
            sidecars = f"/{FOLDER}/"
            names_found = [name for name in list_names(path) if sidecars not in f"/{name}"]
    names_found.sort()
    data, junk = without_junk(names_found)
    names = FolderNames(data)
    names.folders, names.listed_ns, names.junk = folders, started, hidden + junk
    return names


def _walk(
    root: str,
    folder: str,
    folders: list[Watched],
    linked: Counter[str],
    hidden: Counter[str],
    links: int = 0,
) -> Iterator[str]:
    """Yield the names of files below a local folder, and add each folder. A million names take a second.

    `linked` counts the links to each folder that were followed, `links` those in the path of this
    one. `hidden` counts other entries: hidden files, and links that lead nowhere.
    """
    folders.append(watched(root, folder))
    above = folder and f"{folder}/"
    with os.scandir(f"{root}/{folder}") as entries:
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                if name == FOLDER:
                    continue
                slash = "/" * leads_to_folder(entry)
                hidden[junk_kind(f"{name}{slash}") or ("hidden folder" if slash else "hidden")] += 1
            elif entry.is_file(follow_symlinks=False):
                yield above + name
            elif leads_to_folder(entry):
                _check_link(entry, linked, links)
                yield from _walk(
                    root, above + name, folders, linked, hidden, links + entry.is_symlink()
                )
            elif os.path.isfile(entry):
                yield above + name
            elif os.path.exists(entry):
                hidden["pipe or device"] += 1
            else:
                hidden["link that leads nowhere"] += 1


def _check_link(entry: os.DirEntry[str], linked: Counter[str], links: int) -> None:
    """Check that a symbolic link to a folder does not lead to names without end, or to far more names than files.

    Raises:
        FormatError: It is a link to a folder that contains it, or links lead to it over other links
            or very often.
    """
    if not entry.is_symlink():
        return
    target = os.path.realpath(entry.path)
    containing = os.path.realpath(os.path.dirname(entry.path))
    if f"{containing}/".startswith(f"{target.rstrip('/')}/"):
        raise FormatError(
            "a symbolic link to a folder that contains it",
            entry.path,
            hint="remove the link, or open a folder below it",
        )
    linked[target] += 1
    if links >= _MOST_NESTED_LINKS or linked[target] > _MOST_LINKS:
        problem = f"a symbolic link in a folder that {links} others lead to, one after another"
        if links < _MOST_NESTED_LINKS:
            problem = f"more than {_MOST_LINKS} symbolic links lead to the folder {target}"
        raise FormatError(problem, entry.path, hint="remove links that lead to the same files")


def _kept_names(root: Path) -> FolderNames | None:
    cache, identity = cache_of_tables(), _identity(root)
    if cache is None or (data := cache.get(identity, _BLOCK)) is None:
        return None
    try:
        layout, arrays = parse(data, _KINDS, Decoder(int))
        seen = zip(_split(arrays["watched"]), *arrays["marks"].reshape(3, -1).tolist(), strict=True)
        if layout != _LAYOUT or any(watched(str(root), marks[0]) != marks for marks in seen):
            return None
        names = FolderNames(_split(arrays["names"]))
        forget = partial(cache.drop, identity, _BLOCK)
        stamps = FileStamps(names, arrays["sizes"], arrays["times"], forget)
        slim = decode_index(arrays["index"].data, Path(cache.folder, identity))
    except OSError:  # a folder was deleted
        return None
    except (FormatError, ValueError) as error:
        log_info("%s: the list of files in the cache of tables is not used: %s", root, error)
        return None
    fields = {
        name: replace(column, file=column.file + len(stamps))
        for name, column in slim.fields.items()
    }
    names.table = replace(
        slim, files=stamps, fields=fields, blocks=(blocks_of(stamps), *slim.blocks)
    )
    return names


def keep_folder(
    root: Path, names: FolderNames, metadata: Sequence[Watched], index: ShardIndex
) -> None:
    """Keep the names of many files and their table, if no folder changed a moment ago.

    Args:
        root: The folder.
        names: The files.
        metadata: The files whose contents the table has, as they were before they were read.
        index: The table. Its first block file has all files one after another, and no field is in
            a file itself.
    """
    cache, stamps = cache_of_tables(), index.files
    seen = [*names.folders, *metadata]
    settled = all(
        max(folder.mtime_ns, folder.ctime_ns) < names.listed_ns - _SETTLED_NS for folder in seen
    )
    if (
        cache is None
        or len(names) < _MANY
        or not seen
        or not settled
        or not isinstance(stamps, FileStamps)
    ):
        return
    count = len(stamps)
    fields = {
        name: replace(column, file=column.file - count) for name, column in index.fields.items()
    }
    # one entry stands for all files: their bytes one after another
    entry = FileStamp("files", int(stamps.sizes.sum()), 1)
    slim = replace(index, files=(entry,), fields=fields, blocks=index.blocks[1:])
    try:
        table = encode_index(slim)
    except UnicodeEncodeError as error:  # in the name of a class
        log_info("%s: the list of its files is not kept: %s", root, error)
        return
    arrays: dict[str, np.ndarray] = {
        "names": _joined(names),
        "sizes": stamps.sizes,
        "times": stamps.times,
        "index": np.frombuffer(table, np.uint8),
        "watched": _joined([folder.name for folder in seen]),
        "marks": np.array([folder[1:] for folder in seen], np.int64).T.reshape(-1),
    }
    pieces = encoded(arrays, _LAYOUT)
    if sum(map(len, pieces)) <= cache.limit:
        cache.put(_identity(root), _BLOCK, *pieces)


def blocks_of(stamps: FileStamps) -> Blocks:
    """Return the block file of all files, one after another."""
    count = len(stamps)
    return Blocks.of(np.zeros(count, np.int64), stamps.sizes, file=np.arange(count, dtype=np.int32))


def _joined(names: Sequence[str]) -> U8:
    return np.frombuffer("\0".join(names).encode("utf-8", "surrogateescape"), np.uint8)


def _split(text: U8) -> list[str]:
    return text.tobytes().decode("utf-8", "surrogateescape").split("\0")


def _identity(root: Path) -> str:
    return hashlib.sha256(
        f"folder\n{os.path.abspath(root)}".encode("utf-8", "surrogateescape")
    ).hexdigest()[:40]

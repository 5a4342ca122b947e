"""The folder in which the index of a dataset is kept, if that is not the folder of the data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bushel._dataset.open.caller_fields import POLICIES
from bushel._index.table import Shard
from bushel.errors import FormatError, UnsupportedError
from bushel.storage import AnyPath, as_path, open_file

INDEX_FILE = "bushel.index"
"""The key of the metadata in the footer of an exported index (`Dataset.export_index`)."""

SUFFIX = ".parquet"
"""Suffix of an exported index."""

_TAIL = 8  # bytes at the end of a Parquet file: the length of its footer, and `PAR1`


def index_place(index: Any) -> AnyPath:
    """Return the folder that `index=` names.

    Raises:
        ValueError: It is a text without a slash, perhaps a misspelt policy; or a file.
    """
    if _ends_as_index_file(index) and os.path.isfile(index):
        raise ValueError(
            f"index={str(index)!r} is a file, and the index of a dataset is kept in a folder: name that. An exported "
            "index only goes with bushel.open"
        )
    if isinstance(index, str) and not any(sign in index for sign in ("/", os.sep)):
        raise ValueError(
            f"index={index!r} should be {', '.join(map(repr, POLICIES))}. To name a folder for the index, write "
            f"{'./' + index!r}"
        )
    return as_path(index)


def index_file(source: Any, index: Any) -> tuple[Path, Any] | None:
    """Return the exported index with which a dataset is opened, and its data; None if it has another index.

    That is the Parquet file that `index` names, or `source` itself, whose data are None then: at the place that it
    names. The footer of a Parquet file is read, which has the name of the metadata.
    """
    for place, data in ((index, source), (source, None)):
        if not _ends_as_index_file(place):
            continue
        path = as_path(place)
        if isinstance(path, Path) and (place is index or _has_metadata(path)):
            return path, data
    return None


def check_options(path: Path, index: Any, **given: Any) -> None:
    """Check that no option of `open` is given that an exported index cannot obey.

    Args:
        path: The exported index.
        index: The argument of `open`.
        given: Other options, each with its value, which is None or False if it is not given.

    Raises:
        UnsupportedError: One is given. The message names it.
    """
    refused = {name: value for name, value in given.items() if value is not None and value is not False}
    if index not in POLICIES and as_path(index) != path:
        refused["index"] = str(index)
    if refused:
        name, value = next(iter(refused.items()))
        raise UnsupportedError(
            f"{path} is an exported index, which is opened as it was exported: {name}={value!r} does not go with it. "
            f"Open the dataset itself with {name}="
        )


def refuse_index_file(paths: Iterable[AnyPath], container: str | None = None) -> None:
    """Check that no path is an exported index, which only `bushel.open` accepts in place of its data.

    Raises:
        UnsupportedError: One is. With a container, such as `parquet`, its rows are meant, and nothing is refused.
    """
    for path in paths if container is None else ():
        if isinstance(path, Path) and _ends_as_index_file(path) and _has_metadata(path):
            raise UnsupportedError(
                f"{path} is an exported index, from which a dataset can be opened but not changed, indexed or checked: "
                "name the dataset itself"
            )


def _ends_as_index_file(place: Any) -> bool:
    return isinstance(place, str | os.PathLike) and os.fspath(place).endswith(SUFFIX)


def _has_metadata(path: Path) -> bool:
    if not path.is_file():
        return False
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(size - _TAIL, 0))
        tail = file.read(_TAIL)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != b"PAR1" or length > size - _TAIL:
            return False
        file.seek(size - _TAIL - length)
        if INDEX_FILE.encode() not in file.read(length):
            return False
    from bushel.containers.parquet.footer import read_footer

    return INDEX_FILE in read_footer(open_file(path)).metadata


def indexed_in(shards: Sequence[Shard], place: AnyPath) -> list[Shard]:
    """Return shards whose index is in a folder of its own.

    Raises:
        FormatError: Two shards have the same name, so that their indexes would be one file.
    """
    counts = Counter((shard.sidecars, shard.name) for shard in shards)
    twice = next((name for (_, name), count in counts.items() if count > 1), None)
    if twice is not None:
        raise FormatError(
            f"two shards have the name {twice!r}: one folder cannot hold the index of both",
            file=str(place),
            hint="name a folder for each of their folders, and join the datasets with bushel.concat",
        )
    return [replace(shard, index=place) for shard in shards]

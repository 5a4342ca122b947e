"""The folder in which the index of a dataset is kept, if that is not the folder of the data."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from bushel._dataset.open.caller_fields import POLICIES
from bushel._index.table import Shard
from bushel.errors import FormatError
from bushel.storage import AnyPath, absolute, as_path


def index_place(index: Any) -> AnyPath:
    """Return the folder that `index=` names.

    Raises:
        ValueError: It is a text without a slash, perhaps a misspelt policy; or a file.
    """
    if isinstance(index, str | os.PathLike) and os.path.isfile(index):
        raise ValueError(
            f"index={str(index)!r} is a file, and the index of a dataset is kept in"
            " a folder: name that"
        )
    if isinstance(index, str) and not any(sign in index for sign in ("/", os.sep)):
        raise ValueError(
            f"index={index!r} should be {', '.join(map(repr, POLICIES))}. To name a folder for"
            " the index, write "
            f"{'./' + index!r}"
        )
    return absolute(as_path(index))


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


def index_is_in_cache() -> bool:
    """Return whether the user keeps indexes of local data in the cache, too: `BUSHEL_INDEX=cache`.

    Raises:
        ValueError: The variable has another value.
    """
    choice = os.environ.get("BUSHEL_INDEX") or "beside"
    if choice not in ("beside", "cache"):
        raise ValueError(
            f"the environment variable BUSHEL_INDEX is {choice!r}: expected 'cache' or 'beside'"
        )
    return choice == "cache"

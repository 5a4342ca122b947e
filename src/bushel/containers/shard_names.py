"""The names of a dataset's shards: those in a folder, and the next one."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from bushel._index.table import Shard
from bushel.storage import AnyPath


def file_shards(
    path: AnyPath, owns: Callable[[str], object], beside: Callable[[str], object] = lambda _: True
) -> list[Shard] | None:
    """Return the shard of a file, or a shard for each file of a folder, sorted by name; None without any.

    Args:
        path: The file or folder.
        owns: Returns whether a file of this name, in lower case, is one of the container.
        beside: Returns whether another file of this name may be in the folder. Hidden files may.
    """
    if not path.is_dir():
        if owns(path.name.lower()):
            return [Shard.of(path)]
        return None
    names = sorted(entry.name for entry in path.iterdir() if not entry.name.startswith("."))
    owned = [name for name in names if owns(name.lower())]
    strange = (name for name in names if not owns(name.lower()) and not beside(name))
    if owned and next(strange, None) is None:
        return [Shard(path, name, (name,)) for name in owned]
    return None


_NUMBERED = r"(?P<stem>.*?)(?P<number>\d+)"


def next_name(names: Sequence[str], *, suffix: str, stem: str = "") -> str:
    """Return a name that sorts after `names`, in the pattern of the last one if possible.

    Args:
        names: The names of the shards so far, sorted.
        suffix: The end of all names, such as `.tar`.
        stem: The start of the first shard's name.
    """
    if not names:
        return f"{stem}{0:06d}{suffix}"
    numbered = [
        match for name in names if (match := re.fullmatch(_NUMBERED, name.removesuffix(suffix)))
    ]
    number = max([len(names), *(int(match["number"]) + 1 for match in numbered)])
    last = re.fullmatch(_NUMBERED, names[-1].removesuffix(suffix))
    if last is not None and len(str(number)) <= len(last["number"]):
        return f"{last['stem']}{number:0{len(last['number'])}d}{suffix}"
    # `_` sorts after the dot of the suffix
    return f"{names[-1].removesuffix(suffix)}_{number:06d}{suffix}"

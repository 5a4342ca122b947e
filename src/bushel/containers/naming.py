"""Names of new shards in folders that are read in the order of their names."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["name_behind"]

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d+)")


def name_behind(names: Sequence[str], number: int, *, suffix: str, stem: str = "") -> str:
    """A name that sorts behind these names, of the same pattern as the last of them if possible.

    Args:
        names: The names that are there, sorted.
        number: The number of the new shard; where that is taken, it gets a higher one.
        suffix: What names end in, such as `.tar`.
        stem: What the name of a first shard begins with.
    """
    if not names:
        return f"{stem}{number:06d}{suffix}"
    numbered = [match for name in names if (match := _NUMBERED.fullmatch(name.removesuffix(suffix)))]
    number = max([number, *(int(match["number"]) + 1 for match in numbered)])
    last = _NUMBERED.fullmatch(names[-1].removesuffix(suffix))
    if last is not None and len(str(number)) <= len(last["number"]):
        return f"{last['stem']}{number:0{len(last['number'])}d}{suffix}"
    return f"{names[-1].removesuffix(suffix)}_{number:06d}{suffix}"  # `_` sorts behind the dot of the suffix

"""The names of new shards."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["next_name"]

_NUMBERED = re.compile(r"(?P<stem>.*?)(?P<number>\d+)")


def next_name(names: Sequence[str], *, suffix: str, stem: str = "") -> str:
    """Return a name that sorts after `names`, in the pattern of the last one if possible.

    Args:
        names: The names of the shards so far, sorted.
        suffix: The end of all names, such as `.tar`.
        stem: The start of the first shard's name.
    """
    if not names:
        return f"{stem}{0:06d}{suffix}"
    numbered = [match for name in names if (match := _NUMBERED.fullmatch(name.removesuffix(suffix)))]
    number = max([len(names), *(int(match["number"]) + 1 for match in numbered)])
    last = _NUMBERED.fullmatch(names[-1].removesuffix(suffix))
    if last is not None and len(str(number)) <= len(last["number"]):
        return f"{last['stem']}{number:0{len(last['number'])}d}{suffix}"
    return f"{names[-1].removesuffix(suffix)}_{number:06d}{suffix}"  # `_` sorts after the dot of the suffix

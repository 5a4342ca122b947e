"""Files that programs leave beside data: copies, previews and settings. They do not belong to any dataset."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

_FOLDERS = ("__MACOSX", ".ipynb_checkpoints")
_FILES = (".DS_Store", "Thumbs.db", "desktop.ini")
_ENDS = ("~", ":Zone.Identifier")
_SIGNS = ("._", *_FOLDERS, *_FILES, *_ENDS)
"""A text of names that contains none of these has no junk."""

_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_BYTE_SIGNS = tuple(sign.encode() for sign in _SIGNS)
_JUNK = re.compile(
    rf"(?:.*/)?(?:(?P<folder>{'|'.join(map(re.escape, _FOLDERS))})/.*"
    rf"|(?P<file>{'|'.join(map(re.escape, _FILES))})"
    rf"|(?P<copy>\._)[^/]*"
    rf"|[^/]*(?P<end>{'|'.join(_ENDS)}))",
    re.DOTALL,
)


_HIDDEN = re.compile(r"(?:.*?/)??\.+[^./][^/]*(?P<folder>/?)", re.DOTALL)
"""A path up to its first name that begins with a dot and has other characters, and its slash if it is a folder."""


def junk_kind(name: str) -> str | None:
    """Return how a report calls a junk file, `._*` or `.DS_Store`; None for a file that may be data.

    Args:
        name: Its path relative to the dataset.
    """
    if _SIGN.search(name) is None:  # most names: the pattern for all of a name takes twice as long
        return None
    match = _JUNK.fullmatch(name)
    if match is None:
        return None
    kind = match[match.lastgroup or 0]
    if match.lastgroup == "copy":
        return "._*"
    if match.lastgroup == "end":
        return f"*{kind}"
    return kind


class LeftOut:
    """Counts the files that are not data: junk, and hidden files and folders.

    Attributes:
        counts: How many there are of each kind, in words. A hidden folder is one.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._hidden_folders = set[str]()

    def is_data(self, name: str) -> bool:
        """Return whether a file may be data; count it if not."""
        hidden, kind = _HIDDEN.match(name), junk_kind(name)
        if hidden is None and kind is None:
            return True
        if hidden is None or not hidden["folder"]:
            self.counts[kind or "hidden"] += 1
        elif hidden[0] not in self._hidden_folders:
            self._hidden_folders.add(hidden[0])
            self.counts[kind or "hidden folder"] += 1
        return False


def may_hold_junk(text: bytes) -> bool:
    """Return whether names, one after another in UTF-8, may have junk among them. It is quick for millions."""
    return any(sign in text for sign in _BYTE_SIGNS)


def without_junk(names: Sequence[str]) -> tuple[Sequence[str], Counter[str]]:
    """Return the names that may be data, in order, and how many of each kind of junk are left out."""
    text = "/".join(["", *names])
    left_out = LeftOut()
    if not any(sign in text for sign in ("/.", *_SIGNS)):
        return names, left_out.counts
    return list(filter(left_out.is_data, names)), left_out.counts


def counted(kinds: Iterable[tuple[str, int]], most: int = 5) -> str:
    """Return the files that are left out, in words: `3 files (2 ._*, 1 .txt)`."""
    ordered = sorted(kinds, key=lambda each: (-each[1], each[0]))
    total = sum(count for _, count in ordered)
    named = [f"{count:,} {kind}" for kind, count in ordered[:most]]
    more = ["…"] if len(ordered) > most else []
    return f"{total:,} file{'s' if total != 1 else ''} ({', '.join(named + more)})"

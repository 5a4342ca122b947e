"""An array of JSON as lines: its objects are separated by line ends, and every byte keeps its place."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from bushel._runtime.arrays import I64, U8, Bools
from bushel.errors import FormatError
from bushel.storage import File

ARRAYS = (".json", ".json.gz", ".json.zst")
"""Ends of the names of files that hold one array."""

_LONGEST_SPACE, _LONGEST_LINE = 1 << 12, 1 << 20
_LINE_END, _SPACE, _COMMA = b"\n ,"
_QUOTE, _BACKSLASH, _BRACE_END = b'"\\}'
_DEPTH = np.zeros(256, np.int8)
_DEPTH[list(b"[{")], _DEPTH[list(b"]}")] = 1, -1
_STRUCTURE = _DEPTH != 0
_STRUCTURE[_COMMA] = True
_IS_SPACE = np.zeros(256, np.bool_)
_IS_SPACE[list(b" \t\r\n")] = True


def holds_lines(lines: File, start: int) -> bool:
    """Return whether a text is lines of objects, as many files of the Hub with the name of an array are."""
    head = bytes(lines.read(start, min(_LONGEST_LINE, lines.size - start))).lstrip()
    first, end, following = head.partition(b"\n")
    if not end or not first.startswith(b"{") or not following.lstrip().startswith(b"{"):
        return False
    try:
        return isinstance(msgspec.json.decode(first), dict)
    except (msgspec.MsgspecError, RecursionError):
        return False


def start_of_array(lines: File, start: int, path: str) -> int:
    """Return where the first object of an array may begin.

    Args:
        lines: The file, expanded if it is compressed.
        start: Where its text begins.
        path: Its path, for errors.

    Raises:
        FormatError: The text is not an array.
    """
    head = bytes(lines.read(start, min(_LONGEST_SPACE, lines.size - start)))
    text = head.lstrip()
    if text.startswith(b"["):
        return start + len(head) - len(text) + 1
    problem, hint = "its text is not an array of objects, one for each sample", None
    if text.startswith(b"{"):
        problem = "its text is an object, not an array of objects, one for each sample"
        hint = (
            f"jq -c '.NAME[]' {path} > rows.jsonl makes lines of the array NAME in it; jq -c ."
            " makes one line of all"
        )
    raise FormatError(problem, path, start, hint)


class ArrayLines:
    """Reads an array from front to back as lines.

    Line ends in the text become spaces, as both mean nothing there, and the commas between objects
    become line ends. Other commas stay, so that anything but an array of objects is an error of its
    line.

    Args:
        read: Reads bytes of the file, from front to back.
        start: Where the first object may begin.

    Attributes:
        ended: Whether the end of the array was read.
        trailing: Offset of the first byte after the array that is not a space; None if only spaces
            follow.
    """

    def __init__(self, read: Callable[[int, int], bytes | memoryview], start: int) -> None:
        self._read, self._start = read, start
        self.ended, self._after = False, 0  # where what follows the array begins
        self.trailing: int | None = None

    def read(self, at: int, length: int) -> memoryview:
        """Return bytes as lines. They begin at the start of a line, or after the end of the array."""
        text = np.frombuffer(self._read(at, length), np.uint8)
        if not text.flags.writeable:
            text = text.copy()
        if self.ended and at >= self._after:  # bytes before are read again after a damaged object
            self._blank(text, 0, at)
            return text.data
        outside = ~_in_quotes(text)
        text[outside & ((text == _LINE_END) | (text == ord("\r")))] = _SPACE
        places = np.flatnonzero(outside & _STRUCTURE[text])
        depth = np.cumsum(_DEPTH[text[places]], dtype=np.int64)
        ends = places[depth < 0][:1]
        commas = places[(depth == 0) & (text[places] == _COMMA)]
        commas = commas[commas < (ends[0] if len(ends) else len(text))]
        between = commas[_last_before(text, commas) == _BRACE_END]
        if len(ends) and text[ends[0]] == ord("]"):
            last = _last_before(text, ends)[0]
            if last == _BRACE_END or (last == _SPACE and at == self._start):
                text[ends[0]] = _LINE_END
                self.ended, self._after = True, at + int(ends[0]) + 1
                self._blank(text, int(ends[0]) + 1, at)
        text[between] = _LINE_END
        return text.data

    def _blank(self, text: U8, first: int, at: int) -> None:
        """Replace what follows the array by spaces, and note where it begins."""
        rest = text[first:]
        words = np.flatnonzero(~_IS_SPACE[rest])
        if len(words) and self.trailing is None:
            self.trailing = at + first + int(words[0])
        rest[:] = _SPACE


def _in_quotes(text: U8) -> Bools:
    """Return whether each byte is in a string, whose first quote does, and whose last one does not."""
    quotes = text == _QUOTE
    slashes = np.flatnonzero(text == _BACKSLASH)
    if len(slashes):
        first = np.flatnonzero(np.diff(slashes, prepend=-2) != 1)  # of each run of backslashes
        length = np.diff(first, append=len(slashes))
        after = slashes[first] + length
        odd = after[(length % 2 == 1) & (after < len(text))]
        quotes[odd] = False
    inside: Bools = np.cumsum(quotes, dtype=np.uint8) % 2 == 1
    return inside


def _last_before(text: U8, places: I64) -> U8:
    """Return the last byte before each place that is not a space; a space if only spaces come before it."""
    before = np.where(places > 0, text[places - 1], np.uint8(_SPACE))
    if _IS_SPACE[before].any():
        words = np.flatnonzero(~_IS_SPACE[text])
        at = np.searchsorted(words, places) - 1
        before = np.where(at >= 0, text[words[at]] if len(words) else before, np.uint8(_SPACE))
    return before

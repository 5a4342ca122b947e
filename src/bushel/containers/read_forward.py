"""Read a file from front to back, plain, compressed or as an array of JSON, with memory that does not grow with it.

An array of JSON is read as lines: its objects are separated by line ends, and every byte keeps its
place.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from bushel._runtime.arrays import I64, U8, Bools
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.kernels import MappedFile
from bushel.storage import BlockFile, File

_CHUNK = 1 << 20
"""Bytes of a local file that are scanned at a time: the scan finds them in the processor's cache."""

_CHUNK_OF_REQUEST = 1 << 22


class _Local:
    """Reads a local file into memory that is used again, since new memory takes more time than reading."""

    def __init__(self, file: MappedFile) -> None:
        self._file, self._data = file, np.empty(0, np.uint8)

    def read(self, at: int, length: int) -> memoryview:
        """Return bytes, until the next call."""
        if len(self._data) != length:
            self._data = np.empty(length, np.uint8)
        self._file.read_into(at, self._data)
        return self._data.data


class _Expanded:
    """Reads a compressed file from front to back. Expanded blocks are not kept, unlike those that values are in."""

    def __init__(self, real: File, blocks: BlockFile) -> None:
        self._real, self._blocks, self._block = real, blocks, 0
        # where each expanded block begins, and its bytes
        self._held: list[tuple[int, memoryview]] = []

    def read(self, at: int, length: int) -> bytes | memoryview:
        """Return bytes that begin at or after the bytes of the last call: a large block is not copied for each call.

        Raises:
            FormatError: A block cannot be expanded.
        """
        self._held = [(start, data) for start, data in self._held if start + len(data) > at]
        while not self._held or self._held[-1][0] + len(self._held[-1][1]) < at + length:
            number, self._block = self._block, self._block + 1
            start, data = int(self._blocks.blocks.start[number]), self._expanded(number)
            if start + len(data) > at:
                self._held.append((start, data))
        parts = [data[max(at - start, 0) : at + length - start] for start, data in self._held]
        if len(parts) == 1:
            return parts[0]
        return b"".join(parts)

    def _expanded(self, number: int) -> memoryview:
        blocks, real = self._blocks.blocks, self._real
        offset = int(blocks.offset[number])
        try:
            return self._blocks.expand(number, real.read(offset, int(blocks.length[number]))).data
        except FilterError as error:
            raise FormatError(str(error), real.path, offset) from error


def forward_reader(file: File, real: File) -> tuple[Callable[[int, int], bytes | memoryview], int]:
    """Return a reader of a file from front to back, and the number of bytes to ask for at a time.

    The reader takes an offset, which is not before that of the call before, and a length inside the
    file. The bytes are valid until the next call.

    Args:
        file: The file, or a block file.
        real: The file that has the bytes of its blocks.
    """
    if isinstance(file, BlockFile):
        return _Expanded(real, file).read, _CHUNK_OF_REQUEST
    if isinstance(file, MappedFile):
        return _Local(file).read, _CHUNK
    return file.read, _CHUNK_OF_REQUEST


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
            f"jq -c '.NAME[]' {path} > rows.jsonl makes lines of "
            "the array NAME in it; jq -c . makes one line of all"
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

"""The table of FFRecord's packed folders, which maps files to records.

It is the last record: nine magic bytes and a pickle of nested ordered dicts, name to record number
for a file, name to dict for a folder. A pickle is a program, so this one is never passed to
`pickle.load`: `parse_folder` understands the few opcodes that such a pickle consists of, refuses
all others, and calls nothing.
"""

from __future__ import annotations

import pickletools
from bisect import bisect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import numpy as np

from bushel import kernels
from bushel._runtime.arrays import I32, I64, U8, U64, joined
from bushel.errors import FormatError, SpecError
from bushel.kernels import KeySet

MAGIC = b"piouhjgbr"

_DEPTH = 100
# limit on characters of paths per byte of the table, against nested names made to fill the memory
_EXPANSION = 64
_CONSTANTS = frozenset(
    ("SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "BININT1", "BININT2", "BININT", "LONG1")
)
"""The opcodes of texts and integers."""
_ORDERED_DICT, _NOTHING = object(), object()
_FRAME = 1 << 16  # bytes of a frame of a pickle, at least
_ENTRIES = 1000  # entries of a dict that a pickle adds at once
_ROWS = 1 << 16  # paths that are looked at together
_SLASH = ord("/")


def parse_folder(record: bytes) -> tuple[list[str], list[str]]:
    """Read the table.

    Args:
        record: The last record, magic included.

    Returns:
        The files' paths by record number, and the paths of empty folders.

    Raises:
        FormatError: The record is not such a table. The offset in the error counts from the start
            of the record.
    """
    root = _root_of(record)
    files: dict[int, str] = {}
    empty: list[str] = []
    waiting: list[tuple[str, dict[str, Any]]] = [("", root)]
    seen: set[int] = set()
    room = _EXPANSION * len(record) + (1 << 20)
    while waiting:
        prefix, folder = waiting.pop()
        if id(folder) in seen:
            raise FormatError(
                f"the folder {prefix!r} appears twice in the packed folder's table", offset=0
            )
        seen.add(id(folder))
        if not folder and prefix:
            empty.append(prefix[:-1])
        for name, entry in folder.items():
            path = prefix + name
            if (room := room - len(path)) < 0:
                raise FormatError(
                    "the paths of a packed folder are far longer than its table", offset=0
                )
            if isinstance(entry, dict):
                waiting.append((f"{path}/", entry))
            elif not isinstance(entry, int) or entry in files:
                raise FormatError(
                    f"the file {path!r} shares its record number with another", offset=0
                )
            else:
                files[entry] = path
    if files and not (min(files) == 0 and max(files) == len(files) - 1):
        raise FormatError(
            f"the record numbers of {len(files)} files are not 0 to {len(files) - 1}", offset=0
        )
    return [files[number] for number in range(len(files))], sorted(empty)


class FolderPaths:
    """Paths of files that can be together in one folder.

    It keeps the folders. It keeps the files, too, as soon as a folder is added beside files, which
    most datasets never do.

    Args:
        folders: Folders that are kept although they hold no file.
        written: Yields the paths of the files that were added, some at a time.

    Attributes:
        files: Number of files.

    Raises:
        SpecError: A path is invalid; the message names it.
    """

    def __init__(
        self,
        folders: Iterable[str] = (),
        written: Callable[[], Iterable[Sequence[str]]] = tuple,
    ) -> None:
        self.files = 0
        self._written: Callable[[], Iterable[Sequence[str]]] = written
        self._latest: Sequence[str] = ()
        self._folders, self._with_files = KeySet(), KeySet()
        self._files: KeySet | None = None
        for path in folders:
            _check_path(path)
            self._folders.add_all(self._missing_folders(path, path))
        for paths in written():
            self.add_all(paths)

    def check(self, path: str) -> list[str]:
        """Return the folders that have to be added for a file.

        Raises:
            SpecError: The file cannot be added; the message names the reason.
        """
        _check_path(path)
        if path in self._folders:
            raise SpecError(f"the key {path!r} is already the folder of other keys")
        return self._missing_folders(path.rpartition("/")[0], path)

    def add_all(self, paths: Sequence[str]) -> None:
        """Add the files of the next records.

        Raises:
            SpecError: As for `check`. The files before that one are added.
        """
        self._latest = paths
        for path in paths:
            self._folders.add_all(self.check(path))
            self._with_files.add(path.rpartition("/")[0])
            if self._files is not None:
                self._files.add(path)
            self.files += 1

    def _missing_folders(self, folder: str, path: str) -> list[str]:
        """Return a folder and the folders above it, without the existing ones."""
        missing = []
        while folder and folder not in self._folders:
            above = folder.rpartition("/")[0]
            if above in self._with_files and folder in self._all_files():
                raise SpecError(
                    f"the key {path!r} needs a folder, but "
                    f"{folder!r} is already a file: it cannot be both"
                )
            missing.append(folder)
            folder = above
        return missing

    def _all_files(self) -> KeySet:
        if self._files is None:
            self._files = KeySet()
            for paths in (*self._written(), self._latest):
                self._files.add_all(paths)
        return self._files


def _check_path(path: str) -> None:
    parts = path.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in path or len(parts) > _DEPTH:
        raise SpecError(
            f"the key {path!r} is not a path in a folder: ffrecord keeps "
            "samples under relative paths such as 'cats/12.jpg', of at "
            f"most {_DEPTH} parts, and no part may be empty, '.' or '..'"
        )


def write_table(
    write: Callable[[bytes], object], text: U8, offsets: I64, empty: Iterable[str]
) -> None:
    """Write the table as FFRecord's own `pack_folder` does: sorted by name, pickle protocol 4.

    Args:
        write: Takes the table piece by piece.
        text: uint8[total], the paths of the files in UTF-8, by record number.
        offsets: int64[files + 1]; path `i` is `text[offsets[i]:offsets[i + 1]]`.
        empty: Folders that are kept although they hold no file.
    """
    text, offsets = _as_pickled(text, offsets)
    folders = sorted({f"{path}/".encode("utf-8", "surrogatepass") for path in empty})
    if folders:  # rows after the files
        names, ends = joined(folders)
        text, offsets = np.append(text, names), np.append(offsets, offsets[-1] + ends[1:])
    write(MAGIC)
    _TableWriter(write, text, offsets).run()


def _as_pickled(text: U8, offsets: I64) -> tuple[U8, I64]:
    """Return paths as `pickle` stores them: bytes that are not UTF-8 become surrogates of three bytes."""
    files = len(offsets) - 1
    try:
        for first in range(0, files, _ROWS):
            last = min(first + _ROWS, files)
            str(text[offsets[first] : offsets[last]].data, "utf-8")
    except UnicodeDecodeError:
        paths = kernels.decode_keys(text, offsets, np.arange(files))
        return joined([path.encode("utf-8", "surrogatepass") for path in paths])
    return text, offsets


def _in_order(text: U8, offsets: I64) -> I32:
    """Return the rows of paths, sorted by their parts: int32[paths].

    They are sorted by eight bytes at a time, the last ones first.
    """
    steps = (np.diff(offsets) - 1) // 8
    order = np.zeros(0, np.int32)
    for step in range(steps.max(initial=-1), -1, -1):
        # shorter paths come first where the rest is equal
        order = np.concatenate([np.flatnonzero(steps == step).astype(np.int32), order])
        words = _words(text, offsets, order, 8 * step)
        if (words[1:] < words[:-1]).any():
            order = order[np.argsort(words, kind="stable")]
    return order


def _words(text: U8, offsets: I64, rows: I32, at: int) -> U64:
    """Return eight bytes of each path as a number: uint64[rows]. A slash, which sorts first, and the end are 0."""
    words = np.zeros(len(rows), np.uint64)
    for first in range(0, len(rows), _ROWS):
        some, word = rows[first : first + _ROWS], words[first : first + _ROWS]
        place = offsets[some] + at
        left = offsets[some + 1] - place
        for number in range(8):
            byte = text[np.minimum(place + number, len(text) - 1)]
            byte = np.where((left > number) & (byte != _SLASH), byte, np.uint8(0))
            word <<= np.uint64(8)
            word |= byte
    return words


class _TableWriter:
    """Writes what `pickle` writes of ordered dicts, without making them in memory.

    It numbers objects as `pickle` memoizes them, and ends a frame of 64 KiB before the next object.

    Args:
        write: Takes the pickle piece by piece.
        text: uint8[total], paths as `pickle` stores them; an empty folder ends with a slash.
        offsets: int64[paths + 1], where they begin in `text`.
    """

    def __init__(self, write: Callable[[bytes], object], text: U8, offsets: I64) -> None:
        self._write, self._text, self._offsets = write, text.data, offsets
        self._order = _in_order(text, offsets)
        self._block: list[bytes] = []  # some of the paths in order
        self._first = 0  # number of the first of them
        self._frame = bytearray()
        self._objects = 0
        self._shared: dict[bytes, int] = {}  # numbers of the names of one character

    def run(self) -> None:
        """Write the pickle."""
        self._write(b"\x80\x04")
        self._name(b"collections")
        self._name(b"OrderedDict")
        self._frame += b"\x93\x94"
        self._objects += 1
        self._folder(0, len(self._order), 0)
        self._frame += b"."
        self._end_frame()

    def _folder(self, first: int, last: int, depth: int) -> None:
        """Write the dict of a folder, whose own path has `depth` bytes: of the paths `first` to `last` in order."""
        self._put(b")R\x94")
        self._objects += 1
        if first < last and len(self._path(first)) == depth:
            first += 1  # the folder itself
        entries, several = 0, False
        while first < last:
            path = self._path(first)
            slash = path.find(b"/", depth)
            if slash < 0:
                name, end = path[depth:], first + 1
            else:
                name, end = path[depth:slash], self._end_of(path[: slash + 1], first, last)
            if not entries:
                several = end < last
                self._frame += b"(" * several
            self._name(name)
            if slash < 0:
                self._number(int(self._order[first]))
            else:
                self._put(b"h\x02")  # the class, which was the third object
                self._folder(first, end, slash + 1)
            first, entries = end, entries + 1
            if entries == _ENTRIES or first == last:
                self._frame += b"u" if several else b"s"
                entries = 0

    def _end_of(self, folder: bytes, first: int, last: int) -> int:
        """Return the number of the first path in order that is not in the folder of path `first`."""
        step = 1
        while first + step < last and self._is_in(folder, first + step):
            first += step
            step *= 2
        later = range(first + 1, min(first + step, last))
        return later.start + bisect(later, False, key=lambda n: not self._is_in(folder, n))

    def _is_in(self, folder: bytes, number: int) -> bool:
        row = self._order[number]
        start = int(self._offsets[row])
        return self._text[start : min(start + len(folder), int(self._offsets[row + 1]))] == folder

    def _path(self, number: int) -> bytes:
        """Return a path by its number in order."""
        if not 0 <= number - self._first < len(self._block):
            self._first = number
            rows = self._order[number : number + _ENTRIES]
            starts, ends = self._offsets[rows].tolist(), self._offsets[rows + 1].tolist()
            self._block = [
                bytes(self._text[start:end]) for start, end in zip(starts, ends, strict=True)
            ]
        return self._block[number - self._first]

    def _name(self, name: bytes) -> None:
        if name in self._shared:
            number = self._shared[name]
            self._put(b"h%c" % number if number < 256 else b"j" + number.to_bytes(4, "little"))
            return
        if len(name) < 256:
            self._put(b"\x8c%c" % len(name) + name)
        elif len(name) < _FRAME:
            self._put(b"X" + len(name).to_bytes(4, "little") + name)
        else:
            self._end_frame()
            self._write(b"X" + len(name).to_bytes(4, "little") + name)
        if len(name) == 1 or name[:1] in (b"\xc2", b"\xc3") and len(name) == 2:
            self._shared[name] = self._objects  # for Python, equal ones are the same object
        self._frame += b"\x94"
        self._objects += 1

    def _number(self, number: int) -> None:
        if number < 1 << 8:
            self._put(b"K%c" % number)
        elif number < 1 << 16:
            self._put(b"M" + number.to_bytes(2, "little"))
        else:
            self._put(b"J" + number.to_bytes(4, "little", signed=True))

    def _put(self, opcode: bytes) -> None:
        """Write an object or a part of one. A long frame ends before it."""
        if len(self._frame) >= _FRAME:
            self._end_frame()
        self._frame += opcode

    def _end_frame(self) -> None:
        if len(self._frame) >= 4:
            self._write(b"\x95" + len(self._frame).to_bytes(8, "little"))
        self._write(bytes(self._frame))
        self._frame.clear()


def _root_of(record: bytes) -> dict[str, Any]:
    """Return the dict that a table builds, by the opcodes that build ordered dicts of text and integers."""
    start = len(MAGIC)
    if not record.startswith(MAGIC):
        raise FormatError(
            f"expected the table of a packed folder to start with {MAGIC!r}", offset=0
        )
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    try:
        for opcode, argument, position in pickletools.genops(record[len(MAGIC) :]):
            start, name = len(MAGIC) + cast("int", position), opcode.name
            if name in _CONSTANTS:
                stack.append(argument)
            elif name == "MEMOIZE":
                memo[len(memo)] = stack[-1]
            elif name in ("BINPUT", "LONG_BINPUT"):
                memo[cast("int", argument)] = stack[-1]
            elif name in ("BINGET", "LONG_BINGET"):
                stack.append(memo[cast("int", argument)])
            elif name != "STOP" and not _builds_dicts(name, argument, stack, marks):
                raise FormatError(
                    "this pickle does more than list files; it was not executed", offset=start
                )
        [root] = stack
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise FormatError("the pickle of a packed folder is malformed", offset=start) from error
    if marks or start + 1 != len(record):
        raise FormatError("the pickle of a packed folder is truncated", offset=start + 1)
    if not isinstance(root, dict):
        raise FormatError("the pickle of a packed folder does not hold a dict", offset=start)
    return root


def _builds_dicts(name: str, argument: object, stack: list[Any], marks: list[int]) -> bool:
    """Execute an opcode that makes or fills dicts. Return False for any other."""
    if name == "MARK":
        marks.append(len(stack))
    elif name == "EMPTY_TUPLE":
        stack.append(_NOTHING)
    elif name == "EMPTY_DICT":
        stack.append({})
    elif name in ("SETITEM", "SETITEMS"):
        first = marks.pop() if name == "SETITEMS" else len(stack) - 2
        entries = stack[first:]
        del stack[first:]
        if not isinstance(stack[-1], dict) or not all(isinstance(key, str) for key in entries[::2]):
            raise ValueError
        stack[-1].update(zip(entries[::2], entries[1::2], strict=True))
    elif name == "STACK_GLOBAL":
        names = stack[-2:]
        stack[-2:] = [_ORDERED_DICT]
        return names == ["collections", "OrderedDict"]
    elif name == "GLOBAL":
        stack.append(_ORDERED_DICT)
        return argument == "collections OrderedDict"
    elif name == "REDUCE":
        function, arguments = stack[-2:]
        stack[-2:] = [{}]
        return function is _ORDERED_DICT and arguments is _NOTHING
    else:
        return name == "FRAME" or (name == "PROTO" and cast("int", argument) <= 5)
    return True

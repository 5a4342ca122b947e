"""The table of FFRecord's packed folders, which maps files to records.

It is the last record: nine magic bytes and a pickle of nested ordered dicts, name to record number
for a file, name to dict for a folder. A pickle is a program, so this one is never passed to
`pickle.load`: `parse_folder` understands the few opcodes that such a pickle consists of, refuses
all others, and calls nothing.
"""

from __future__ import annotations

import pickle
import pickletools
import struct
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, cast

from bushel.errors import FormatError, SpecError

MAGIC = b"piouhjgbr"

_DEPTH = 100
# limit on characters of paths per byte of the table, against nested names made to fill the memory
_EXPANSION = 64
_OP: dict[str, int] = {op.name: ord(op.code) for op in pickletools.opcodes}
_TEXT = {_OP["SHORT_BINUNICODE"]: 1, _OP["BINUNICODE"]: 4, _OP["BINUNICODE8"]: 8}
_INTEGER = {_OP["BININT1"]: "<B", _OP["BININT2"]: "<H", _OP["BININT"]: "<i"}
_PUT = {_OP["BINPUT"]: 1, _OP["LONG_BINPUT"]: 4}
_GET = {_OP["BINGET"]: 1, _OP["LONG_BINGET"]: 4}
_ORDERED_DICT, _NOTHING = object(), object()
_Tree: TypeAlias = "dict[str, int | _Tree]"


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
    root = _Parser(record).run()
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


class FolderTree:
    """Paths of files that can be together in one folder.

    Args:
        paths: The files, by record number.
        folders: Folders that are kept although they hold no file.

    Attributes:
        files: Number of files.

    Raises:
        SpecError: The paths contradict each other; the message names them.
    """

    def __init__(self, paths: Iterable[str] = (), folders: Iterable[str] = ()) -> None:
        self._root: _Tree = {}
        self.files = 0
        for path in paths:
            self.add(path)
        for path in folders:
            self._add_folder(path)

    def check(self, path: str) -> list[str]:
        """Return the parts of a path that can be added.

        Raises:
            SpecError: The path cannot be added; the message names the reason.
        """
        *folders, name = parts = _parts(path)
        folder = self._folder(path, folders)
        if folder is not None and name in folder:
            if isinstance(folder[name], int):
                kind = "a file"
            else:
                kind = "the folder of other keys"
            raise SpecError(f"the key {path!r} is already {kind}")
        return parts

    def _folder(self, path: str, folders: Iterable[str]) -> _Tree | None:
        """Return the folder that a path needs, or None if it does not exist yet."""
        folder = self._root
        for part in folders:
            entry = folder.get(part)
            if isinstance(entry, int):
                raise SpecError(
                    f"the key {path!r} needs a folder, but {part!r} is already a"
                    " file: it cannot be both"
                )
            if entry is None:
                return None
            folder = entry
        return folder

    def add(self, path: str) -> None:
        """Add the file of the next record.

        Raises:
            SpecError: As for `check`.
        """
        *folders, name = self.check(path)
        folder = self._root
        for part in folders:
            folder = cast("_Tree", folder.setdefault(part, {}))
        folder[name] = self.files
        self.files += 1

    def _add_folder(self, path: str) -> None:
        """Add a folder. An existing one stays as it is."""
        parts = _parts(path)
        self._folder(path, parts)
        folder = self._root
        for part in parts:
            folder = cast("_Tree", folder.setdefault(part, {}))

    def record(self) -> bytes:
        """Return the table as FFRecord's own `pack_folder` writes it: sorted by name, pickle protocol 4."""
        return MAGIC + pickle.dumps(_Sorted(self._root), protocol=4)


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if "" in parts or "." in parts or ".." in parts or "\0" in path or len(parts) > _DEPTH:
        raise SpecError(
            f"the key {path!r} is not a path in a folder: ffrecord keeps samples under relative"
            " paths such as"
            f" 'cats/12.jpg', of at most {_DEPTH} parts, and no part may be empty, '.' or '..'"
        )
    return parts


class _Sorted:
    """A folder that is pickled as the ordered dict of its sorted entries, without making one in memory."""

    def __init__(self, tree: _Tree) -> None:
        self._tree = tree

    def __reduce__(self) -> tuple[Any, ...]:
        return OrderedDict, (), None, None, self._entries()

    def _entries(self) -> Iterator[tuple[str, int | _Sorted]]:
        for name in sorted(self._tree):
            entry = self._tree[name]
            yield name, entry if isinstance(entry, int) else _Sorted(entry)


class _Parser:
    """Executes the opcodes that build ordered dicts of text and integers."""

    def __init__(self, record: bytes) -> None:
        self.data = record
        self.at = len(MAGIC)
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}

    def run(self) -> dict[str, Any]:
        start = self.at
        if not self.data.startswith(MAGIC):
            raise FormatError(
                f"expected the table of a packed folder to start with {MAGIC!r}", offset=0
            )
        stack, memo = self.stack, self.memo
        try:
            while (op := self._number(1)) != _OP["STOP"]:
                start = self.at - 1
                if op in _TEXT:
                    stack.append(
                        self._take(self._number(_TEXT[op])).decode("utf-8", "surrogatepass")
                    )
                elif op == _OP["MEMOIZE"]:
                    memo[len(memo)] = stack[-1]
                elif op in _INTEGER:
                    layout = _INTEGER[op]
                    stack.append(struct.unpack(layout, self._take(struct.calcsize(layout)))[0])
                elif op in _PUT:
                    memo[self._number(_PUT[op])] = stack[-1]
                elif op in _GET:
                    stack.append(memo[self._number(_GET[op])])
                elif not self._build(op):
                    raise FormatError(
                        "this pickle does more than list files; it was not executed", offset=start
                    )
            [root] = stack
            if self.marks or self.at != len(self.data):
                raise FormatError("the pickle of a packed folder is truncated", offset=self.at)
        except (IndexError, KeyError, ValueError, TypeError) as error:
            raise FormatError("the pickle of a packed folder is malformed", offset=start) from error
        if not isinstance(root, dict):
            raise FormatError("the pickle of a packed folder does not hold a dict", offset=start)
        return root

    def _build(self, op: int) -> bool:
        """Execute an opcode that makes or fills dicts. Return False for any other."""
        stack = self.stack
        if op == _OP["MARK"]:
            self.marks.append(len(stack))
        elif op == _OP["EMPTY_TUPLE"]:
            stack.append(_NOTHING)
        elif op == _OP["EMPTY_DICT"]:
            stack.append({})
        elif op == _OP["SETITEM"]:
            value, name = stack.pop(), stack.pop()
            self._set(stack[-1], [name, value])
        elif op == _OP["SETITEMS"]:
            mark = self.marks.pop()
            items = stack[mark:]
            del stack[mark:]
            self._set(stack[-1], items)
        elif op == _OP["STACK_GLOBAL"]:
            name, module = stack.pop(), stack.pop()
            stack.append(_ORDERED_DICT)
            return bool((module, name) == ("collections", "OrderedDict"))
        elif op == _OP["GLOBAL"]:
            stack.append(_ORDERED_DICT)
            return self._line() == b"collections" and self._line() == b"OrderedDict"
        elif op == _OP["REDUCE"]:
            arguments, function = stack.pop(), stack.pop()
            stack.append({})
            return function is _ORDERED_DICT and arguments is _NOTHING
        elif op == _OP["LONG1"]:
            stack.append(int.from_bytes(self._take(self._number(1)), "little", signed=True))
        elif op == _OP["PROTO"]:
            return self._number(1) <= 5
        elif op == _OP["FRAME"]:
            self._number(8)
        else:
            return False
        return True

    @staticmethod
    def _set(target: Any, items: list[Any]) -> None:
        if (
            not isinstance(target, dict)
            or len(items) % 2
            or any(not isinstance(name, str) for name in items[::2])
        ):
            raise ValueError
        target.update(zip(items[::2], items[1::2], strict=True))

    def _take(self, length: int) -> bytes:
        self.at += length
        if self.at > len(self.data):
            raise ValueError
        return self.data[self.at - length : self.at]

    def _number(self, width: int) -> int:
        return int.from_bytes(self._take(width), "little")

    def _line(self) -> bytes:
        end = self.data.index(b"\n", self.at)
        line = self.data[self.at : end]
        self.at = end + 1
        return line

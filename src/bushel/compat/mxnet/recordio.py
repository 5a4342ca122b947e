"""`mxnet.recordio`: record files with and without an index, and image records."""

from __future__ import annotations

import itertools
import numbers
import os
import re
import shlex
import struct
import sys
from bisect import bisect_left
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn, Self

import numpy as np

import bushel
from bushel.compat.errors import raised_as
from bushel.containers.recordio import IMAGE_HEADER, RecordSink, check_key, parse_idx, read_record
from bushel.errors import FormatError
from bushel.storage import File, as_path, open_file

from .base import (
    Array,
    ClosedError,
    DamagedError,
    ImageError,
    IndexFileError,
    MXNetError,
    NoFileError,
    RecordTooLargeError,
    WrongModeError,
    naming_file,
)
from .pixels import UNCHANGED, decode, encode, swapped

__all__ = [
    "IRHeader",
    "MXIndexedRecordIO",
    "MXNetError",
    "MXRecordIO",
    "pack",
    "pack_img",
    "unpack",
    "unpack_img",
]

_HEADER = struct.Struct("<IfQQ")
_SMALL = 1 << 16
"""Longest record that is read together with its header. Copying a longer one costs more than a second read."""


def _damaged(error: FormatError) -> DamagedError:
    return DamagedError(error.message, file=error.file, offset=error.offset, hint=error.hint)


def removed_places(path: Any) -> list[int]:
    """Return the offset of a value in each record of a local file that `bushel remove` removed, ascending.

    Raises:
        FormatError: The list of removed samples is damaged.
    """
    if not isinstance(path, Path):
        return []
    rows = bushel.integrity.removed_positions(path, container="recordio")
    if not len(rows):
        return []
    with bushel.open([path], container="recordio", on_damage="raise") as dataset:
        index = dataset.shards[0].index
    offsets = np.full(index.samples, -1, np.int64)
    for extents in index.fields.values():
        if extents.starts is None:
            stored = rows[extents.length[rows] >= 0]
            offsets[stored] = extents.offset[stored]
        else:
            stored = rows[extents.starts[rows + 1] > extents.starts[rows]]
            offsets[stored] = extents.offset[extents.starts[stored]]
    file = next(iter(index.fields.values())).file
    return sorted(
        index.place(file, offset).offset for offset in offsets[rows].tolist() if offset >= 0
    )


class MXRecordIO:
    """Reads (`r`), writes (`w`) or appends (`a`) the records of a file, a path, `s3://…` or a path-like object.

    A record is in the file when `write` returns, so it can be read at once, and survives a killed
    process. Records of local files that `bushel remove` removed are skipped.
    """

    def __init__(self, uri: Any, flag: str) -> None:
        self._file: File | None = None
        self._sink: RecordSink | None = None
        self.uri, self.flag = uri, flag
        self.is_open = False
        self.writable = flag != "r"
        self._position = 0
        self._removed: list[int] = []
        self._writer_pid = 0
        self.open()

    def open(self) -> None:
        """Open the file again at its start; with `w` it becomes empty."""
        if self.flag not in ("r", "w", "a"):
            raise ValueError(f"Invalid flag {self.flag}: use r, w or a")
        if self.writable:
            self._sink = self._make_sink()
            self._writer_pid = os.getpid()
        else:
            with naming_file(self.uri):
                self._file = open_file(as_path(self.uri))
            self._position = 0
            with raised_as(DamagedError):
                self._removed = removed_places(as_path(self.uri))
        self.is_open = True

    def _make_sink(self, known: int = 0) -> RecordSink:
        try:
            with raised_as(DamagedError):
                return RecordSink(as_path(self.uri), append=self.flag == "a", known=known)
        except FileNotFoundError as error:  # its folder
            raise NoFileError(*error.args[:2], str(self.uri)) from error

    def close(self) -> None:
        if self._sink is not None:
            self._sink.close()
        self._file = self._sink = None
        self.is_open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def reset(self) -> None:
        self.close()
        self.open()

    def write(self, buf: bytes | bytearray | memoryview) -> None:
        self._append(buf)

    def _append(self, buf: bytes | bytearray | memoryview) -> int:
        if not isinstance(buf, bytes | bytearray | memoryview):
            raise TypeError(f"a record is bytes, not {type(buf).__name__}")
        try:
            return self._writing().append(buf)
        except ValueError as error:
            if isinstance(error, WrongModeError):
                raise
            raise RecordTooLargeError(f"{self.uri}: {error}") from error

    def read(self) -> bytes | None:
        """Return the next record, or None after the last one."""
        file = self._reading()
        while (start := self._position) < file.size:
            record = self._record(file, start)
            if not self._is_removed(start, self._position):
                return record
        return None

    def _is_removed(self, start: int, end: int) -> bool:
        return bisect_left(self._removed, start) < bisect_left(self._removed, end)

    def _record(self, file: File, offset: int, end: int | None = None) -> bytes:
        try:
            record, self._position = read_record(file, offset, end)
        except FormatError as error:
            raise _damaged(error) from error
        return record

    def _reading(self) -> File:
        if self._file is None:
            self._refuse("writing", was_open=self.writable is False)
        return self._file

    def _refuse(self, other: str, *, was_open: bool) -> NoReturn:
        """Raise the error of a file that is closed, or open for the other use; `was_open` for this one."""
        if self.is_open:
            raise WrongModeError(f"{self.uri} is open for {other}")
        kind = ClosedError if was_open else WrongModeError
        raise kind(f"{self.uri} is closed")

    def _writing(self) -> RecordSink:
        if self._sink is None:
            self._refuse("reading", was_open=self.writable is True)
        if self._writer_pid != os.getpid():
            raise RuntimeError("Forbidden operation in multiple processes: a file has one writer")
        return self._sink

    def __getstate__(self) -> dict[str, Any]:
        if self.writable:
            raise TypeError(
                f"{self.uri} is open for writing: a copy in another process would overwrite it"
            )
        return {**self.__dict__, "_file": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.is_open:
            self.open()


class MXIndexedRecordIO(MXRecordIO):
    """Reads records by their keys, or writes records with keys. `bushel rec2idx` makes a missing index.

    Threads may share a reader, and forked processes may continue with it. If a key is repeated, its
    last record counts.
    """

    def __init__(
        self, idx_path: Any, uri: Any, flag: str, key_type: Callable[[str], Any] = int
    ) -> None:
        self.idx_path, self.key_type = idx_path, key_type
        self.idx: dict[Any, int] = {}
        self.keys: list[Any] = []
        self._ends: dict[int, int] = {}
        self._lines: IO[bytes] | None = None
        super().__init__(uri, flag)

    def open(self) -> None:
        self.idx, self.keys = {}, []
        if self.flag == "r":
            super().open()  # the record file first: if both are missing, the error is about it
            self._load()
            return
        if self.flag == "a" and (as_path(self.idx_path).exists() or as_path(self.uri).exists()):
            self._load()
        super().open()
        if self.writable:
            self._lines = as_path(self.idx_path).open(f"{self.flag}b")

    def _make_sink(self, known: int = 0) -> RecordSink:
        return super()._make_sink(max(self.idx.values(), default=0))

    def _load(self) -> None:
        path = as_path(self.idx_path)
        with path.open("rb") as file:
            text = file.read()
        if self.flag == "a" and text and not text.endswith(b"\n"):
            hint = "run `" + shlex.join(["bushel", "rec2idx", str(self.uri), str(path)]) + "`"
            raise DamagedError("the last line is cut off", file=str(path), hint=hint)
        with raised_as(IndexFileError):
            table = parse_idx(_first_columns(text), str(path))
        count = len(table.offset)
        names = (
            map(str, range(count))
            if table.keys is None
            else table.keys.take(np.arange(count, dtype=np.int64))
        )
        self.keys = list(map(self.key_type, names))
        self.idx = dict(zip(self.keys, table.offset.tolist(), strict=True))
        starts = np.unique(table.offset).tolist()
        if self._removed and self.flag == "r":
            ends = dict(zip(starts, [*starts[1:], sys.maxsize], strict=True))
            self.idx = {
                key: at for key, at in self.idx.items() if not self._is_removed(at, ends[at])
            }
            self.keys = [key for key in self.keys if key in self.idx]
        self._ends = {
            start: end for start, end in itertools.pairwise(starts) if end - start <= _SMALL
        }

    def close(self) -> None:
        super().close()
        if self._lines is not None:
            self._lines.close()
            self._lines = None

    def seek(self, idx: Any) -> None:
        """Make the record with this key the next one to `read`. A closed reader is opened again."""
        self._open_again()
        self._position = self.idx[idx]

    def _open_again(self) -> File:
        if not (self.is_open or self.writable):
            self.open()
        return self._reading()

    def tell(self) -> int:
        """Return the offset of the next record to be written."""
        return self._writing().position

    def read_idx(self, idx: Any) -> bytes:
        """Return the record with this key. A closed reader is opened again."""
        file = self._file or self._open_again()
        offset = self.idx[idx]
        return self._record(file, offset, self._ends.get(offset))

    def write_idx(self, idx: Any, buf: bytes | bytearray | memoryview) -> None:
        """Append a record with a key, which must not contain tabs, line breaks or a leading space."""
        key = self.key_type(idx)
        name = check_key(str(key))
        offset = self._append(buf)
        assert self._lines is not None  # open for writing, or _append has raised
        self._lines.write(f"{name}\t{offset}\n".encode("utf-8", "surrogateescape"))
        self._lines.flush()
        self.idx[key] = offset
        self.keys.append(key)


def _first_columns(text: bytes) -> bytes:
    """Return the lines of an index without the columns after key and offset, which MXNet ignores."""
    if not re.search(rb"\t[^\t\n]*\t", text):
        return text
    return b"\n".join(b"\t".join(line.split(b"\t")[:2]) for line in text.split(b"\n"))


class IRHeader(NamedTuple):
    """Header of an image record; `flag` is the length of a label that is a vector, or 0 for a number."""

    flag: int
    label: Any
    id: int
    id2: int

    def __repr__(self) -> str:
        return f"HEADER(flag={self.flag!r}, label={self.label!r}, id={self.id!r}, id2={self.id2!r})"


def pack(header: Any, s: bytes | bytearray | memoryview) -> bytes:
    """Return an image record of any bytes. The flag is replaced by the label's length."""
    _, label, number, high = IRHeader(*header)
    with np.errstate(over="ignore"):  # larger numbers become infinite
        if isinstance(label, numbers.Number):
            return _HEADER.pack(0, float(np.float32(label)), number, high) + s  # type: ignore[arg-type]
        values = np.asarray(label, dtype="<f4")
    return _HEADER.pack(values.size, 0, number, high) + values.tobytes() + s


def unpack(s: bytes) -> tuple[IRHeader, bytes]:
    """Return header and image of an image record; the label is a float, or float32[flag]."""
    if len(s) < IMAGE_HEADER:
        raise DamagedError(
            f"an image record of {len(s)} bytes is shorter than its header of {IMAGE_HEADER}"
        )
    header = IRHeader(*_HEADER.unpack_from(s))
    if header.flag == 0:
        return header, s[IMAGE_HEADER:]
    start = IMAGE_HEADER + 4 * header.flag
    if len(s) < start:
        raise DamagedError(
            f"an image record of {len(s)} bytes cannot have a label of {header.flag} values"
        )
    return header._replace(label=np.frombuffer(s, "<f4", header.flag, IMAGE_HEADER)), s[start:]


def pack_img(header: Any, img: Any, quality: int = 95, img_fmt: str = ".jpg") -> bytes:
    """Return an image record of pixels in the order BGR. `quality` is 1 to 100 for a JPEG, 0 to 9 for a PNG."""
    return pack(header, encode(swapped(np.asarray(img)), img_fmt, quality))


def unpack_img(s: bytes, iscolor: int = UNCHANGED) -> tuple[IRHeader, Array | None]:
    """Return header and pixels (BGR) of an image record; the pixels are None if it does not hold a valid image."""
    header, data = unpack(s)
    try:
        return header, swapped(decode(data, iscolor))
    except ImageError:  # programs expect None, which OpenCV returns
        return header, None

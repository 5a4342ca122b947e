"""The journal of an unfinished shard, from which `Writer(mode="resume")` continues.

The journal is a file beside the staged files of a shard. It consists of frames of `<u4 length> <u4 CRC-32> <msgpack>`.
The first frame describes the shard. Each later frame is a checkpoint: the length of every staged file after the samples
written so far, a checksum of its bytes, and the index rows added since the previous checkpoint. The last frame may
state that the files are complete and are being renamed; only before this one the writer waits for the disk.

Frames after a damaged one are ignored, and so are checkpoints whose bytes are not in the staged files. So a journal
that was truncated by a kill is equivalent to one that ends a checkpoint earlier, and after a power cut the writer
continues from the last checkpoint that has wholly reached the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

import msgpack

from bushel._index.builders import IndexBuilder
from bushel._runtime.structs import Struct
from bushel.errors import FormatError, naming
from bushel.kernels import crc32
from bushel.storage import read_whole
from bushel.storage.names import inside
from bushel.storage.sink import checksum_of
from bushel.storage.whole import write_all

_NAME = "journal"
_FRAME = struct.Struct("<II")
_NOT_NOTED = (LookupError, TypeError, ValueError, AttributeError, OverflowError, msgpack.UnpackException)


class SavedShard(Struct, frozen=True):
    """The saved state of an unfinished shard."""

    head: dict[str, Any]  # description of the shard, as given to `Journal`
    positions: dict[str, int]  # number of bytes to keep of each staged file
    rows: list[dict[str, Any]]  # index rows of the checkpoints; `restore` puts them back
    samples: int  # number of samples in them
    commit: list[str] | None  # names of the files, in order, if the shard was complete and being renamed

    def restore(self, builder: IndexBuilder) -> None:
        """Add the saved rows to an empty builder."""
        for rows in self.rows:
            builder.extend(rows)


class Journal:
    """Writer of the journal of one shard."""

    def __init__(self, folder: Path, *, head: Mapping[str, Any] | None) -> None:
        """Start a journal in a staging folder, or, without `head`, continue the existing one."""
        self._path = folder / _NAME
        self._samples = 0
        self._positions: dict[str, int] = {}
        if head is not None:
            self._path.unlink(missing_ok=True)
            self._write(dict(head))

    def resume(self, samples: int, positions: Mapping[str, int]) -> None:
        """Set how much the existing journal covers."""
        self._samples, self._positions = samples, dict(positions)

    def has_news(self, builder: IndexBuilder, positions: Mapping[str, int]) -> bool:
        """Return whether anything was written since the last checkpoint."""
        return builder.samples > self._samples or positions != self._positions

    def checkpoint(
        self,
        builder: IndexBuilder,
        positions: Mapping[str, int],
        checksums: Mapping[str, tuple[int, int]] | None = None,
    ) -> None:
        """Record the samples added since the last checkpoint. Their bytes must be in the staged files already.

        `positions` has the length of every staged file, and `checksums` a position, and the CRC-32 from there to its
        length.
        """
        if self.has_news(builder, positions):
            frame = {"positions": dict(positions), **builder.since(self._samples)}
            self._write(frame if checksums is None else {**frame, "checksums": dict(checksums)})
            self._samples, self._positions = builder.samples, dict(positions)

    def commit(self, names: list[str], *, sync: bool = True) -> None:
        """Record that the files are complete and about to be renamed; on disk if `sync`."""
        self._write({"commit": names}, sync=sync)

    def _write(self, frame: Mapping[str, Any], *, sync: bool = False) -> None:
        body = msgpack.packb(frame)
        with naming(self._path), open(self._path, "ab", buffering=0) as file:
            start = file.tell()
            try:
                write_all(file, _FRAME.pack(len(body), crc32(body)) + body)
                if sync:
                    os.fsync(file.fileno())
            except BaseException:
                file.truncate(start)  # a partial frame would hide the frames after it
                raise


def read_head(folder: Path) -> dict[str, Any] | None:
    """Return the description of the shard in a staging folder, or None without a usable journal."""
    try:
        with naming(folder / _NAME), open(folder / _NAME, "rb") as file:
            length, checksum = _FRAME.unpack(file.read(_FRAME.size))
            body = file.read(length)
    except (FileNotFoundError, struct.error):
        return None
    if not body or len(body) != length or crc32(body) != checksum:
        return None
    return _parsed(body, folder)


def read_journal(folder: Path) -> SavedShard | None:
    """Return the saved state in a staging folder, or None without a usable journal."""
    try:
        data = read_whole(folder / _NAME)
    except FileNotFoundError:
        return None
    frames, bodies = _whole_frames(data, folder)
    good = sum(_FRAME.size + len(body) for body in bodies)
    if not frames:
        return None
    if "commit" not in frames[-1]:
        with damage_of_journal(folder):
            whole = 1 + _stored_checkpoints(folder, frames[1:])
        good = sum(_FRAME.size + len(body) for body in bodies[:whole])
        del frames[whole:]
    with naming(folder / _NAME), open(folder / _NAME, "r+b") as file:
        file.truncate(good)
        os.fsync(file.fileno())  # or else frames that are written now could be followed by the old ones
    head, *rest = frames
    with damage_of_journal(folder):
        commit = rest.pop()["commit"] if rest and "commit" in rest[-1] else None
        samples = int(rest[-1]["samples"]) if rest else 0
        return SavedShard(head, dict(rest[-1]["positions"]) if rest else {}, rest, samples, commit)


def unplaced_files(folder: Path) -> list[str]:
    """Return the files in a staging folder that a killed writer was renaming and that do not have their names yet.

    Raises:
        FormatError: The journal is damaged.
    """
    try:
        frames, _ = _whole_frames(read_whole(folder / _NAME), folder)
    except FileNotFoundError:
        return []
    with damage_of_journal(folder):
        names = [str(name) for name in frames[-1].get("commit", ())] if frames else []
        return [name for name in names if inside(folder, name, any_text=True).exists()]


def _whole_frames(data: bytes, folder: Path) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Return the undamaged frames at the beginning of a journal, and their bytes."""
    frames: list[dict[str, Any]] = []
    bodies: list[bytes] = []
    at = 0
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if not body or len(body) != length or crc32(body) != checksum:  # a power cut leaves zeros
            break
        frames.append(_parsed(body, folder))
        bodies.append(body)
        at += _FRAME.size + length
    return frames, bodies


@contextmanager
def damage_of_journal(folder: Path) -> Iterator[None]:
    """Turn errors about invalid contents of a journal into a `FormatError`."""
    try:
        yield
    except _NOT_NOTED as error:
        hint = "delete the folder; the samples in it are lost"
        raise FormatError(f"not the journal of a writer: {error!r}", file=str(folder / _NAME), hint=hint) from error


def _parsed(body: bytes, folder: Path) -> dict[str, Any]:
    with damage_of_journal(folder):
        frame = msgpack.unpackb(body)
        return {str(name): each for name, each in frame.items()}


def _stored_checkpoints(folder: Path, frames: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of checkpoints whose bytes are in the staged files."""
    sums: dict[str, tuple[int, int, int]] = {}  # first byte, end, and CRC-32 of the compared bytes
    with ExitStack() as stack:
        files: dict[str, FileIO] = {}
        for number, frame in enumerate(frames):
            for name, (first, expected) in frame.get("checksums", {}).items():
                end = frame["positions"][name]
                start, at, found = sums.get(name, (-1, 0, 0))
                if start != first:  # the writer was resumed there
                    at, found = first, 0
                path = inside(folder, name, any_text=True)
                try:
                    if name not in files:
                        files[name] = stack.enter_context(open(path, "rb", buffering=0))
                except FileNotFoundError:
                    return number
                found = checksum_of(files[name], at, end, found)
                with naming(path):
                    size = os.fstat(files[name].fileno()).st_size
                if found != expected or size < end:
                    return number
                sums[name] = first, end, found
    return len(frames)

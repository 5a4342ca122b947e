"""The journal of an unfinished shard: what `Writer(mode="resume")` goes on from.

Beside the staged files of a shard lies a journal: frames of `<u4 length> <u4 CRC-32> <msgpack>`. The first frame says
what is being written. Each later one is a checkpoint: how long every staged file was when all samples up to there
were in it, and the rows of the index that were added since the checkpoint before. A last frame may say that the files
are whole and were being given their final names. Frames behind a damaged one are ignored, so a journal that was cut
by a kill is as good as one that ended a checkpoint earlier.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack

from bushel.core.index.builders import IndexBuilder
from bushel.errors import naming
from bushel.kernels import crc32

__all__ = ["Journal", "Kept", "read_journal"]

_NAME = "journal"
_FRAME = struct.Struct("<II")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a journal has of an unfinished shard.

    Attributes:
        head: What was being written, as given to `Journal.create`.
        positions: Bytes to keep of each staged file.
        rows: The checkpoints' rows, to be put back with `restore`.
        samples: Samples that they make.
        commit: Names of the files, in order, if the shard was whole and being renamed.
    """

    head: dict[str, Any]
    positions: dict[str, int]
    rows: list[dict[str, Any]]
    samples: int
    commit: list[str] | None

    def restore(self, builder: IndexBuilder) -> None:
        """Put the kept rows into an empty builder."""
        for rows in self.rows:
            builder.extend(rows)


class Journal:
    """Writes the journal of one shard."""

    def __init__(self, folder: Path, *, head: Mapping[str, Any] | None) -> None:
        """Start a journal in a staging folder, or, without `head`, go on with the one that is there."""
        self._path = folder / _NAME
        self._samples = 0
        self._positions: dict[str, int] = {}
        if head is not None:
            self._path.unlink(missing_ok=True)
            self._write(dict(head))

    def resume(self, samples: int, positions: Mapping[str, int]) -> None:
        """Say how much the journal on disk covers already."""
        self._samples, self._positions = samples, dict(positions)

    def checkpoint(self, builder: IndexBuilder, positions: Mapping[str, int]) -> None:
        """Record the samples added since the last checkpoint; their bytes must have been handed to the system."""
        if builder.samples > self._samples or positions != self._positions:
            self._write({"positions": dict(positions), **builder.since(self._samples)})
            self._samples, self._positions = builder.samples, dict(positions)

    def commit(self, names: list[str], *, sync: bool = True) -> None:
        """Record, on disk if `sync`, that the files are whole and about to get their final names."""
        self._write({"commit": names}, sync=sync)

    def _write(self, frame: Mapping[str, Any], *, sync: bool = False) -> None:
        body = msgpack.packb(frame)
        with naming(self._path), open(self._path, "ab", buffering=0) as file:
            start = file.tell()
            try:
                rest = memoryview(_FRAME.pack(len(body), crc32(body)) + body)
                while rest:
                    rest = rest[file.write(rest) :]
                if sync:
                    os.fsync(file.fileno())
            except BaseException:
                file.truncate(start)  # half a frame would hide those that come after it
                raise


def read_journal(folder: Path) -> Kept | None:
    """What the journal in a staging folder has, or None if there is no usable one."""
    try:
        data = (folder / _NAME).read_bytes()
    except FileNotFoundError:
        return None
    frames: list[dict[str, Any]] = []
    at, good = 0, 0
    while at + _FRAME.size <= len(data):
        length, checksum = _FRAME.unpack_from(data, at)
        body = data[at + _FRAME.size : at + _FRAME.size + length]
        if not body or len(body) != length or crc32(body) != checksum:  # a frame of zeros is what a power cut leaves
            break
        frames.append(msgpack.unpackb(body))
        at = good = at + _FRAME.size + length
    if not frames:
        return None
    os.truncate(folder / _NAME, good)
    head, *rest = frames
    commit = rest.pop()["commit"] if rest and "commit" in rest[-1] else None
    samples = rest[-1]["samples"] if rest else 0
    return Kept(head, rest[-1]["positions"] if rest else {}, rest, samples, commit)

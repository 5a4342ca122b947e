"""Datasets of all peers with the same records, each read by a process in the peer's environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import ROOT, SCRATCH, InEnvironment, Timing, console

PEERS = Path(__file__).resolve().parent / "peers"
CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


@dataclass(frozen=True, slots=True)
class Reader(InEnvironment):
    """One way to read the records.

    Attributes:
        name: Its name in tables.
        peer: The module `peers/peer_….py` that reads.
        data: Name of its dataset; several readers may share one.
        environment: Folder of `.interop` with its environment, or None for this interpreter.
    """

    name: str
    peer: str
    data: str
    environment: str | None = None

    def path(self, count: int, length: int) -> Path:
        """Return the path of its dataset of `count` records of `length` bytes."""
        return SCRATCH / f"records-{count}x{length}" / self.data

    def fill(self, count: int, length: int) -> Path:
        """Write its dataset if it does not exist."""
        path = self.path(count, length)
        done = path.with_name(path.name + ".done")
        if not done.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
            console.print(f"writing {path.relative_to(ROOT)}")
            command = [str(self.python), str(PEERS / "fill.py"), self.peer, str(path), str(count), str(length)]
            done.write_text(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return path


WARM_LIMITS = [
    Reader("numpy take", "gather", "gather"),
    Reader("memmap gather", "memmap", "gather"),
    Reader("mmap slices", "slices", "slices"),
]
COLD_LIMITS = [
    Reader("advised pread", "pread", "slices"),
    Reader("advised pread, after headers", "pread_headers", "headers"),
    Reader("mmap slices", "slices", "slices"),
]
OTHERS = [
    Reader("bagz", "bagz", "bagz.bag", "peers"),
    Reader("lmdb", "lmdb", "lmdb", "peers"),
    Reader("granular", "granular", "granular", "peers"),
    Reader("array_record", "array_record", "array_record", "peers"),
    Reader("mxnet", "mxnet", "mxnet.rec", "mxnet"),
]


def bushel_readers(
    peer: str, label: str, containers: tuple[str, ...] = CONTAINERS, *, keyed: bool = False
) -> list[Reader]:
    """Return a reader of each container. `keyed` datasets have a key of 16 characters per sample."""
    folder = "keyed/" if keyed else ""
    return [Reader(f"bushel {label} {container}", peer, f"{folder}{container}") for container in containers]


class Served:
    """A process that holds a dataset open and reads batches on request."""

    def __init__(self, reader: Reader, path: Path, count: int) -> None:
        self._reader = reader
        self._process = subprocess.Popen(
            [str(reader.python), str(PEERS / "serve.py"), reader.peer, str(path), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.opened: float = self._answer()["open"]

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of {self._reader.name} has ended with status {self._process.wait()}")
        return json.loads(line)

    def read(self, batch: int, seed: int, batches: int) -> Timing:
        """Read `batches` batches of random records."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{batch} {seed} {batches}\n")
        self._process.stdin.flush()
        answer = self._answer()
        return Timing(answer["records"], answer["wall"], answer["cpu"])

    def close(self) -> None:
        """Stop the process."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


@contextmanager
def serving(reader: Reader, path: Path, count: int) -> Iterator[Served]:
    """Provide a process that is stopped at the end of the block."""
    served = Served(reader, path, count)
    try:
        yield served
    finally:
        served.close()


def files_of(path: Path) -> list[Path]:
    """Return the files of a dataset, and the indexes that some peers store beside it."""
    beside = [path, path.with_name(path.name + ".offsets"), path.with_name(path.name + ".idx")]
    return [file for file in (path.rglob("*") if path.is_dir() else beside) if file.is_file()]


def remember(path: Path) -> None:
    """Read the files of a dataset into the page cache."""
    for file in files_of(path):
        with file.open("rb", buffering=0) as content:
            while content.read(1 << 24):
                pass


def forget(path: Path) -> None:
    """Drop the files of a dataset from the page cache, except for pages that a process has mapped and touched."""
    for file in files_of(path):
        handle = os.open(file, os.O_RDONLY)
        try:
            os.fsync(handle)
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)

"""Datapoints for the tests, and small classes at the top of a module, which pickle."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from bushel.compat import granular

SPEC = {"foo": "int", "bar": "utf8[]", "baz": "msgpack", "abc": "jpg", "xyz": "array"}


def point(number: int) -> dict[str, Any]:
    """The datapoint of the document."""
    return {
        "foo": number,
        "bar": ["hello"] * number,
        "baz": {"a": 1},
        "abc": np.zeros((60, 80, 3), np.uint8),
        "xyz": np.arange(0, 1 + number, dtype=np.float32),
    }


def write(folder: Path, count: int = 10) -> Path:
    """A dataset of the document."""
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
        for number in range(count):
            writer.append(point(number))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def label(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
    """A function for a loader, at the top of a module so that processes find it."""
    return {"label": datapoint["foo"], "noise": np.random.default_rng(seed).integers(1000)}


def fail_at_three(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
    """Fail for one datapoint."""
    if datapoint["foo"] == 3:
        raise ZeroDivisionError("three")
    return datapoint


class Elements:
    """A path of another file system, held in memory, with only the methods that Granular needs.

    Attributes:
        read: Names of the files that were read, once for each read.
    """

    def __init__(self, disk: dict[str, bytes], path: str, read: list[str] | None = None) -> None:
        self._disk, self._path = disk, path
        self.read: list[str] = [] if read is None else read

    def _at(self, path: str) -> Elements:
        return Elements(self._disk, path, self.read)

    def __str__(self) -> str:
        return f"mem://{self._path}"

    def __truediv__(self, part: str) -> Elements:
        assert "/" not in part
        return self._at(f"{self._path}/{part}")

    @property
    def name(self) -> str:
        """The last component."""
        return self._path.rpartition("/")[2]

    def with_suffix(self, suffix: str) -> Elements:
        """Another suffix."""
        return self._at(self._path.rpartition(".")[0] + suffix)

    def exists(self) -> bool:
        """Whether it is there, or anything in it."""
        return self._path in self._disk or any(name.startswith(f"{self._path}/") for name in self._disk)

    def mkdir(self) -> None:
        """Folders need not be made."""

    def glob(self, pattern: str) -> Iterator[Elements]:
        """What is in it."""
        assert pattern == "*"
        head = f"{self._path}/"
        names = {name[len(head) :].partition("/")[0] for name in self._disk if name.startswith(head)}
        return (self._at(head + name) for name in sorted(names))

    def open(self, mode: str = "r", buffering: int = -1) -> IO[bytes]:
        """Read it, or write it."""
        if mode == "rb":
            if self._path not in self._disk:
                raise FileNotFoundError(self._path)
            return _Logged(self._disk[self._path], self.read, self.name)
        assert mode == "wb"
        return _Written(self._disk, self._path)


class _Logged(io.BytesIO):
    def __init__(self, content: bytes, log: list[str], name: str) -> None:
        super().__init__(content)
        self._log, self._name = log, name

    def read(self, size: int | None = -1, /) -> bytes:
        self._log.append(self._name)
        return super().read(size)


class _Written(io.BytesIO):
    def __init__(self, disk: dict[str, bytes], path: str) -> None:
        super().__init__()
        self._disk, self._path = disk, path

    def close(self) -> None:
        if not self.closed:
            self._disk[self._path] = self.getvalue()
        super().close()

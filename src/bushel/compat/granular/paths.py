"""Paths of other file systems. Granular needs only `open`, `exists`, `mkdir`, `/`, `glob` and `name`.

`ForeignPath` makes the other methods of Bushel's `AnyPath` from these.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import IO, Any, cast

from bushel.containers import Shard
from bushel.storage import AnyPath, as_path, below, place_file

from .base import WrongTypeError


class ForeignPath:
    """A path of another library, such as `elements.Path`.

    It has `open(mode)`, `exists()`, `/`, `glob(pattern)` and `name`. If it has `is_dir` or `isdir`,
    `is_file` or `isfile`, `stat` or `size`, `parent` and `with_suffix`, these are used too.
    """

    def __init__(self, path: Any) -> None:
        self._path = path

    def __getstate__(self) -> Any:
        return self._path

    def __setstate__(self, path: Any) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str, /) -> ForeignPath:
        path = self._path
        for part in name.split("/"):
            path = path / part
        return ForeignPath(path)

    def __getattr__(self, name: str) -> Any:  # open, exists, mkdir and name
        return getattr(self._path, name)

    @property
    def parent(self) -> ForeignPath:
        # elements' paths have one of their own; other paths are texts between slashes
        return ForeignPath(
            self._path.parent if hasattr(self._path, "parent") else self._path / ".."
        )

    def is_dir(self) -> bool:
        """Return whether it is a folder; if the other library has no folders, whether it contains anything."""
        method = getattr(self._path, "is_dir", None) or getattr(self._path, "isdir", None)
        return (
            bool(method()) if method else self.exists() and next(self.iterdir(), None) is not None
        )

    def is_file(self) -> bool:
        method = getattr(self._path, "is_file", None) or getattr(self._path, "isfile", None)
        return bool(method()) if method else self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[ForeignPath]:
        return (ForeignPath(path) for path in self._path.glob("*"))

    def stat(self) -> Any:
        """Return at least `st_size`, which is found by seeking if the other library does not have it."""
        method = getattr(self._path, "stat", None)
        if method is not None and hasattr(stat := method(), "st_size"):
            return stat
        if isinstance(size := getattr(self._path, "size", None), int):
            return SimpleNamespace(st_size=size)
        if not self.exists():
            raise FileNotFoundError(f"no such file: {self}")
        with self._path.open("rb") as handle:
            return SimpleNamespace(st_size=handle.seek(0, os.SEEK_END))

    def with_suffix(self, suffix: str) -> ForeignPath:
        return ForeignPath(self._path.with_suffix(suffix))


class MemoryPath:
    """A file that is a byte string."""

    name = "memory.bag"

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __str__(self) -> str:
        return f"<{len(self._content)} bytes in memory>"

    def open(self, mode: str, /) -> IO[Any]:
        return io.BytesIO(self._content)

    def stat(self) -> Any:
        return SimpleNamespace(st_size=len(self._content))


class _Files:
    """A folder made of files in any places."""

    def __init__(self, paths: Mapping[str, AnyPath]) -> None:
        self._paths = paths

    def __str__(self) -> str:
        return ", ".join(map(str, self._paths.values()))

    def __truediv__(self, name: str, /) -> AnyPath:
        return self._paths[name]


def files_as_shard(*paths: AnyPath) -> Shard:
    """Return a shard of files of any names and places: a bag, and its index in generation C."""
    names = ("record.bag", "record.idx")[: len(paths)]
    return Shard(_together(dict(zip(names, paths, strict=True))), names[0], names)


def folder_of(path: AnyPath) -> AnyPath:
    """Return the folder of a file, in which at least that file can be found."""
    return path.parent if isinstance(path, Path) else _together({path.name: path})


def with_suffix(path: AnyPath, suffix: str) -> AnyPath:
    """Return the path with another suffix."""
    if hasattr(path, "with_suffix"):
        return cast("Path", path).with_suffix(suffix)
    return below(path.parent, path.name.rpartition(".")[0] + suffix)


def _together(paths: Mapping[str, AnyPath]) -> AnyPath:
    return cast("AnyPath", _Files(paths))


def granular_path(path: Any) -> AnyPath:
    """Return the path for a value that programs give to Granular: text, `pathlib.Path`, or another library's path."""
    if isinstance(path, str | PurePath):
        return as_path(path)
    if isinstance(path, os.PathLike) and "://" not in (text := os.fsdecode(path)):
        return Path(text)
    if all(hasattr(path, name) for name in ("open", "exists", "name")):
        whole = all(
            hasattr(path, name) for name in ("is_dir", "is_file", "iterdir", "stat", "parent")
        )
        return cast("AnyPath", path if whole else ForeignPath(path))
    raise WrongTypeError(
        f"expected a path or an object with open(), exists(), / and name, not {type(path).__name__}"
    )


def make_folder(path: AnyPath, *, parents: bool = False) -> None:
    """Make a folder unless it exists. Object stores do not have folders."""
    if isinstance(path, Path):
        path.mkdir(parents=parents, exist_ok=True)
    elif not path.exists() and (make := getattr(path, "mkdir", None)) is not None:
        make()


class LocalCopy:
    """A local file to write to, at `path`: the file itself, or a copy that `publish` puts on another file system."""

    def __init__(self, target: AnyPath) -> None:
        self._target = target
        self._folder: Path | None = None
        if isinstance(target, Path):
            self.path = target
            return
        self._folder = Path(tempfile.mkdtemp(prefix="bushel-"))
        self.path = self._folder / "file"
        if target.exists():
            with target.open("rb") as source, open(self.path, "wb") as copy:
                shutil.copyfileobj(source, copy, 1 << 22)

    def publish(self) -> None:
        """Copy the file to its file system, if it is not local."""
        if self._folder is None:
            return
        place_file(self.path, self._target)
        shutil.rmtree(self._folder)
        self._folder = None

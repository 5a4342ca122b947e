"""Paths of other file systems, of which Granular asks little: `open`, `exists`, `mkdir`, `/`, `glob` and `name`.

Bushel's own `AnyPath` has a few methods more. `ForeignPath` makes them from these.
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

from bushel.compat.granular.errors import WrongTypeError
from bushel.containers.base import Shard
from bushel.storage import AnyPath, as_path
from bushel.storage.whole import place_file

__all__ = [
    "ForeignPath",
    "LocalCopy",
    "MemoryPath",
    "files_as_shard",
    "folder_of",
    "granular_path",
    "make_folder",
    "with_suffix",
]


class ForeignPath:
    """A path of another library, such as `elements.Path`.

    Args:
        path: Anything with `open(mode)`, `exists()`, `/`, `glob(pattern)` and `name`. Of what else it has, `is_dir` or
            `isdir`, `is_file` or `isfile`, `stat` or `size`, `parent` and `with_suffix` are used.
    """

    def __init__(self, path: Any) -> None:
        self._path = path

    def __str__(self) -> str:
        return str(self._path)

    def __truediv__(self, name: str, /) -> ForeignPath:
        path = self._path
        for part in name.split("/"):
            path = path / part
        return ForeignPath(path)

    @property
    def name(self) -> str:
        """The last component."""
        return str(self._path.name)

    @property
    def parent(self) -> ForeignPath:
        """The folder it is in, where the other library can tell."""
        return ForeignPath(self._path.parent)

    def open(self, mode: str, /) -> IO[Any]:
        """Open it."""
        return cast("IO[Any]", self._path.open(mode))

    def exists(self) -> bool:
        """Whether it is there."""
        return bool(self._path.exists())

    def is_dir(self) -> bool:
        """Whether it is a folder; without a method that tells, whether something is in it."""
        known = getattr(self._path, "is_dir", None) or getattr(self._path, "isdir", None)
        return bool(known()) if known else self.exists() and next(self.iterdir(), None) is not None

    def is_file(self) -> bool:
        """Whether it is a file."""
        known = getattr(self._path, "is_file", None) or getattr(self._path, "isfile", None)
        return bool(known()) if known else self.exists() and not self.is_dir()

    def iterdir(self) -> Iterator[ForeignPath]:
        """What is in the folder."""
        return (ForeignPath(path) for path in self._path.glob("*"))

    def stat(self) -> Any:
        """At least `st_size`; found by seeking where the other library does not tell it."""
        known = getattr(self._path, "stat", None)
        if known is not None and hasattr(stat := known(), "st_size"):
            return stat
        if isinstance(size := getattr(self._path, "size", None), int):
            return SimpleNamespace(st_size=size)
        if not self.exists():
            raise FileNotFoundError(f"there is no file {self}")
        with self._path.open("rb") as handle:
            return SimpleNamespace(st_size=handle.seek(0, os.SEEK_END))

    def mkdir(self) -> None:
        """Make the folder."""
        self._path.mkdir()

    def with_suffix(self, suffix: str) -> ForeignPath:
        """The file beside it that has another suffix."""
        return ForeignPath(self._path.with_suffix(suffix))


class MemoryPath:
    """A file that is a byte string."""

    name = "memory.bag"

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __str__(self) -> str:
        return f"<{len(self._content)} bytes in memory>"

    def open(self, mode: str, /) -> IO[Any]:
        """A reader of the bytes."""
        return io.BytesIO(self._content)

    def stat(self) -> Any:
        """Its size."""
        return SimpleNamespace(st_size=len(self._content))


class _Files:
    """A folder of files that lie anywhere."""

    def __init__(self, paths: Mapping[str, AnyPath]) -> None:
        self._paths = paths

    def __str__(self) -> str:
        return ", ".join(map(str, self._paths.values()))

    def __truediv__(self, name: str, /) -> AnyPath:
        return self._paths[name]


def files_as_shard(*paths: AnyPath) -> Shard:
    """A shard of these files, whatever they are called and wherever they lie: a bag, and of generation C its index."""
    names = ("record.bag", "record.idx")[: len(paths)]
    return Shard(_together(dict(zip(names, paths, strict=True))), names[0], names)


def folder_of(path: AnyPath) -> AnyPath:
    """The folder of a file, in which at least that file can be found."""
    return path.parent if isinstance(path, Path) else _together({path.name: path})


def with_suffix(path: AnyPath, suffix: str) -> AnyPath:
    """The file beside a file that has another suffix."""
    return cast("Path", path).with_suffix(suffix)


def _together(paths: Mapping[str, AnyPath]) -> AnyPath:
    return cast("AnyPath", _Files(paths))


def granular_path(path: Any) -> AnyPath:
    """A path as programs give it to Granular: text, `pathlib.Path`, or an object of another library.

    Raises:
        WrongTypeError: It is none of these.
    """
    if isinstance(path, str | PurePath):
        return as_path(path)
    if isinstance(path, os.PathLike) and "://" not in (text := os.fsdecode(path)):
        return Path(text)
    if all(hasattr(path, name) for name in ("open", "exists", "name")):
        whole = all(hasattr(path, name) for name in ("is_dir", "is_file", "iterdir", "stat", "parent"))
        return cast("AnyPath", path) if whole else ForeignPath(path)
    raise WrongTypeError(f"expected a path or an object with open(), exists(), / and name, not {type(path).__name__}")


def make_folder(path: AnyPath, *, parents: bool = False) -> None:
    """Make a folder, which may be there already. Object stores have none."""
    if isinstance(path, Path):
        path.mkdir(parents=parents, exist_ok=True)
    elif not path.exists() and (make := getattr(path, "mkdir", None)) is not None:
        make()


class LocalCopy:
    """A local file to write to: the file itself, or, of another file system, a copy that is put there by `publish`.

    Attributes:
        path: Where to write.
    """

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
        """Put what was written where it belongs."""
        if self._folder is None:
            return
        place_file(self.path, self._target)
        shutil.rmtree(self._folder)
        self._folder = None

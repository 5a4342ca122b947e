"""An index.json that describes all shards of a folder: it is parsed once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from bushel.storage import AnyPath, as_path, below, open_file

__all__ = ["INDEX", "Listing", "load_index"]

INDEX = "index.json"

_MOST_FOLDERS = 32

T = TypeVar("T")
_Parse = Callable[[bytes, str], T]


def load_index(folder: AnyPath, parse: _Parse[T], name: str = INDEX) -> T:
    """Return the contents of an index.json, or of another file of JSON that describes all shards of a folder.

    Args:
        folder: The folder that it is in.
        parse: Maps its bytes and its path to the result, which is kept until the file changes.
        name: The name of the file.

    Raises:
        FileNotFoundError: There is none.
    """
    file = open_file(below(folder, name))
    if not file.mtime_ns:  # the file may have changed unnoticed
        return parse(file.read(0, file.size), file.path)
    found: T = _parsed(parse, file.path, file.size, file.mtime_ns)
    return found


@lru_cache(maxsize=8)
def _parsed(parse: _Parse[Any], path: str, size: int, mtime_ns: int) -> Any:
    return parse(open_file(as_path(path)).read(0, size), path)


class Listing:
    """The names of the files in a folder and its sub-folders, each of which is listed once, when it is needed.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._known: dict[str, frozenset[str]] = {"": frozenset(entry.name for entry in folder.iterdir())}

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder of this path, which is relative to the folder, with `/`."""
        above, _, own = name.rpartition("/")
        if above not in self._known:
            there = name.count("/") <= _MOST_FOLDERS and self.has(above)
            path = below(self._folder, above) if there else None
            names = () if path is None or not path.is_dir() else (entry.name for entry in path.iterdir())
            self._known[above] = frozenset(names)
        return own in self._known[above]

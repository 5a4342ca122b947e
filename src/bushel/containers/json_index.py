"""An index.json that describes all shards of a folder: it is parsed once for all of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from bushel._index.table import Shard
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, parse_spec
from bushel.storage import AnyPath, File, as_path, below, open_file

INDEX = "index.json"
AS_BYTES = "spec={%r: 'bytes'} reads its stored bytes"

_MOST_FOLDERS = 32

T = TypeVar("T")
_Parse = Callable[[bytes, str], T]


@dataclass(frozen=True, slots=True)
class IndexFormat(Generic[T]):
    """One of the formats whose file is named index.json.

    Attributes:
        name: What its files are, for messages, such as `an index of MDS`.
        kind: The struct of its contents.
        keys: Names that every file of it has at the top.
        own: Finds names by which a damaged file is one of this format.
        hint: The advice of errors.
    """

    name: str
    kind: type[T]
    keys: frozenset[str]
    own: re.Pattern[bytes]
    hint: str

    def parse(self, data: bytes, path: str) -> T | None:
        """Return the contents of a file; None if it is of another format.

        Raises:
            FormatError: It is damaged.
        """
        is_own = False
        try:
            is_own = self.keys <= msgspec.json.decode(data, type=dict[str, msgspec.Raw]).keys()
            return msgspec.json.decode(data, type=self.kind) if is_own else None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            if is_own or self.own.search(data):
                raise self.damaged(error, path) from error
            return None

    def damaged(self, error: Exception, path: str) -> FormatError:
        """Return the error of a damaged file."""
        return FormatError(f"not {self.name}: {error}", file=path, hint=self.hint)


def load_index(folder: AnyPath, parse: _Parse[T], name: str = INDEX) -> T:
    """Return the contents of an index.json, or of another file of JSON that describes all shards of a folder.

    Args:
        folder: The folder that it is in.
        parse: Maps its bytes and its path to the result, which is kept until the file changes.
        name: The name of the file.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    file = open_file(below(folder, name))
    if not file.mtime_ns:  # the file may have changed unnoticed
        return parse(file.read(0, file.size), file.path)
    contents: T = _parsed(parse, file.path, file.size, file.mtime_ns)
    return contents


@lru_cache(maxsize=8)
def _parsed(parse: _Parse[Any], path: str, size: int, mtime_ns: int) -> Any:
    return parse(open_file(as_path(path)).read(0, size), path)


def listed_shards(
    folder: AnyPath, files: Mapping[str, str | None], what: str, hint: str
) -> list[Shard]:
    """Return the shards that an index.json lists, given the file of each and, or None, the one that may replace it.

    Raises:
        FormatError: A shard is missing. The message calls it `what`.
    """
    listing, shards = Listing(folder), []
    for name, other in files.items():
        file = name if listing.has(name) else other
        if file is None or not listing.has(file):
            message = f"it lists the {what} {name!r}, which does not exist"
            raise FormatError(message, file=str(folder / INDEX), hint=hint)
        shards.append(Shard(folder, name, (file, INDEX)))
    return shards


def described_field(what: str, name: str, codec: str, file: File) -> Field:
    """Return the field of a column or leaf (`what`) with this codec, or raise a `FormatError`."""
    try:
        field = parse_spec({name: codec})[name]
        get_codec(field.codec)
    except SpecError as error:
        raise FormatError(
            f"{what} {name!r} cannot be a field: {error}", file=file.path, hint=AS_BYTES % name
        ) from error
    return field


class Listing:
    """The names of the files in a folder and its sub-folders. Each is listed once, when it is needed."""

    def __init__(self, folder: AnyPath) -> None:
        self._folder = folder
        self._known: dict[str, frozenset[str]] = {
            "": frozenset(entry.name for entry in folder.iterdir())
        }

    def has(self, name: str) -> bool:
        """Return whether there is a file or folder of this path, which is relative to the folder, with `/`."""
        above, _, base_name = name.rpartition("/")
        if above not in self._known:
            may_exist = name.count("/") <= _MOST_FOLDERS and self.has(above)
            path = below(self._folder, above) if may_exist else None
            names = (
                ()
                if path is None or not path.is_dir()
                else (entry.name for entry in path.iterdir())
            )
            self._known[above] = frozenset(names)
        return base_name in self._known[above]

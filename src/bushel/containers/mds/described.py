"""The index.json of MDS, the hashes of files that it has, and folders of streams without a merged index.

Which of those are one dataset beyond doubt is decided here.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Annotated, Any, Protocol

import msgspec

from bushel._index.table import Shard
from bushel._runtime.log import log_warning
from bushel.containers.base import Report
from bushel.containers.json_index import INDEX, IndexFormat, load_index
from bushel.errors import FormatError
from bushel.storage import AnyPath, File, below
from bushel.storage.packed import COMPRESSIONS

HINT = "write the dataset again, or fetch its index.json and shards again"
_CHUNK = 1 << 22
_NAME_BYTES = 200
_Size = Annotated[int, msgspec.Meta(ge=0, le=1 << 48)]


class Data(msgspec.Struct):
    """A file of a shard: its path below the folder, its size in bytes, and its hashes as text by their algorithms."""

    basename: str
    bytes: _Size
    hashes: dict[str, str] = {}

    @property
    def name(self) -> str:
        """The path, with `/`."""
        return self.basename.replace("\\", "/")


class Entry(msgspec.Struct):
    """A shard, as index.json describes it."""

    format: str
    samples: _Size
    raw_data: Data
    column_names: list[str] = []  # the lists of columns are missing in other formats of streaming
    column_encodings: list[str] = []
    column_sizes: list[_Size | None] = []
    zip_data: Data | None = None
    compression: str | None = None

    @property
    def compression_kind(self) -> str:
        """The compression without its level."""
        return (self.compression or "").partition(":")[0]


class _Index(msgspec.Struct):
    shards: list[Entry]


_OWN = re.compile(rb'"(?:column_(?:encodings|names|sizes)|raw_data|zip_data)"\s*:')
_FORMAT = IndexFormat("an index of MDS", _Index, frozenset({"shards"}), _OWN, HINT)


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def parse_entries(data: bytes, path: str) -> dict[str, Entry] | None:
    """Return the shards of an index.json by the names of their files; None if it is of another format.

    Raises:
        FormatError: It is damaged, or lists a shard of another format.
    """
    index = _FORMAT.parse(data, path)
    if index is None:
        return None
    for number, entry in enumerate(index.shards):
        if (problem := _problem(entry)) is not None:
            raise FormatError(f"shard {number}: {problem}", file=path, hint=HINT)
    entries = {shard.raw_data.name: shard for shard in index.shards}
    if len(entries) < len(index.shards):
        raise FormatError("two shards have the same file", file=path, hint=HINT)
    return entries


def _problem(entry: Entry) -> str | None:
    """Return a description of what cannot be read of a shard, or None."""
    if entry.format != "mds":
        return (
            f"its format is {entry.format!r}, which Bushel does not read: write the dataset"
            " with MDSWriter"
        )
    # where only the compressed file has to exist
    if len(entry.raw_data.name.encode()) > _NAME_BYTES:
        return (
            f"its file has a name of more than {_NAME_BYTES} bytes, which no file system takes"
            " with a suffix"
        )
    columns = len(entry.column_names)
    if not columns or not columns == len(entry.column_encodings) == len(entry.column_sizes) == len(
        set(entry.column_names)
    ):
        return "its columns do not have one name, one encoding and one size each"
    if entry.zip_data is not None and entry.compression_kind not in COMPRESSIONS:
        return (
            f"its compression is {entry.compression!r}, expected one of {', '.join(COMPRESSIONS)}"
        )
    return None


def compared(file: File, expected: Data, report: Report) -> Iterator[FormatError]:
    """Compare a file with its size and hashes in index.json, and yield an error for each difference."""
    if file.size != expected.bytes:
        yield FormatError(
            f"it has {file.size} bytes, index.json says {expected.bytes}", file=file.path, hint=HINT
        )
        return
    hashes: dict[str, _Hash] = {}
    for name in expected.hashes:
        new_hash = _hash(name)
        if new_hash is None:
            if name.startswith("xx"):
                advice = "pip install xxhash"
            else:
                advice = "another tool has to compare it"
            warnings.warn(
                f"{file.path}: the hash {name} was not compared: {advice}",
                RuntimeWarning,
                stacklevel=2,
            )
        else:
            hashes[name] = new_hash
    for at in range(0, file.size if hashes else 0, _CHUNK):
        data = file.read(at, min(_CHUNK, file.size - at))
        report(len(data))
        for running_hash in hashes.values():
            running_hash.update(data)
    for name, finished_hash in hashes.items():
        if finished_hash.hexdigest() != expected.hashes[name]:
            message = f"its {name} is {finished_hash.hexdigest()}, expected {expected.hashes[name]}"
            yield FormatError(message, file=file.path, hint=HINT)


def _hash(name: str) -> _Hash | None:
    if name in hashlib.algorithms_available and not name.startswith("shake_"):
        return hashlib.new(name, usedforsecurity=False)
    try:
        xxhash: Any = import_module("xxhash")
    except ImportError:
        return None
    new_hash: _Hash | None = (
        getattr(xxhash, name)() if name in xxhash.algorithms_available else None
    )
    return new_hash


_ABOUT = ("README", "LICENSE", ".json", ".md", ".txt", ".yaml", ".yml")
_SPLITS = frozenset(
    {"train", "training", "val", "valid", "validation", "dev", "test", "testing", "eval"}
)
_SHOWN = 3


def certain_streams(
    path: AnyPath, listed: Callable[[AnyPath], list[Shard] | None]
) -> list[Shard] | None:
    """Return the shards of all streams of a folder, in the order of their names; None if it is another folder.

    Each sub-folder must have an index.json of MDS, and the folder no files but pages about the
    data.

    Args:
        path: The folder.
        listed: Returns the shards that the index.json of a folder lists, None for one of another
            format.

    Raises:
        FormatError: The streams have names of splits or different columns, or one is damaged.
    """
    names, shards, columns = list[str](), list[Shard](), list[object]()
    for entry in sorted(
        (child for child in path.iterdir() if not child.name.startswith(".")),
        key=lambda child: child.name,
    ):
        if entry.name.endswith(_ABOUT) and not entry.is_dir():
            continue
        folder = below(path, entry.name, any_text=True)
        if not (folder / INDEX).is_file() or (shards_of_stream := listed(folder)) is None:
            return None
        names.append(entry.name)
        shards += shards_of_stream
        entries = load_index(folder, parse_entries) or {}
        columns += [
            (description.column_names, description.column_encodings)
            for description in entries.values()
        ]
    if not names:
        return None
    shown = ", ".join(names[:_SHOWN]) + (
        f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    )
    problem = ""
    if not _SPLITS.isdisjoint(name.lower() for name in names):
        problem = "the names of splits"
    problem = problem or (
        "different columns" if any(of_entry != columns[0] for of_entry in columns) else ""
    )
    if problem:
        first = below(path, names[0], any_text=True)
        raise FormatError(
            f"its sub-folders are MDS datasets with {problem}: {shown}",
            file=str(path),
            hint=f"name one of them, such as {str(first)!r}; container='mds' joins all of them",
        )
    log_warning("%s: read as the streams of one MDS dataset: %s", path, shown)
    return shards

"""The tables of gulp chunks: their serializers, and which files of a folder belong together."""

from __future__ import annotations

import json
import os
import pickle
import warnings
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bushel.compat.errors import raised_as
from bushel.containers.gulp import chunk_names, chunk_number, pair_chunks

from .errors import (
    GulpWarning,
    MetaEncodingError,
    MetaFileError,
    MetaTextError,
    NoTableError,
    UnpairedChunkError,
)


class ImgInfo(NamedTuple):
    """Place of a frame in the data file: offset, bytes of padding, and length with the padding."""

    loc: int
    pad: int
    length: int


class AbstractSerializer(ABC):
    """Reads and writes the mapping of ids to `frame_info` and `meta_data`."""

    @abstractmethod
    def load(self, file_name: str) -> Any:
        """Return the mapping in a file."""

    @abstractmethod
    def dump(self, thing: Any, file_name: str) -> None:
        """Write the mapping to a file."""


class JSONSerializer(AbstractSerializer):
    """JSON as `json.dumps` writes it, which every gulp reader reads."""

    def load(self, file_name: str) -> Any:
        text = Path(file_name).read_bytes()
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            # only Python's parser accepts NaN and lone surrogates
            return _parsed(text, str(file_name))

    def dump(self, thing: Any, file_name: str) -> None:
        with open(file_name, "w", encoding="ascii") as file:
            json.dump(thing, file)


def _parsed(text: bytes, name: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise MetaTextError(f"invalid JSON: {error}", file=name) from error
    except UnicodeDecodeError as error:
        raise MetaEncodingError(f"invalid JSON: {error}", file=name) from error
    except RecursionError as error:
        raise MetaFileError(f"invalid JSON: {error}", file=name) from error


class PickleSerializer(AbstractSerializer):
    """Pickle, for metadata that JSON cannot hold. Loading a pickle runs its code: read only files that you trust."""

    def load(self, file_name: str) -> Any:
        with open(file_name, "rb") as file:
            return _Unpickler(file).load()

    def dump(self, thing: Any, file_name: str) -> None:
        with open(file_name, "wb") as file:
            _Pickler(file).dump(thing)


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:  # GulpIO2 reads plain tuples without Bushel
        return (tuple, (tuple(obj),)) if type(obj) is ImgInfo else NotImplemented


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if name == "ImgInfo" and module in ("gulpio2.fileio", "gulpio.fileio"):
            return ImgInfo
        return super().find_class(module, name)


json_serializer = JSONSerializer()
pickle_serializer = PickleSerializer()


def load_table(path: str, serializer: AbstractSerializer = json_serializer) -> Any:
    """Return the table of a chunk; an empty one if the file is missing, or is empty, which gives a `GulpWarning`."""
    try:
        size = os.stat(path).st_size
    except FileNotFoundError:
        return OrderedDict()
    if size == 0:
        warnings.warn(
            f"{path} is empty: readers do not find the items of this chunk",
            GulpWarning,
            stacklevel=3,
        )
        return OrderedDict()
    table = serializer.load(path)
    if not isinstance(table, dict):
        raise NoTableError(f"expected a map of ids, found a {type(table).__name__}", file=path)
    return table


def file_names(folder: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """Return the names of a folder's data files and of its meta files; none if it does not exist."""
    return chunk_names(Path(folder)) if os.path.isdir(folder) else ([], [])


def chunk_files(folder: str | os.PathLike[str]) -> Iterator[tuple[int, str, str]]:
    """Return the number, data file and meta file of each chunk. An unpaired file is an `UnpairedChunkError`."""
    with raised_as(UnpairedChunkError):
        shards = pair_chunks(Path(folder), *file_names(folder))
    return (
        (chunk_number(shard.root, shard.name), str(shard.path(0)), str(shard.path(1)))
        for shard in shards
    )


def ids_in(folder: str | os.PathLike[str]) -> set[str]:
    """Return the ids in the chunks of a folder."""
    return {id_ for _, _, table in chunk_files(folder) for id_ in load_table(table)}

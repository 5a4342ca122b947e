"""How the table of a chunk is kept in its `.gmeta`."""

from __future__ import annotations

import json
import pickle
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bushel.compat.gulpio2.errors import MetaFileError

__all__ = [
    "AbstractSerializer",
    "ImgInfo",
    "JSONSerializer",
    "PickleSerializer",
    "json_serializer",
    "pickle_serializer",
]


class ImgInfo(NamedTuple):
    """Where a frame lies in the data file.

    Attributes:
        loc: Offset in bytes.
        pad: Zeros at the end.
        length: Bytes with these zeros.
    """

    loc: int
    pad: int
    length: int


class AbstractSerializer(ABC):
    """Reads and writes the mapping of ids to `frame_info` and `meta_data`."""

    @abstractmethod
    def load(self, file_name: str) -> Any:
        """The mapping in a file."""

    @abstractmethod
    def dump(self, thing: Any, file_name: str) -> None:
        """Write the mapping to a file."""


class JSONSerializer(AbstractSerializer):
    """JSON, as `json.dumps` writes it: what every gulp reader reads."""

    def load(self, file_name: str) -> Any:
        """The mapping in a file.

        Raises:
            MetaFileError: It is no JSON.
        """
        text = Path(file_name).read_bytes()
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):  # NaN and lone surrogates are not quite JSON, and Python's
            try:
                return json.loads(text)
            except (ValueError, RecursionError) as error:
                raise MetaFileError(f"no JSON: {error}", file=str(file_name)) from error

    def dump(self, thing: Any, file_name: str) -> None:
        """Write the mapping to a file."""
        with open(file_name, "w", encoding="ascii") as file:
            json.dump(thing, file)


class PickleSerializer(AbstractSerializer):
    """Pickle, for metadata that JSON cannot hold. Loading a pickle runs what it says: use it for files of your own."""

    def load(self, file_name: str) -> Any:
        """The mapping in a file, also in one that GulpIO2 wrote."""
        with open(file_name, "rb") as file:
            return _Unpickler(file).load()

    def dump(self, thing: Any, file_name: str) -> None:
        """Write the mapping to a file, which GulpIO2 reads without Bushel."""
        plain = {
            key: {**entry, "frame_info": [tuple(info) for info in entry["frame_info"]]} for key, entry in thing.items()
        }
        with open(file_name, "wb") as file:
            pickle.dump(plain, file)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        if name == "ImgInfo" and module in ("gulpio2.fileio", "gulpio.fileio"):
            return ImgInfo
        return super().find_class(module, name)


json_serializer = JSONSerializer()
pickle_serializer = PickleSerializer()

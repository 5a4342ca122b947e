"""The package bags 0.5 on Bushel: `import bushel.compat.granular.bags as bags`.

Its types take parameters, `array(float32,64,128)` or `int(8)`, which are given to encoders and decoders as text. Its
writers write generation A; its readers read every generation.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from bushel.codecs import get_codec
from bushel.compat.granular import bag, reader, writer
from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import WrongTypeError, WrongUseError
from bushel.compat.granular.formats import Codecs
from bushel.compat.granular.paths import granular_path, make_folder
from bushel.containers.bag.tables import encode_table

__all__ = [
    "BagReader",
    "BagWriter",
    "DatasetReader",
    "DatasetWriter",
    "ShardedDatasetReader",
    "ShardedDatasetWriter",
    "decoders",
    "encoders",
]

__version__ = "0.5.1"
"""Of the package whose names these are."""

_GB = 1 << 30
_TYPE = re.compile(r"([a-z0-9-_]+)(\([a-z0-9-_,.]*\))?(\[\])?")

_CODECS = {
    "bytes": "bytes",
    "utf8": "utf8",
    "msgpack": "msgpack",
    "int": "uint",
    "array": "array",
    "jpeg": "jpg(75)",
    "png": "png",
    "mp4": "mp4",
}
_WITH_PARAMETERS = {"int": "int", "array": "array"}
"""The types whose parameters mean something; those of images are ignored, as they always were."""

Parsed = tuple[bool, str, tuple[str, ...]]


def _codec(kind: str, arguments: Sequence[str]) -> str:
    if kind == "mp4":
        return f"mp4({arguments[0] if arguments else 15})"
    if arguments and kind in _WITH_PARAMETERS:
        return f"{_WITH_PARAMETERS[kind]}({','.join(arguments)})"
    return _CODECS[kind]


def _encode(kind: str, value: Any, *arguments: str) -> Any:
    return get_codec(_codec(kind, arguments)).encode(value)


def _decode(kind: str, stored: bytes, *arguments: str) -> Any:
    return get_codec(_codec(kind, arguments)).decode(stored)


encoders: dict[str, Callable[..., Any]] = {kind: partial(_encode, kind) for kind in _CODECS}
"""Types to functions from a value, and the type's parameters as text, to bytes."""

decoders: dict[str, Callable[..., Any]] = {kind: partial(_decode, kind) for kind in _CODECS}
"""Types to functions from bytes, and the type's parameters as text, to a value."""


def _parse(spec: Mapping[str, str]) -> dict[str, Parsed]:
    """Keys to (whether it is a sequence, type, its parameters)."""
    parsed = {}
    for key, kind in spec.items():
        match = _TYPE.fullmatch(kind) if isinstance(kind, str) else None
        if match is None or key == "refs":
            raise WrongUseError(f"{key!r}: {kind!r} is no type such as 'utf8', 'int(8)' or 'jpeg[]', or no key")
        arguments = tuple(match[2][1:-1].split(",")) if match[2] else ()
        parsed[key] = (match[3] is not None, match[1], arguments)
    return parsed


def _with_parameters(codecs: Codecs, spec: Mapping[str, str]) -> Codecs:
    """A function for each type of the spec as it is written there, with its parameters filled in."""
    if codecs is None:
        return None
    bound: dict[str, Callable[..., Any]] = {}
    for key, (_, kind, arguments) in _parse(spec).items():
        if kind not in codecs:
            raise KeyError(f"there is no function for the type {kind!r}; there are {', '.join(codecs)}")
        bound[spec[key].removesuffix("[]")] = _Bound(codecs[kind], arguments)
    return bound


class _Bound:
    """A function with a type's parameters."""

    def __init__(self, function: Callable[..., Any], arguments: Sequence[str]) -> None:
        self._function, self._arguments = function, arguments

    def __call__(self, value: Any) -> Any:
        return self._function(value, *self._arguments)


class BagWriter(Closing):
    """Writes one bag file of generation A.

    Args:
        fp: A path, where nothing is yet, or a binary file that is open for writing.

    Raises:
        ExistsError: There is such a file.
        WrongTypeError: It is neither.
    """

    def __init__(self, fp: Any) -> None:
        super().__init__()
        self._bag = None if isinstance(fp, io.IOBase) else bag.BagWriter(fp, version=1)
        self._file = cast("IO[bytes]", fp)
        self._ends: list[int] = []

    @property
    def size(self) -> int:
        """Bytes of the file, with its table."""
        return self._bag.size if self._bag is not None else (self._ends or [0])[-1] + 8 * (len(self._ends) + 1)

    def __len__(self) -> int:
        return len(self._ends) if self._bag is None else len(self._bag)

    def append(self, record: bytes, flush: bool = True) -> int:
        """Add one record. Returns its number."""
        if self._bag is not None:
            return self._bag.append(record, flush)
        if self.closed:
            raise WrongUseError("the bag is closed")
        if not isinstance(record, bytes):
            raise WrongTypeError(f"a record is bytes, not {type(record).__name__}")
        self._file.write(record)
        self._ends.append((self._ends or [0])[-1] + len(record))
        return len(self._ends) - 1

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        (self._bag or self._file).flush()

    def close(self) -> None:
        """Write the table, and close the file."""
        if self._bag is not None:
            self._bag.close()
        elif not self.closed:
            self._file.write(encode_table(np.array(self._ends, np.int64), "A"))
            self._file.close()
        super().close()


class BagReader(bag.BagReader):
    """Reads one bag file.

    Args:
        fp: A path, or a binary file that is open for reading, which is read whole unless it has a name.
        cache_index: Whether the table is kept in memory.
    """

    def __init__(self, fp: Any, cache_index: bool = True) -> None:
        if isinstance(fp, io.IOBase):
            name = getattr(fp, "name", None)
            if isinstance(name, str) and Path(name).is_file():
                fp = name
            else:
                fp.seek(0)
                fp = cast("IO[bytes]", fp).read()
        super().__init__(fp, cache_index)


class _Parsed:
    """Readers whose spec is parsed, whose decoders take parameters, and which have no negative positions."""

    @property
    def spec(self) -> Any:
        """Keys to (whether it is a sequence, type, its parameters)."""
        return _parse(cast("Any", super()).spec)


class DatasetReader(_Parsed, reader.DatasetReader):
    """Reads a dataset of any generation.

    Args:
        directory: The folder.
        decoders: Types to functions from bytes, and the type's parameters, to a value.
        cache_index: Whether the tables are kept in memory.
    """

    def __init__(self, directory: Any, decoders: Codecs, cache_index: bool = True) -> None:
        super().__init__(directory, decoders, cache_index)

    def _bind(self, decoders: Codecs) -> Codecs:
        return _with_parameters(decoders, self._spec)


class ShardedDatasetReader(_Parsed, reader.ShardedDatasetReader):
    """Reads a folder of datasets named by number, or every so-manieth of them.

    Args:
        directory: The folder.
        decoders: As of `DatasetReader`.
        cache_index: Whether the tables are kept in memory.
        shard_start: Number of the first shard.
        shard_step: How many numbers to go from one shard to the next.
    """

    def __init__(
        self, directory: Any, decoders: Codecs, cache_index: bool = True, shard_start: int = 0, shard_step: int = 1
    ) -> None:
        super().__init__(directory, decoders, cache_index, shardstart=shard_start, shardstep=shard_step)

    def _bind(self, decoders: Codecs) -> Codecs:
        return _with_parameters(decoders, self._spec)


class DatasetWriter(writer.DatasetWriter):
    """Writes a dataset of generation A, whose records may be empty.

    Args:
        directory: The folder, which must not be there yet; it is made with its parents.
        spec: Keys to types, such as `{"image": "jpeg", "grid": "array(float32,2,3)[]"}`.
        encoders: Types to functions from a value, and the type's parameters, to bytes.
    """

    _generation = "A"
    _parents = True

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__(directory, spec, _with_parameters(encoders, spec))

    @property
    def spec(self) -> Any:
        """Keys to (whether it is a sequence, type, its parameters)."""
        return _parse(self._spec)


class ShardedDatasetWriter(writer.Shards):
    """Writes a folder of datasets named by number, or every so-manieth of them.

    Args:
        directory: The folder, which may be there already.
        spec: As of `DatasetWriter`.
        encoders: As of `DatasetWriter`.
        shard_size: Bytes after which a shard is full; None: no limit.
        shard_length: Datapoints after which a shard is full; None: no limit.
        shard_start: Number of the first shard.
        shard_step: How many numbers to go from one shard to the next.
    """

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Codecs,
        shard_size: int | None = 10 * _GB,
        shard_length: int | None = None,
        shard_start: int = 0,
        shard_step: int = 1,
    ) -> None:
        super().__init__(shard_length, shard_start, shard_step)
        _with_parameters(encoders, spec)
        self.directory, self.spec, self.encoders, self.shardsize = directory, spec, encoders, shard_size
        self._path = granular_path(directory)
        make_folder(self._path, parents=True)

    def _begin(self, name: str) -> DatasetWriter:
        return DatasetWriter(self._path / name, self.spec, self.encoders)

    def _full(self) -> bool:
        return super()._full() or bool(self.shardsize and self.writer.size >= self.shardsize)

"""The package bags 0.5 on Bushel: `import bushel.compat.granular.bags as bags`.

Its types have parameters, `array(float32,64,128)` or `int(8)`, which encoders and decoders get as
text. Its writers write generation A; its readers read every generation.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import IO, Any, cast

from bushel.codecs import get_codec
from bushel.errors import CodecError, SpecError
from bushel.storage import path_of_stream

from . import bag, reader, writer
from .base import Closing, WrongUseError
from .formats import AS_IN_THE_ORIGINAL, BAGS, Codecs, as_original, is_direct

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

__version__ = "0.5.1"  # the release of bags whose names these are
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
# types that use their parameters; images ignore them, as in bags
_WITH_PARAMETERS = {"int": "int", "array": "array"}
Parsed = tuple[bool, str, tuple[str, ...]]


def _codec(kind: str, arguments: Sequence[str]) -> str:
    if kind == "mp4":
        return f"mp4({arguments[0] if arguments else 15})"
    if arguments and kind in _WITH_PARAMETERS:
        return f"{_WITH_PARAMETERS[kind]}({','.join(arguments)})"
    return _CODECS[kind]


def _encode(kind: str, value: Any, *arguments: str) -> Any:
    # an array of any length in Bushel, never one in bags
    if kind in AS_IN_THE_ORIGINAL or "-1" in arguments:
        return BAGS[kind][0](value, *arguments)
    try:
        return get_codec(_codec(kind, arguments)).encode(value)
    except (CodecError, SpecError, TypeError, ValueError) as error:
        return as_original(error, BAGS[kind][0], value, *arguments)


def _decode(kind: str, stored: bytes, *arguments: str) -> Any:
    if kind in AS_IN_THE_ORIGINAL or is_direct(_CODECS[kind], stored):
        return BAGS[kind][1](stored, *arguments)
    try:
        return get_codec(_codec(kind, arguments)).decode(stored)
    except (CodecError, SpecError, TypeError, ValueError) as error:
        return as_original(error, BAGS[kind][1], stored, *arguments)


encoders: dict[str, Callable[..., Any]] = {kind: partial(_encode, kind) for kind in _CODECS}
"""Functions by type: from a value, and the type's parameters as text, to bytes."""

decoders: dict[str, Callable[..., Any]] = {kind: partial(_decode, kind) for kind in _CODECS}
"""Functions by type: from bytes, and the type's parameters as text, to a value."""


def _parse(spec: Mapping[str, str]) -> dict[str, Parsed]:
    """Return (whether it is a sequence, type, its parameters) for each key."""
    parsed = {}
    for key, kind in spec.items():
        match = _TYPE.fullmatch(kind) if isinstance(kind, str) and isinstance(key, str) else None
        if match is None or key == "refs":
            raise WrongUseError(
                f"{key!r}: {kind!r} is not a type such as "
                "'utf8', 'int(8)' or 'jpeg[]', or not a key"
            )
        arguments = tuple(match[2][1:-1].split(",")) if match[2] else ()
        parsed[key] = (match[3] is not None, match[1], arguments)
    return parsed


def _with_parameters(codecs: Codecs, spec: Mapping[str, str]) -> Codecs:
    """Return a function for each type of the spec, which passes the type's parameters."""
    if codecs is None:
        return None
    bound: dict[str, Callable[..., Any]] = {}
    for key, (_, kind, arguments) in _parse(spec).items():
        if kind not in codecs:
            raise KeyError(
                f"no function was given for the type {kind!r}; there are {', '.join(codecs)}"
            )
        bound[spec[key].removesuffix("[]")] = partial(_call, codecs[kind], arguments)
    return bound


def _call(function: Callable[..., Any], arguments: Sequence[str], value: Any) -> Any:
    return function(value, *arguments)


class BagWriter(bag.BagWriter):
    """Writes one bag file of generation A: to a path that does not exist, or to a binary file."""

    def __init__(self, fp: Any) -> None:
        self._is_stream = isinstance(fp, io.IOBase)
        if not self._is_stream:
            super().__init__(fp, version=1)
            return
        Closing.__init__(self)
        self.version, self._sink, self._ends = 1, fp, []

    def _publish(self) -> None:
        if self._is_stream:
            self._sink.close()
        else:
            super()._publish()


class BagReader(bag.BagReader):
    """Reads one bag file: a path, or an open stream, which is read into memory unless it is a local file."""

    def __init__(self, fp: Any, cache_index: bool = True) -> None:
        if isinstance(fp, io.IOBase):
            path = path_of_stream(fp)
            fp.seek(0)
            fp = cast("IO[bytes]", fp).read() if path is None else path
        super().__init__(fp, cache_index)


class _Parsed(reader.PointReader):
    """Readers whose spec is parsed, and whose decoders get parameters."""

    @property
    def spec(self) -> Any:
        """(Whether it is a sequence, type, its parameters) of each key."""
        return _parse(self._spec)

    def _bind(self, decoders: Codecs) -> Codecs:
        return _with_parameters(decoders, self._spec)

    def _known(self, mask: Any) -> dict[str, Any]:
        """Return a mask in the order of the spec. As in bags, an empty range or a None leaves a sequence out."""
        selection = super()._known(mask)
        sequences = {name for name, kind in self._spec.items() if kind.endswith("[]")}
        parts = {name: selection[name] for name in self._spec if name in selection}
        return {
            name: False if name in sequences and not part else part for name, part in parts.items()
        }


class DatasetReader(_Parsed, reader.DatasetReader):
    """Reads a dataset of any generation."""

    def __init__(self, directory: Any, decoders: Codecs, cache_index: bool = True) -> None:
        super().__init__(directory, decoders, cache_index)


class ShardedDatasetReader(_Parsed, reader.ShardedDatasetReader):
    """Reads a folder of datasets named by number: every `shard_step`-th from `shard_start`."""

    def __init__(
        self,
        directory: Any,
        decoders: Codecs,
        cache_index: bool = True,
        shard_start: int = 0,
        shard_step: int = 1,
    ) -> None:
        super().__init__(
            directory, decoders, cache_index, shardstart=shard_start, shardstep=shard_step
        )


class DatasetWriter(writer.DatasetWriter):
    """Writes a dataset of generation A into a new folder, with types such as `array(float32,2,3)[]`."""

    _generation = "A"
    _parents = True

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__(directory, spec, _with_parameters(encoders, spec))

    def _checked(self, spec: Mapping[str, str]) -> dict[str, str]:
        _parse(spec)
        return dict(sorted(spec.items()))

    @property
    def spec(self) -> Any:
        """(Whether it is a sequence, type, its parameters) of each key."""
        return _parse(self._spec)


class ShardedDatasetWriter(writer.Shards):
    """Writes a folder of datasets named by number.

    A shard is full after `shard_size` bytes or `shard_length` datapoints; None means no limit.
    """

    _writer = DatasetWriter
    _parents = True

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
        super().__init__(directory, spec, encoders, shard_length, shard_start, shard_step)
        if shard_step > 1:
            print("NOTE: Writing with shard step cannot preserve the record order.")
        self.shardsize = shard_size

    def _full(self) -> bool:
        return super()._full() or bool(self.shardsize and self.writer.size >= self.shardsize)

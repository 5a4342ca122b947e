"""Descriptions of datasets and samples for the commands `info`, `ls`, `cat` and `get`."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._dataset.read.selection import Sample
from bushel._dataset.views.dataset import Dataset
from bushel._pictures.texts import class_name
from bushel._runtime.arrays import chunks
from bushel.codecs.registry import NUMBERS
from bushel.spec import KEY

if TYPE_CHECKING:
    from bushel._dataset.views.stream import StreamDataset

_CHUNK, _BATCH = 1024, 64  # number of samples listed and read at a time
_POSITION = re.compile(r"\s*[-+]?[0-9]+\s*")
_ELEMENT = re.compile(r"(.+)\[(-?[0-9]+)\]", re.DOTALL)
_READABLE = frozenset({"utf8", "json", "msgpack", "bool", "datetime64", "timedelta64", *NUMBERS})


def is_readable(kind: str) -> bool:
    """Return whether values of this type are text or numbers."""
    base = kind.removesuffix("[]")
    if base.startswith("gzip("):
        base = base[5:-1]
    return base.partition("(")[0] in _READABLE


def digest(data: bytes) -> dict[str, Any]:
    """Return the size and the SHA-256 of bytes."""
    import hashlib

    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def readable(
    sample: Sample, spec: Mapping[str, str], decode: Callable[[Sample], Sample]
) -> dict[str, Any]:
    """Return a stored sample as JSON: text and numbers decoded, other values as `digest`."""
    shown = {
        name: value for name, value in sample.items() if name == KEY or is_readable(spec[name])
    }
    values = decode(shown)
    result: dict[str, Any] = {KEY: sample[KEY]}
    for name, stored in sample.items():
        if name in shown:
            result[name] = _plain(values[name])
        elif isinstance(stored, list):
            result[name] = [digest(element) for element in stored]
        else:
            result[name] = digest(stored)
    return result


def _plain(value: Any) -> Any:
    """Return a decoded value as a JSON value."""
    if isinstance(value, bytes | bytearray | memoryview):
        return digest(bytes(value))
    if isinstance(value, np.datetime64 | np.timedelta64):
        return str(value)
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member) for member in value]
    return value


def one_sample(dataset: Dataset, text: str, *, by_position: bool) -> Dataset:
    """Return the view of one sample, given its key or its position.

    Negative positions count from the end. With `by_position`, `text` is a position even if a
    sample has it as its key.

    Raises:
        KeyError: `text` is not a key and not a number; the message names similar keys.
        IndexError: The position is out of range.
        ValueError: `text` is not a number, with `by_position`.
    """
    if by_position or text not in dataset:
        if _POSITION.fullmatch(text):
            return dataset[[int(text)]]
        if by_position:
            raise ValueError(f"{text!r} is not a position: leave out --position if it is a key")
    return dataset.select_keys([text])


def listing(
    dataset: Dataset | StreamDataset, start: int, number: int | None, *, sizes: bool
) -> Iterator[tuple[int, str, dict[str, int]]]:
    """Yield position, key and, on request, the sizes in bytes of the fields of samples.

    A stream is read only as far as that goes. The size of a sequence is the size of all its
    elements.
    """
    if not isinstance(dataset, Dataset):
        for position, sample in _part(dataset, start, number):
            lengths_of_sample = {
                name: _length(value) for name, value in sample.items() if sizes and name != KEY
            }
            yield position, sample[KEY], lengths_of_sample
        return
    listed = range(len(dataset))[start:][:number]
    for positions in chunks(listed, _CHUNK):
        lengths = _sizes(dataset, positions) if sizes else [{} for _ in positions]
        yield from zip(
            positions, dataset.keys[positions.start : positions.stop], lengths, strict=True
        )


def lines(
    dataset: Dataset | StreamDataset, start: int, number: int | None, fields: Sequence[str] | None
) -> Iterator[dict[str, Any]]:
    """Yield samples as JSON, as `readable` makes it, with the names of their classes as `__labels__`.

    A stream is read only as far as that goes.

    Raises:
        KeyError: A field is unknown.
        CodecError: Stored bytes do not decode.
    """
    if not isinstance(dataset, Dataset):
        for _, sample in _part(dataset, start, number):
            chosen = {
                name: value
                for name, value in sample.items()
                if fields is None or name in fields or name == KEY
            }
            yield readable(chosen, dataset.spec, dataset.decode_sample)
        return
    listed = range(len(dataset))[start:][:number]
    labels = {
        name: names
        for name, names in dataset.labels.items()
        if dataset.spec.get(name, "utf8") != "utf8"
    }
    for positions in chunks(listed, _BATCH):
        for position, sample in zip(
            positions, dataset.read(positions, fields, decode=False), strict=True
        ):
            yield _with_names(
                readable(sample, dataset.spec, partial(dataset.decode_sample, position=position)),
                labels,
            )


def _with_names(line: dict[str, Any], labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    named = {field: class_name(line.get(field), names) for field, names in labels.items()}
    names = {field: name for field, name in named.items() if name}
    if names:
        return {**line, "__labels__": names}
    return line


def stored_value(dataset: Dataset, name: str) -> tuple[str, bytes]:
    """Return the type and the stored bytes of a value of the first sample: `label`, or `frames[3]` of a sequence field.

    Raises:
        KeyError: The field is unknown, or the sample lacks it.
        IndexError: The element is out of range.
        ValueError: `name` is a sequence field without an element.
    """
    match = _ELEMENT.fullmatch(name)
    field = match[1] if match and name not in dataset.spec else name
    [sample] = dataset.read([0], [field], decode=False)
    if field not in sample:
        raise KeyError(f"sample {sample[KEY]!r} lacks the field {field!r}")
    kind, value = dataset.spec[field].removesuffix("[]"), sample[field]
    if not isinstance(value, list):
        if field != name:
            raise KeyError(f"field {field!r} is not a sequence: name it without [...]")
        return kind, value
    if field == name or match is None:
        raise ValueError(
            f"field {field!r} is a sequence of {len(value)} elements: name one, such as {field}[0]"
        )
    number = int(match[2])
    if not -len(value) <= number < len(value):
        raise IndexError(
            f"field {field!r} of sample {sample[KEY]!r} has {len(value)} elements, not {name}"
        )
    return kind, value[number]


def _sizes(dataset: Dataset, positions: range) -> list[dict[str, int]]:
    columns = {name: dataset.lengths(positions, name).tolist() for name in dataset.spec}
    return [
        {name: lengths[row] for name, lengths in columns.items() if lengths[row] >= 0}
        for row in range(len(positions))
    ]


def _part(stream: StreamDataset, start: int, number: int | None) -> Iterator[tuple[int, Sample]]:
    return itertools.islice(
        enumerate(stream.stored()), start, None if number is None else start + number
    )


def _length(value: bytes | list[bytes]) -> int:
    if isinstance(value, list):
        return sum(map(len, value))
    return len(value)

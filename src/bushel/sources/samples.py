"""Samples made in Python: lists of dicts, and iterables of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bushel.errors import SpecError
from bushel.sources.base import Sample
from bushel.spec import KEY

__all__ = ["Samples", "Stream", "infer_spec"]

_MAGIC = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
)


class Samples:
    """A sequence of dicts.

    Args:
        samples: The dicts, with the key under `__key__` if they have one.
        spec: Field names to types; by default they are inferred from the first sample.

    Raises:
        SpecError: A type cannot be inferred from the first sample.
    """

    def __init__(self, samples: Sequence[Sample], *, spec: Mapping[str, str] | None = None) -> None:
        if spec is None and not len(samples):
            raise SpecError("fields cannot be inferred without samples: pass spec=")
        self._samples = samples
        self.spec: Mapping[str, str] = infer_spec(samples[0]) if spec is None else dict(spec)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, position: int) -> Sample:
        return self._samples[position]


class Stream:
    """Dicts from an iterable, such as a generator. They can be packed once, in order, in one part.

    Args:
        samples: The dicts, with the key under `__key__` if they have one.
        spec: Field names to types; by default they are inferred from the first sample.

    Raises:
        SpecError: A type cannot be inferred from the first sample.
    """

    def __init__(self, samples: Iterable[Sample], *, spec: Mapping[str, str] | None = None) -> None:
        self._rest = iter(samples)
        self._first: list[Sample] = []
        if spec is None:
            first = next(self._rest, None)
            if first is None:
                raise SpecError("fields cannot be inferred without samples: pass spec=")
            self._first = [first]
            spec = infer_spec(first)
        self.spec: Mapping[str, str] = dict(spec)

    def __iter__(self) -> Iterator[Sample]:
        """Yield the samples that have not been taken yet."""
        while self._first:
            yield self._first.pop()
        yield from self._rest


def infer_spec(sample: Sample) -> dict[str, str]:
    """The types of a sample's values: bytes are `jpg`, `png` or `bytes` by how they begin, a list is a sequence.

    Raises:
        SpecError: A value has no obvious type.
    """
    if not isinstance(sample, Mapping):
        raise SpecError(f"a sample must be a dict of fields, not {type(sample).__name__}")
    return {name: _type_of(name, value) for name, value in sample.items() if name != KEY}


def _type_of(name: str, value: Any) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        head = bytes(memoryview(value)[:8])
        return next((codec for magic, codec in _MAGIC if head.startswith(magic)), "bytes")
    if isinstance(value, str):
        return "utf8"
    if isinstance(value, bool | int | np.integer | np.bool_):
        return "int"
    if isinstance(value, float | np.floating):
        return "float"
    if isinstance(value, np.ndarray):
        return "array"
    if isinstance(value, Mapping):
        return "json"
    if isinstance(value, list | tuple) and value:
        kinds = {_type_of(name, element) for element in value}
        if len(kinds) == 1 and not (kind := kinds.pop()).endswith("[]"):
            return f"{kind}[]"
    raise SpecError(f"the type of field {name!r} cannot be inferred from {value!r:.80}: pass spec=")

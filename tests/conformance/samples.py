"""Specs and samples for the suite: random, but equal for equal seeds in every process."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.containers import get_writable
from bushel.containers.base import WriteOptions
from bushel.errors import SpecError
from bushel.spec import parse_spec
from bushel.testing.expect import ConformanceError

Sample = dict[str, Any]

_TEXTS = ("", "plain", "déjà vu", "☕ \U0001f600", "line\nbreak\ttab\0nul", "'\"\\/", "x" * 700)


@cache
def _jpegs() -> tuple[bytes, ...]:
    """Return a few small JPEGs of noise, in colour and grey."""
    noise = np.random.default_rng(20)
    shapes = [(5, 7, 3), (16, 16, 3), (1, 1, 3), (9, 4), (23, 11, 3), (8, 8)]
    encode = get_codec("jpg").encode
    return tuple(bytes(encode(noise.integers(0, 256, shape, np.uint8))) for shape in shapes)


def _tree(rng: random.Random) -> dict[str, Any]:
    return {
        rng.choice(_TEXTS[1:]): rng.choice([None, True, False, -(2**40), 0.125, "été", "", [], {}]),
        "list": [rng.randrange(-9, 9) for _ in range(rng.randrange(4))],
        "inner": {"a": [{"b": [rng.choice(_TEXTS)]}]},
    }


def _array(rng: random.Random) -> Any:
    shape = rng.choice([(), (0,), (3,), (2, 3), (1, 0, 2), (4, 1, 2)])
    kind = rng.choice(["uint8", "int64", "float32", "float64", "bool"])
    return np.asarray(np.random.default_rng(rng.randrange(2**32)).random(shape) * 9, kind)


_MAKERS: dict[str, Callable[[random.Random], Any]] = {
    "jpg": lambda rng: rng.choice(_jpegs()),
    "int": lambda rng: rng.choice([0, 1, 127, 128, 255, 256, 65535, rng.randrange(2**20)]),
    "utf8": lambda rng: rng.choice(_TEXTS),
    "float": lambda rng: rng.randrange(-(2**16), 2**16) / 8,
    "bytes": lambda rng: rng.randbytes(rng.choice([0, 1, 3, 4, 5, 511, 512, 513, 2000])),
    "array": _array,
    "json": _tree,
    "msgpack": _tree,
}

POOL: Mapping[str, str] = {
    "image": "jpg",
    "label": "int",
    "text": "utf8",
    "score": "float",
    "raw": "bytes",
    "array": "array",
    "notes": "json",
    "pack": "msgpack",
    "frames": "jpg[]",
    "words": "utf8[]",
    "parts": "bytes[]",
    "times": "int[]",
}
"""The fields that specs are made of. Integers and floats fit the 32-bit floats of RecordIO's header."""


def fit(
    container: str,
    generation: str | None,
    rng: random.Random,
    pool: Mapping[str, str] = POOL,
    limit: int = 99,
) -> dict[str, str]:
    """Return a random spec of fields that the container can hold. Fields that it cannot hold are dropped.

    `rng` decides which fields are tried first.

    Raises:
        ConformanceError: The container refuses every field.
    """
    names = list(pool)
    rng.shuffle(names)
    spec: dict[str, str] = {}
    for first in names:
        if _holds(container, generation, {first: pool[first]}):
            spec[first] = pool[first]
            break
    else:
        raise ConformanceError(f"{container} refuses each of the specs {[{name: pool[name]} for name in names]}")
    for name in names:
        if len(spec) < limit and name not in spec and _holds(container, generation, {**spec, name: pool[name]}):
            spec[name] = pool[name]
    return spec


def _holds(container: str, generation: str | None, spec: Mapping[str, str]) -> bool:
    try:
        get_writable(container).layout(parse_spec(spec), WriteOptions(keyed=True, generation=generation))
    except SpecError:
        return False
    return True


def make_sample(spec: Mapping[str, str], seed: int, number: int) -> Sample:
    """Return sample `number` of a generated dataset. It has at least one value or element, as tars need."""
    rng = random.Random(f"{seed}/{number}")
    sample: Sample = {}
    for name, kind in spec.items():
        make = _MAKERS[kind.removesuffix("[]").partition("(")[0]]
        if kind.endswith("[]"):
            sample[name] = [make(rng) for _ in range(rng.choice([0, 1, 2, 5, 9]))]
        else:
            sample[name] = make(rng)
    if all(isinstance(value, list) and not value for value in sample.values()):
        name, kind = next(iter(spec.items()))
        sample[name] = [_MAKERS[kind.removesuffix("[]").partition("(")[0]](rng)]
    return sample


def make_samples(spec: Mapping[str, str], seed: int, count: int) -> Sequence[Sample]:
    """Return the first `count` samples of the generated dataset."""
    return [make_sample(spec, seed, number) for number in range(count)]

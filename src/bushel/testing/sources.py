"""Conformance checks of sources."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bushel.codecs import get_codec
from bushel.sources.base import Source
from bushel.spec import KEY, Field, parse_spec

from .expect import expect, expect_equal, expect_raises

_THREADS = 4


def check_source(source: Source, *, pickles: bool = True) -> None:
    """Check a source: length, spec, samples, keys, threads, pickling.

    Every sample is read several times, so pass a small source without bad samples.

    Args:
        source: The source.
        pickles: Whether it must work in worker processes.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.sources import LabelledFolder
        >>> from bushel.testing import check_source
        >>> check_source(LabelledFolder("photos/"))
    """
    fields, samples = parse_spec(source.spec), len(source)
    expect(samples >= 0, f"the length is {samples}")
    first = [_checked(source[position], fields, position) for position in range(samples)]
    keys = [sample[KEY] for sample in first if KEY in sample]
    expect(
        len(keys) in (0, samples),
        f"{len(keys)} of {samples} samples have a key: all must have one, or none",
    )
    expect(len(set(keys)) == len(keys), "two samples have the same key")
    with expect_raises(IndexError, what=f"position {samples} of {samples}"):
        source[samples]
    with ThreadPoolExecutor(_THREADS) as pool:
        again = list(pool.map(source.__getitem__, range(samples)))
    for position, sample in enumerate(again):
        expect_equal(dict(sample), first[position], f"sample {position}, read again in a thread")
    if pickles:
        copy: Source = pickle.loads(pickle.dumps(source))
        expect_equal(dict(copy.spec), dict(source.spec), "the spec of a pickled copy")
        expect_equal(len(copy), samples, "the length of a pickled copy")
        for position in range(samples):
            expect_equal(
                dict(copy[position]), first[position], f"sample {position} of a pickled copy"
            )
    if (origin := getattr(source, "origin", None)) is not None:
        for position in range(samples):
            expect(
                isinstance(origin(position), str), f"the origin of sample {position} is not a str"
            )


def _checked(sample: Any, fields: Mapping[str, Field], position: int) -> dict[str, Any]:
    expect(
        isinstance(sample, Mapping), f"sample {position} is a {type(sample).__name__}, not a dict"
    )
    unknown = sorted(name for name in sample if name != KEY and name not in fields)
    expect(not unknown, f"sample {position} has {unknown}, which are not in the spec")
    expect(
        isinstance(sample.get(KEY, ""), str),
        f"the key of sample {position} is {sample.get(KEY)!r}, not a str",
    )
    for name, value in sample.items():
        if name == KEY or value is None:
            continue
        field = fields[name]
        elements = list(value) if field.sequence else [value]
        for element in elements:
            if not isinstance(element, bytes | bytearray | memoryview):
                get_codec(field.codec).encode(element)
    return dict(sample)

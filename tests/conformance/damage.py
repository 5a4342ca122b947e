"""Conformance checks of damaged and lost files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from tests.conformance.samples import make_samples
from tests.conformance.target import Target, forget, numbered

from bushel._dataset.views.stored_values import same_value
from bushel.errors import BushelError, CorruptError, DamagedWarning
from bushel.testing.expect import expect, expect_equal, expect_raises
from bushel.testing.readable import flip


def check_lost_sidecar(target: Target) -> None:
    """Check that the data files alone give back every sample with its key, and each value under some name."""
    spec = target.fit()
    samples = make_samples(spec, target.seed, 7)
    keys = numbered(7)
    path = target.write("lost", spec, samples, keys, shard_samples=3)
    forget(path)
    dataset = target.open(path)
    expect_equal(list(dataset.keys), keys, "keys without sidecars")
    forget(path)
    dataset = target.open(path, spec=spec)
    for number, sample in enumerate(samples):
        leaves = list(_leaves([dataset[number], dataset.read([number], decode=False)[0]]))
        for name, value in sample.items():
            for element in value if spec[name].endswith("[]") else [value]:
                is_read = any(same_value(leaf, element) for leaf in leaves)
                expect(
                    is_read,
                    (f"{name}={element!r} of sample {number} is missing from {dataset.spec} without the sidecar"),
                )


def _leaves(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, Mapping):
        for member in value.values():
            yield from _leaves(member)
    elif isinstance(value, list | tuple):
        for member in value:
            yield from _leaves(member)


def check_damage(target: Target) -> None:
    """Check that `bushel.verify` and a verifying read, which names the sample, find a flipped bit in any field."""
    import bushel

    spec = target.fit()
    samples = make_samples(spec, target.seed, 5)
    path = target.write("damage", spec, samples, numbered(5))
    expect(bushel.verify(path).ok, "verify reports problems in an undamaged dataset")
    with target.open(path) as dataset:
        [shard] = dataset.shards
        places = []
        for name, column in shard.index.fields.items():
            expect(
                column.crc32 is not None,
                f"the index of a written dataset has no checksums for {name!r}",
            )
            rows = np.flatnonzero(column.length > 0)
            if len(rows):
                row = int(rows[len(rows) // 2])
                starts = column.starts
                if starts is None:
                    sample = row
                else:
                    sample = int(np.searchsorted(starts, row, side="right")) - 1
                place = shard.index.place(column.file, int(column.offset[row]) + int(column.length[row]) // 2)
                if place.file is not None:
                    places.append((name, sample, shard.shard.path(place.file), place.offset))
    expect(places, "no field has bytes in a file")
    for name, sample, file, at in places:
        flip(file, at)
        with target.open(path, verify=True) as dataset:
            try:
                dataset.read([sample], [name], decode=False)
            except CorruptError as error:
                expect_equal(
                    (error.key, error.field),
                    (f"key{sample:03d}", name),
                    "key and field of the CorruptError",
                )
            else:
                expect(
                    False,
                    f"a flipped bit in {name!r} of sample {sample} was read without an error",
                )
            intact = [number for number in range(5) if number != sample]
            dataset.read(intact, [name])
        expect(
            not bushel.verify(path).ok,
            f"verify does not find a flipped bit in {name!r} of sample {sample}",
        )
        flip(file, at)
    expect(bushel.verify(path).ok, "verify reports problems after the damage was undone")


def check_stale_index(target: Target) -> None:
    """Check that an index older than the data is not used: new samples are found, truncated files refused."""
    spec = target.fit(limit=3)
    path = target.write("stale", spec, make_samples(spec, target.seed, 4), numbered(4))
    with target.open(path) as dataset:
        file = dataset.shards[0].shard.path(0)
    os.truncate(file, file.stat().st_size // 2 - 1)
    with warnings.catch_warnings():
        # samples whose bytes are left can still be read
        warnings.simplefilter("error", DamagedWarning)
        with (
            expect_raises(BushelError, DamagedWarning, what="a data file that lost its second half"),
            target.open(path) as dataset,
        ):
            for sample in dataset:
                expect(sample, "a sample")

"""Conformance checks of partial reads: positions, fields, elements, batches."""

from __future__ import annotations

import numpy as np
from tests.conformance.samples import POOL, make_samples
from tests.conformance.target import Target, decoded, numbered

from bushel.testing.expect import InapplicableError, expect, expect_equal, expect_raises


def check_positions(target: Target) -> None:
    """Check that samples are found by position, from both ends, by NumPy integers, slices and lists."""
    spec = target.fit(limit=2)
    samples = make_samples(spec, target.seed, 9)
    dataset = target.open(target.write("positions", spec, samples, numbered(9), shard_samples=4))
    for position in (*range(-9, 9), np.int64(3), np.uint8(8)):
        expect_equal(dataset[position]["__key__"], f"key{int(position) % 9:03d}", f"ds[{position}]")
    for position in (9, -10, 2**40, -(2**40)):
        with expect_raises(IndexError, what=f"ds[{position}] of 9 samples"):
            dataset[position]
    for chosen in (slice(2, 7), slice(None, None, -3), [5, 1, 1], np.array([8, -1, 0])):
        expected_keys = list(np.array(list(dataset.keys))[chosen])
        expect_equal(list(dataset[chosen].keys), expected_keys, f"keys of ds[{chosen}]")
        expect_equal(
            [sample["__key__"] for sample in dataset[chosen]],
            expected_keys,
            f"samples of ds[{chosen}]",
        )


def check_elements(target: Target) -> None:
    """Check that ranges, steps and lists of a sequence's elements equal Python's slicing."""
    lists = {name: kind for name, kind in POOL.items() if kind.endswith("[]")}
    try:
        spec = target.fit(lists)
    except AssertionError as error:
        raise InapplicableError(f"{target.container} cannot hold sequence fields") from error
    samples = make_samples(spec, target.seed, 6)
    dataset = target.open(target.write("elements", spec, samples, numbered(6)), verify=True)
    for number, sample in enumerate(samples):
        for name, values in sample.items():
            values = decoded(spec[name], values)
            expect_equal(
                dataset.available(number)[name],
                range(len(values)),
                f"available({number})[{name!r}]",
            )
            for chosen in (
                slice(1, 3),
                slice(None, None, -2),
                slice(-3, None),
                slice(9, 2),
                slice(0, 2**40),
            ):
                part = dataset[number, {name: chosen}]
                expect_equal(
                    part[name],
                    values[chosen],
                    f"elements {chosen} of {name!r} of sample {number}",
                )
                expect_equal(sorted(part), ["__key__", name], "fields of a masked read")
            if values:
                some = [len(values) - 1, 0, -1, 0]
                part = dataset[number, {name: some}][name]
                expect_equal(
                    part,
                    [values[at] for at in some],
                    f"elements {some} of {name!r} of sample {number}",
                )
            with expect_raises(IndexError, what=f"element {len(values)} of {len(values)}"):
                dataset[number, {name: [len(values)]}]


def check_masks(target: Target) -> None:
    """Check that a sample has only the requested fields."""
    spec = target.fit()
    samples = make_samples(spec, target.seed, 3)
    dataset = target.open(target.write("masks", spec, samples))
    for name in spec:
        value = decoded(spec[name], samples[1][name])
        for mask in ([name], {name: True}, {**dict.fromkeys(spec, False), name: True}):
            part = dataset[1, mask]
            expect_equal(sorted(part), sorted(["__key__", name]), f"fields of ds[1, {mask}]")
            expect_equal(part[name], value, f"ds[1, {mask}]")
        expect_equal(dataset.select_fields([name]).spec, {name: spec[name]}, f"spec of fields([{name!r}])")
    with expect_raises(KeyError, what="an unknown field"):
        dataset[0, ["no such field"]]


def check_batches(target: Target) -> None:
    """Check that a batched read equals single reads, in the requested order, decoded or stored."""
    spec = target.fit()
    samples = make_samples(spec, target.seed, 12)
    dataset = target.open(target.write("batches", spec, samples, numbered(12), shard_samples=5))
    order = [target.random.randrange(-12, 12) for _ in range(40)]
    single = [dataset[position] for position in order]
    expect_equal(dataset.read(order), single, "read(positions), compared with ds[position]")
    stored = dataset.read(order, decode=False)
    for position, sample, raw in zip(order, single, stored, strict=True):
        expect_equal(
            dataset.decode_sample(raw, position),
            sample,
            f"decoded stored bytes of sample {position}",
        )
    for name, kind in spec.items():
        if kind.endswith("[]"):
            continue
        buffer, offsets = dataset.gather(order, name)
        for row, raw in enumerate(stored):
            expect(
                buffer[offsets[row] : offsets[row + 1]].tobytes() == bytes(raw[name]),
                f"gather of {name!r}",
            )

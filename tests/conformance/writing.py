"""Conformance checks of writing samples and reading them back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.conformance.samples import POOL, Sample, make_sample, make_samples
from tests.conformance.target import Target, compare, forget, numbered

from bushel._dataset.views.stored_values import same_value
from bushel.errors import BushelError, SpecError
from bushel.testing.expect import expect, expect_equal, expect_raises

HUGE = (16 << 20) + 5
"""Size of a huge value in bytes: more than 16 MiB, and not a multiple of a power of two."""

KEYS = (
    "0",
    "42",
    "a b",
    "été/фильм 1",
    "☕",
    "dir/sub/name",
    "a.b",
    ".hidden",
    "trailing ",
    "tab\tkey",
    "new\nline",
    "x" * 99,
    "long/" * 60 + "key",
    "\U0001f600" * 40,
    "a'b\"c\\d",
    "-1",
)
"""Keys that are difficult for some container. A container may refuse one, but must not change one."""


def check_round_trip(target: Target) -> None:
    """Check that random specs and samples are read back unchanged, from one shard and from several."""
    for again in range(6):
        spec = target.fit(limit=[99, 1, 2, 3, 5, 99][again], again=again)
        samples = make_samples(spec, target.seed + again, 13)
        keys = numbered(13)
        options = {} if again % 2 else {"shard_samples": 5}
        path = target.write(f"round-{again}", spec, samples, keys, **options)
        with target.open(path) as dataset:
            expect_equal(dataset.spec, spec, "spec")
            compare(dataset, samples, spec, keys, f"spec {spec}")


def check_no_samples(target: Target) -> None:
    """Check that a dataset without samples can be written and read."""
    path = target.write("none", target.fit(), [])
    with target.open(path) as dataset:
        expect_equal(len(dataset), 0, "number of samples")
        expect_equal(list(dataset), [], "samples")
        with expect_raises(IndexError, what="the first sample of an empty dataset"):
            dataset[0]


def check_keys(target: Target) -> None:
    """Check that a key is kept exactly, or refused without a trace, and that it is found and is unique."""
    spec = target.fit(limit=3)
    accepted: list[str] = []
    samples = []
    with target.writer("keys", spec) as writer:
        for number, key in enumerate(KEYS):
            sample = make_sample(spec, target.seed, number)
            try:
                writer.append(sample, key=key)
            except (SpecError, ValueError):
                continue
            accepted.append(key)
            samples.append(sample)
        with expect_raises(ValueError, SpecError, what=f"the key {accepted[0]!r} a second time"):
            writer.append(samples[0], key=accepted[0])
        expect_equal(len(writer), len(accepted), "len(writer) after refused samples")
    expect(len(accepted) >= 3, f"only the keys {accepted} of {KEYS} were accepted")
    for place in ("with its sidecar", "without its sidecar"):
        dataset = target.open(target.folder / "keys")
        expect_equal(list(dataset.keys), accepted, f"keys, {place}")
        for number, key in enumerate(accepted):
            expect(key in dataset, f"{key!r} is not in the dataset {place}")
            expect_equal(dataset[key]["__key__"], key, f"ds[{key!r}], {place}")
            expect_equal(dataset.position(key), number, f"position of {key!r}, {place}")
        expect("no such key" not in dataset, "a key that was never written is in the dataset")
        with expect_raises(KeyError, what="an unknown key"):
            dataset["no such key"]
        dataset.close()
        forget(target.folder / "keys")


def check_keys_of_their_own(target: Target) -> None:
    """Check that samples written without keys get unique keys, by which they are found."""
    spec = target.fit(limit=2)
    dataset = target.open(target.write("no-keys", spec, make_samples(spec, target.seed, 5)))
    keys = list(dataset.keys)
    expect_equal(len(set(keys)), 5, "number of different keys")
    for number, key in enumerate(keys):
        expect(same_value(dataset[key], dataset[number]), f"ds[{key!r}] is not ds[{number}]")


def check_empty_values(target: Target) -> None:
    """Check that empty text, empty bytes, empty lists and lists of empty values are kept."""
    empty: dict[str, Any] = {
        "utf8": "",
        "bytes": b"",
        "json": {},
        "msgpack": [],
        "int": 0,
        "float": 0.0,
    }
    pool = {name: kind for name, kind in POOL.items() if kind.removesuffix("[]") in empty or kind == "jpg[]"}
    pool["image"] = "jpg"  # some containers need one
    spec = target.fit(pool)
    samples: list[Sample] = []
    for length in (0, 1, 3, 0):
        sample = make_sample(spec, target.seed, length)
        for name, kind in spec.items():
            codec = kind.removesuffix("[]")
            if codec in empty:
                if kind.endswith("[]"):
                    sample[name] = [empty[codec]] * length
                else:
                    sample[name] = empty[codec]
            elif kind == "jpg[]":
                sample[name] = []
        samples.append(sample)
    keys = numbered(len(samples))
    path = target.write("empty", spec, samples, keys)
    compare(target.open(path, verify=True), samples, spec, keys, f"empty values of {spec}")


def check_missing_fields(target: Target) -> None:
    """Check that a sample may lack a field, or is refused without a trace."""
    spec = target.fit()
    keys: list[str] = []
    samples: list[Sample] = []
    with target.writer("missing", spec) as writer:
        for number, name in enumerate([None, *spec, None]):
            sample = make_sample(spec, target.seed, number)
            sample.pop(str(name), None)
            try:
                writer.append(sample, key=f"key{number}")
            except SpecError:
                continue
            keys.append(f"key{number}")
            samples.append(sample)
    expect(len(keys) >= 2, "samples with all fields were refused")
    dataset = target.open(target.folder / "missing")
    compare(dataset, samples, spec, keys, "samples that lack fields")
    for number, sample in enumerate(samples):
        expect_equal(sorted(dataset.available(number)), sorted(sample), f"available({number})")


def check_refused_values(target: Target) -> None:
    """Check that a value that cannot be encoded leaves no files."""
    spec = target.fit()
    samples = make_samples(spec, target.seed, 4)
    with target.writer("refused", spec) as writer:
        for number, sample in enumerate(samples):
            for name, kind in spec.items():
                bad: object = 3
                if name != "image":
                    bad = _broken() if kind.endswith("[]") else object()
                with expect_raises(BushelError, TypeError, ZeroDivisionError, what=f"an impossible {name}"):
                    writer.append({**sample, name: bad}, key=f"bad{number}{name}")
            with expect_raises(SpecError, what="a field that is not in the spec"):
                writer.append({**sample, "surplus": 1}, key=f"surplus{number}")
            writer.append(sample, key=f"key{number:03d}")
    compare(target.open(target.folder / "refused"), samples, spec, numbered(4), "after refused samples")


def _broken() -> Iterator[Any]:
    """Return a sequence whose second element raises."""
    yield b"\0\0"
    raise ZeroDivisionError


def check_huge_values(target: Target) -> None:
    """Check that a value of more than 16 MiB is stored and read like any other."""
    spec = target.fit({"raw": "bytes", "image": "jpg", "label": "int"}, limit=2)
    name = "raw" if "raw" in spec else "image"
    huge = np.random.default_rng(target.seed).integers(0, 256, HUGE, np.uint8).tobytes()
    samples = make_samples(spec, target.seed, 3)
    samples[1][name] = huge
    path = target.write("huge", spec, samples, numbered(3))
    with target.open(path, verify=True) as dataset:
        for number in (1, 0, 2):
            stored = dataset.read([number], [name], decode=False)[0][name]
            expect(
                bytes(stored) == samples[number][name],
                f"field {name!r} of sample {number} differs",
            )


def check_append(target: Target) -> None:
    """Check that samples are appended to an existing dataset, which no other mode touches."""
    for again, options in enumerate([{}, {"shard_samples": 2}]):
        spec = target.fit(again=again)
        samples = make_samples(spec, target.seed, 9)
        keys = numbered(9)
        name = f"append-{again}"
        path = target.write(name, spec, samples[:4], keys[:4], **options)
        with expect_raises(FileExistsError, what="mode='create' on an existing dataset"):
            target.writer(name, spec)
        for first, last in ((4, 5), (5, 9)):
            with target.writer(name, spec, mode="append", **options) as writer:
                expect_equal(len(writer), first, "len(writer) in mode='append'")
                with expect_raises(ValueError, SpecError, what="an existing key"):
                    writer.append(samples[0], key=keys[1])
                for number in range(first, last):
                    expect_equal(
                        writer.append(samples[number], key=keys[number]),
                        number,
                        "position of a new sample",
                    )
        compare(target.open(path, verify=True), samples, spec, keys, "after appending")
        forget(path)
        expect_equal(list(target.open(path).keys), keys, "keys after appending, without sidecars")

"""A container under test, and writing and comparing datasets of it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.samples import POOL, Sample, fit

from bushel.codecs import get_codec
from bushel.testing.expect import expect_equal


@dataclass(frozen=True, slots=True)
class Target:
    """A container to check.

    Attributes:
        container: Its name.
        folder: An empty folder to write to.
        generation: Generation of a bag.
        seed: Seed of the random specs and samples.
    """

    container: str
    folder: Path
    generation: Any = None
    seed: int = 0

    @property
    def random(self) -> random.Random:
        """Return a new random generator, seeded alike every time."""
        return random.Random(f"{self.container}/{self.generation}/{self.seed}")

    def fit(self, pool: Mapping[str, str] = POOL, limit: int = 99, again: int = 0) -> dict[str, str]:
        """Return a spec that the container can hold; other values of `again` give other specs."""
        return fit(self.container, self.generation, random.Random(f"{self.seed}/{again}"), pool, limit)

    def writer(self, name: str, spec: Mapping[str, str], **options: Any) -> Any:
        """Return a writer for the dataset of this name."""
        import bushel

        options = {
            "container": self.container,
            "generation": self.generation,
            "sync": False,
            **options,
        }
        return bushel.Writer(self.folder / name, spec, **options)

    def write(
        self,
        name: str,
        spec: Mapping[str, str],
        samples: Sequence[Sample],
        keys: Sequence[str] | None = None,
        **options: Any,
    ) -> Path:
        """Write a dataset and return its folder."""
        with self.writer(name, spec, **options) as writer:
            for number, sample in enumerate(samples):
                writer.append(sample, key=None if keys is None else keys[number])
        return self.folder / name

    def open(self, path: Path, **options: Any) -> Any:
        """Open a dataset."""
        import bushel

        return bushel.open(path, **options)


def compare(dataset: Any, samples: Sequence[Sample], spec: Mapping[str, str], keys: Sequence[str], what: str) -> None:
    """Fail unless a dataset has exactly these samples with these keys, in this order."""
    expect_equal(len(dataset), len(samples), f"{what}: number of samples")
    expect_equal(list(dataset.keys), list(keys), f"{what}: keys")
    for number, (read_sample, sample) in enumerate(zip(dataset, samples, strict=True)):
        expect_equal(read_sample.pop("__key__"), keys[number], f"{what}: __key__ of sample {number}")
        expect_equal(sorted(read_sample), sorted(sample), f"{what}: fields of sample {number}")
        for name, value in sample.items():
            expect_equal(
                read_sample[name],
                decoded(spec[name], value),
                f"{what}: field {name!r} of sample {number}",
            )


def decoded(kind: str, value: Any) -> Any:
    """Return the value read back for a written value. Bytes written to a codec field are its encoding."""
    if kind.endswith("[]"):
        return [decoded(kind[:-2], element) for element in value]
    encoded = kind != "bytes" and isinstance(value, bytes)
    if encoded:
        return get_codec(kind).decode(value)
    return value


def numbered(count: int) -> list[str]:
    """Return keys that every container can hold."""
    return [f"key{number:03d}" for number in range(count)]


def forget(path: Path) -> None:
    """Remove everything that Bushel stored beside the data."""
    for sidecars in list(path.rglob(".bushel")):
        shutil.rmtree(sidecars)

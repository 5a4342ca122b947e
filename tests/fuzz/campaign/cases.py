"""The cases of a campaign. A case is a pure function of the container, the seed and its number."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.campaign.material import Material
from tests.fuzz.mutations import mutate, with_own_crc32

__all__ = ["ARMS", "Case", "make_case"]

ARMS = ("local, no index", "local, index", "object, no index", "object, index")

_ARM_OF = (0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 2, 3)
"""Requests to a store take five times as long as local reads, so one case in eight makes them."""


@dataclass(frozen=True, slots=True)
class Case:
    """One damaged file, and how the dataset is read.

    Attributes:
        number: Its number in the campaign.
        arm: Index into `ARMS`.
        material: Index of the dataset.
        file: The damaged file.
        data: Its bytes.
        mutations: What was done to it.
        keep_time: Whether the damaged file keeps its modification time, as decay does.
        verify: Argument of `bushel.open`.
        check: Whether `bushel.verify` runs too.
        repair: Whether `bushel.repair` runs too.
        decode: Position to decode, modulo the number of samples.
    """

    number: int
    arm: int
    material: int
    file: str
    data: bytes
    mutations: tuple[str, ...]
    keep_time: bool
    verify: bool | None
    check: bool
    repair: bool
    decode: int
    forged: bool

    @property
    def indexed(self) -> bool:
        """Whether the dataset has an index, with checksums, that was made before the damage."""
        return self.arm % 2 == 1

    @property
    def remote(self) -> bool:
        """Whether it is read through an object store."""
        return self.arm >= 2

    @property
    def believed(self) -> bool:
        """Whether a file of the index is damaged, and not the data, and no checksum shows it."""
        return self.sidecar and (self.forged or not self.file.endswith(".safetensors"))

    @property
    def sidecar(self) -> bool:
        """Whether a file of the index is damaged, and not the data."""
        return ".bushel/" in self.file


def make_case(container: str, seed: int, number: int, materials: Sequence[Material]) -> Case:
    """Return a case of a campaign."""
    rng = random.Random(f"{container}/{seed}/{number}")
    arm = _ARM_OF[number % len(_ARM_OF)]
    chosen = rng.randrange(len(materials))
    material = materials[chosen]
    sidecar = arm % 2 == 1 and rng.random() < 0.3
    files = material.sidecars if sidecar else material.files
    file = rng.choice(list(files))
    data, mutations = mutate(files[file], rng)
    forged = sidecar and rng.random() < 0.5
    often = 1 if arm < 2 else 2
    return Case(
        number,
        arm,
        chosen,
        file,
        with_own_crc32(data) if forged else data,
        tuple(mutations),
        keep_time=rng.random() < 0.5,
        verify=True if rng.random() < 0.7 else None,
        check=rng.randrange(4 * often) == 0,
        repair=rng.randrange(24) == 0 and arm < 2,
        decode=rng.randrange(1000),
        forged=forged,
    )

"""`Info`: a dataset in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bushel.core.dataset.discovery import Incomplete
from bushel.core.dataset.shards import OpenShard

__all__ = ["Info", "info_of", "readable_size"]


@dataclass(frozen=True, slots=True, repr=False)
class Info:
    """Container, counts and sizes of a dataset.

    Attributes:
        container: Name of the container; several names are joined by `+`.
        shards: Number of shards.
        samples: Number of samples of the whole dataset. A view has the same info as the dataset that it views.
        bytes: Size of all files in bytes.
        files: Number of files.
        checksums: Whether the CRC-32 of every field is known.
        keyed: Whether samples have keys of their own rather than positions.
        indexed: Whether the index of every shard is stored beside it.
        spec: Field names to types.
        complete: Whether the writer of the dataset has finished, as far as is known.
        expected: Number of samples that an incomplete dataset should have, if known.
    """

    container: str
    shards: int
    samples: int
    bytes: int
    files: int
    checksums: bool
    keyed: bool
    indexed: bool
    spec: dict[str, str]
    complete: bool = True
    expected: int | None = None

    @property
    def shortfall(self) -> str:
        """What an incomplete dataset lacks, in words."""
        return "incomplete" if self.expected is None else f"incomplete: {self.expected:,} samples expected"

    def __repr__(self) -> str:
        counts = ", ".join(
            f"{number:,} {unit}{'' if number == 1 else 's'}"
            for number, unit in ((self.samples, "sample"), (self.shards, "shard"), (self.files, "file"))
        )
        notes = [
            "keys" if self.keyed else "no keys",
            "checksums" if self.checksums else "no checksums",
            "index stored" if self.indexed else "index not stored",
        ]
        if not self.complete:
            notes.append(self.shortfall)
        fields = ", ".join(f"{name}: {kind}" for name, kind in self.spec.items())
        return f"<bushel.Info: {self.container}, {counts}, {readable_size(self.bytes)}; {fields}; {', '.join(notes)}>"


def info_of(shards: Sequence[OpenShard], spec: dict[str, str], incomplete: Incomplete | None = None) -> Info:
    """Return the info of a dataset with these shards and fields."""
    return Info(
        container="+".join(dict.fromkeys(shard.container for shard in shards)),
        shards=len(shards),
        samples=sum(shard.samples for shard in shards),
        bytes=sum(stamp.size for shard in shards for stamp in shard.stamps),
        files=sum(len(shard.stamps) for shard in shards),
        checksums=all(shard.checksums for shard in shards),
        keyed=any(shard.keyed for shard in shards),
        indexed=all(shard.stored for shard in shards),
        spec=spec,
        complete=incomplete is None,
        expected=None if incomplete is None else incomplete.expected,
    )


def readable_size(size: int) -> str:
    """Return a number of bytes as a person writes it: `999 B`, `1.5 kB`, `2.0 GB`."""
    if size < 1000:
        return f"{size} B"
    value, unit = float(size), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < 999.95:
            break
        value, unit = value / 1000, larger
    return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"

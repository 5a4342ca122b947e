"""`Info`: a dataset in a few numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bushel.core.dataset.discovery import Incomplete
from bushel.core.dataset.shards import Listing, OpenShard, any_keyed, listed_names, manifest_path
from bushel.core.index.sidecar import load_manifest
from bushel.errors import FormatError

__all__ = ["Info", "Totals", "info_of", "readable_size", "totals_of", "unlisted_shards"]


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

    Examples:
        >>> info = ds.info
        >>> info.container, info.samples, info.shards, info.keyed
        ('tar', 12, 1, True)
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
        """The missing samples or parts of an incomplete dataset, in words."""
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


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts and sizes of some shards: see `Info`."""

    containers: tuple[str, ...]
    samples: int
    bytes: int
    files: int
    checksums: bool
    keyed: bool
    stored: bool


def totals_of(shards: Sequence[OpenShard]) -> Totals:
    """Return the totals of some shards."""
    if isinstance(shards, Listing):
        table = shards.table
        counts = (int(table.samples.sum()), int(table.sizes.sum()), len(table.sizes))
        return Totals((table.container,), *counts, table.all_summed, any_keyed(shards), stored=True)
    return Totals(
        tuple(dict.fromkeys(shard.container for shard in shards)),
        sum(shard.samples for shard in shards),
        sum(stamp.size for shard in shards for stamp in shard.stamps),
        sum(len(shard.stamps) for shard in shards),
        all(shard.checksums for shard in shards),
        any_keyed(shards),
        all(shard.stored for shard in shards),
    )


def info_of(shards: Sequence[OpenShard], spec: dict[str, str], incomplete: Incomplete | None = None) -> Info:
    """Return the info of a dataset with these shards and fields."""
    totals = totals_of(shards)
    return Info(
        container="+".join(totals.containers),
        shards=len(shards),
        samples=totals.samples,
        bytes=totals.bytes,
        files=totals.files,
        checksums=totals.checksums,
        keyed=totals.keyed,
        indexed=totals.stored,
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


def unlisted_shards(shards: Sequence[OpenShard]) -> list[str]:
    """Return the paths of the shards that the manifest of their folder does not list; none if it has no manifest."""
    place = manifest_path([opened.shard for opened in shards])
    try:
        manifest = None if place is None else load_manifest(place)
    except (FormatError, OSError):  # `verify` reports a damaged manifest
        return []
    if manifest is None or not manifest.complete:
        return []
    listed = {entry.name for entry in manifest.shards}
    names = listed_names([opened.shard for opened in shards])
    return [str(opened.path(0)) for opened, name in zip(shards, names, strict=True) if name not in listed]

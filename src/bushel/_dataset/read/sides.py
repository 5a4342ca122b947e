"""Datasets that are joined to a dataset: their fields, and which sample belongs to which."""

from __future__ import annotations

from msgspec import Struct

from bushel._runtime.arrays import I32, I64
from bushel._runtime.public import public

Rows = I32 | I64


@public("bushel.datasets")
class Joined(Struct, frozen=True):
    """The numbers of matched and unmatched samples of two datasets that were joined.

    Attributes:
        on: The property that names the match of a sample: see `join`.
        how: `inner` or `left`.
        matched: Number of samples of the first dataset that have a match in the second.
        lone: Number of samples without a match, in the first dataset and in the second.
        examples: The first few of them, for each of the two: the name by which a match was looked
            for, or the key.
        missing_names: Number of names in lists that no sample of the second dataset has. A sample
            of the first dataset lacks a match if any of its names is missing, or if it has no
            list.

    Examples:
        >>> both = bushel.join(ds.select_fields(["image"]), ds[:8].select_fields(["label"]))
        >>> [found] = both.info.joins
        >>> found.matched, found.lone, found.examples[0]
        (8, (4, 0), ('dog/2', 'dog/3', 'dog/4'))
    """

    on: str
    how: str
    matched: int
    lone: tuple[int, int]
    examples: tuple[tuple[str, ...], tuple[str, ...]]
    missing_names: int = 0

    @property
    def misses(self) -> str:
        """How many samples have no match, in words; empty if all have one."""
        said = []
        for which, number, names in zip(("first", "second"), self.lone, self.examples, strict=True):
            if number:
                missing = self.missing_names if which == "first" else 0
                shown = ", ".join(map(repr, names)) + (
                    ", …" if (missing or number) > len(names) else ""
                )
                if missing:
                    shown = f"{missing:,} missing names: {shown}"
                said.append(f"{number:,} of the {which} dataset ({shown})")
        if said:
            return f"joined by {self.on}: no match for {' and '.join(said)}"
        return ""


class Side(Struct, frozen=True):
    """A dataset that is joined to the first one.

    Attributes:
        shards: Numbers of its shards.
        names: Its fields.
        rows: int32[n] or int64[n], the place of each sample's match among the samples of these
            shards; -1 for none.
    """

    shards: range
    names: frozenset[str]
    rows: Rows

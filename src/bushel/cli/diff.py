"""`bushel diff`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any

import bushel

from .command import Argument, Option
from .options import OutputOptions
from .output import count, print_json, print_text

if TYPE_CHECKING:
    from bushel import Dataset
    from bushel.integrity.diff_datasets import Diff


_LISTED = 5


def diff(
    left: Annotated[str, Argument("The dataset before.")],
    right: Annotated[str, Argument("The dataset after; its container may be another.")],
    *,
    values: Annotated[
        bool, Option("Decode values whose bytes differ or cannot be compared by the indexes.")
    ] = False,
    all_keys: Annotated[
        bool, Option("List all keys instead of the first five of each kind.", "--all")
    ] = False,
    shown: OutputOptions,
) -> bool:
    """Compare two datasets: samples that only one has, and fields that changed.

    Samples are matched by key, and values are compared by their lengths and checksums in the
    indexes: no data are read without --values. The exit code is 0 if the datasets are the same, and
    1 if anything differs or cannot be compared.

    Examples:
      bushel diff before/ after/
      bushel diff train.tar train-bag/ --values
      bushel diff before/ after/ --all --json
    """
    with bushel.open(left) as before, bushel.open(right) as after:
        differences = bushel.diff(before, after, values=values, progress=not shown.quiet)
        rows = list(_rows(differences, before, after, None if all_keys else _LISTED))
    if shown.as_json:
        print_json(
            {
                "left": left,
                "right": right,
                "same": differences.same,
                "summary": differences.summary,
                "samples": differences.samples,
                "matched_by": differences.by,
                "matched": len(differences.pairs[0]),
                "removed_fields": differences.removed_fields,
                "added_fields": differences.added_fields,
                "differences": [
                    {"what": what, "samples": number, "keys": keys} for what, number, keys in rows
                ],
            }
        )
        return differences.same
    for what, number, keys in rows:
        more = ", …" if number > len(keys) else ""
        print_text(f"{what}: {count(number, 'sample')}: {', '.join(keys)}{more}")
    for side, fields in (("left", differences.removed_fields), ("right", differences.added_fields)):
        if fields:
            listed = ", ".join(f"{name} ({kind})" for name, kind in fields.items())
            print_text(f"fields only on the {side}: {listed}")
    for name, names in differences.labels.items():
        for number, pair in enumerate(zip_longest(*names, fillvalue="")):
            if pair[0] != pair[1]:
                print_text(
                    f"{name}: class {number} is {pair[0]!r} on "
                    f"the left, and {pair[1]!r} on the right"
                )
                break
    if not shown.quiet:
        print_text(
            f"{left} has {count(differences.samples[0], 'sample')}, {right} "
            f"{differences.samples[1]:,}; {len(differences.pairs[0]):,} "
            f"matched by {differences.by}: {differences.summary}"
        )
        if not values and any(len(field.unknown) for field in differences.fields.values()):
            print_text(
                "--values reads what the indexes cannot compare; `bushel index` records checksums."
            )
    return differences.same


def _rows(
    found: Diff, one: Dataset, other: Dataset, most: int | None
) -> Iterator[tuple[str, int, list[str]]]:
    """Yield each kind of difference that there is, the number of its samples, and up to `most` of their keys."""
    kinds: list[tuple[str, Any, Dataset]] = [
        ("removed", found.removed, one),
        ("added", found.added, other),
    ]
    for name, field in found.fields.items():
        kinds += [
            (f"{name}: changed", field.changed, one),
            (f"{name}: other bytes, same value", field.same_value, one),
            (f"{name}: not known", field.unknown, one),
        ]
    for what, positions, dataset in kinds:
        if len(positions):
            yield what, len(positions), list(dataset[positions[:most]].keys)

"""Compare two datasets: samples that only one has, and fields whose values changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.stored_values import are_same
from bushel._index.identity import field_digests
from bushel._index.key_lookup import equal_hashes
from bushel._index.shard import Keys
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import I64, NO_NUMBERS, U64, Bools
from bushel._runtime.progress import (
    Progress,
    ProgressReporter,
    ShowProgress,
    callback_of,
    user_call,
)
from bushel._runtime.public import public
from bushel.kernels import crc32, hash_keys

T = TypeVar("T")
ClassNames = tuple[tuple[str, ...], tuple[str, ...]]
"""The names of the classes of a field on the left and on the right."""

_AT_ONCE = 1 << 16


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class FieldDiff:
    """The samples that both datasets have, by the comparison of one field. Each is int64[n], positions on the left.

    Attributes:
        changed: The values differ: by presence, length or checksum, or when they were decoded.
        same_value: The bytes differ, but not the values that they decode to. Empty unless values
            were decoded.
        unknown: Not decided by the index: the values have one length and no recorded checksum, or
            the two containers store them in different forms.

    Examples:
        >>> bushel.diff(ds, ds).fields["label"].changed
        array([], dtype=int64)
    """

    changed: I64
    same_value: I64
    unknown: I64


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class Diff:
    """The differences of two datasets, the left and the right one.

    Attributes:
        samples: Number of samples on the left and on the right.
        by: How samples are matched: by `key`, or by `position` if a dataset has no keys.
        removed: int64[n], positions on the left of samples that the right lacks.
        added: int64[n], positions on the right of samples that the left lacks.
        pairs: Positions of the samples that both have, two int64[n], ascending on the left.
        fields: The change of each field that both have.
        removed_fields: Fields that only the left has, with their types.
        added_fields: Fields that only the right has, with their types.
        types: Fields that both have with different types, with the two types. Their values are
            never the same by their bytes: -1 as int is not 255 as uint.
        labels: Fields whose classes have other names, with the two lists of names. Samples of these
            classes count as changed.

    Examples:
        >>> found = bushel.diff(ds, ds.select_fields(["label"]))
        >>> found.by, found.removed_fields, found.same
        ('key', {'image': 'jpg'}, False)
    """

    samples: tuple[int, int]
    by: str
    removed: I64
    added: I64
    pairs: tuple[I64, I64]
    fields: Mapping[str, FieldDiff]
    removed_fields: Mapping[str, str]
    added_fields: Mapping[str, str]
    types: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    labels: Mapping[str, ClassNames] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether both have the same samples, fields, types, values and classes, and all of these could be compared."""
        unequal = any(
            len(field_diff.changed) or len(field_diff.unknown)
            for field_diff in self.fields.values()
        )
        of_spec = self.removed_fields or self.added_fields or self.types or self.labels
        return not (unequal or len(self.removed) or len(self.added) or of_spec)

    @property
    def summary(self) -> str:
        """What differs, in words, such as `3 removed, 57 images changed`; `the same` if nothing does."""
        said = [
            f"{len(positions):,} {what}"
            for positions, what in ((self.removed, "removed"), (self.added, "added"))
            if len(positions)
        ]
        for name, field_diff in self.fields.items():
            counts = (
                (field_diff.changed, "changed"),
                (field_diff.same_value, "in other bytes"),
                (field_diff.unknown, "not compared"),
            )
            for positions, what in counts:
                if len(positions):
                    plural = "s" * (len(positions) > 1 and not name.endswith("s"))
                    said.append(f"{len(positions):,} {name}{plural} {what}")
        said += [f"field {name} removed" for name in self.removed_fields]
        said += [f"field {name} added" for name in self.added_fields]
        said += [f"{name} is {now}, was {was}" for name, (was, now) in self.types.items()]
        said += [f"classes of {name} have other names" for name in self.labels]
        return ", ".join(said) or "the same"


@public()
@user_call("comparing")
def diff(
    left: Dataset, right: Dataset, *, values: bool = False, progress: ShowProgress = None
) -> Diff:
    """Compare two datasets or views by the lengths and checksums in their indexes.

    No data are read, except numbers of classes if names of these differ.

    Remote Parquet files without an index are an exception: their lengths stand between the values.

    Values of one type with equal bytes are the same. Values of other types are compared with
    `values` alone.

    Samples are matched by key, the n-th with the n-th where a key comes several times; without keys
    by position.

    Args:
        left: The one before.
        right: The one after. Its container may be another.
        values: Whether to read and decode the values whose bytes differ or cannot be compared. That
            finds values that are equal in another form, such as labels in a tar and in a bag.
        progress: A callback for the progress of reading values, or True for a bar.

    Raises:
        TypeError: They are not datasets.
        BushelError, OSError: A value cannot be read or decoded, with `values`.

    Examples:
        >>> found = bushel.diff(ds[:10], ds[2:])
        >>> len(found.removed), len(found.added), found.same
        (2, 2, False)
        >>> found.summary
        '2 removed, 2 added'
    """
    for dataset in (left, right):
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "diff compares datasets, not a "
                f"{type(dataset).__name__}: open paths with bushel.open"
            )
        dataset.reader.refuse_windows("compare the datasets that they are of")
    by, pairs = _pairs(left, right)
    shared = [name for name in left.spec if name in right.spec]
    labels = _differing(left.labels, right.labels, shared, ())
    fields = {}
    for name in shared:
        differs, unknown = _compared(
            _facts_of(left, name, pairs[0]), _facts_of(right, name, pairs[1])
        )
        if name in labels:  # the same number is another class
            differs |= ~are_same(left, right, pairs, name)
        fields[name] = FieldDiff(pairs[0][differs], NO_NUMBERS, pairs[0][unknown & ~differs])
    if values:
        report = ProgressReporter(callback_of(progress))
        fields = _decoded(left, right, pairs, fields, report)
    return Diff(
        (len(left), len(right)),
        by,
        np.delete(np.arange(len(left)), pairs[0]),
        np.delete(np.arange(len(right)), pairs[1]),
        pairs,
        fields,
        {name: left.spec[name] for name in left.spec if name not in right.spec},
        {name: right.spec[name] for name in right.spec if name not in left.spec},
        _differing(left.spec, right.spec, shared, ""),
        labels,
    )


def _differing(
    left: Mapping[str, T], right: Mapping[str, T], shared: Sequence[str], default: T
) -> dict[str, tuple[T, T]]:
    """Return the values of shared fields in two mappings, where these differ."""
    pairs = {name: (left.get(name, default), right.get(name, default)) for name in shared}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _pairs(left: Dataset, right: Dataset) -> tuple[str, tuple[I64, I64]]:
    """Return "key" or "position", by which samples are matched, and the positions of the pairs."""
    if not (left.info.keyed and right.info.keyed):
        positions = np.arange(min(len(left), len(right)))
        return "position", (positions, positions)
    first, second = equal_hashes(_hashes(left), _hashes(right))
    same = np.ones(len(first), np.bool_)
    for start in range(0, len(first), _AT_ONCE):  # two keys may have one hash
        part = slice(start, start + _AT_ONCE)
        left_keys = left.reader.keys(left.selection.absolute(first[part]))
        right_keys = right.reader.keys(right.selection.absolute(second[part]))
        if left_keys != right_keys:
            same[part] = [a == b for a, b in zip(left_keys, right_keys, strict=True)]
    return "key", (first[same], second[same])


def _hashes(dataset: Dataset) -> U64:
    """Return the hash of the key of each sample."""
    reader = dataset.reader
    hashes = np.empty(int(reader.starts[-1]), np.uint64)
    for number, shard in enumerate(reader.counted):
        start, stop = int(reader.starts[number]), int(reader.starts[number + 1])
        keys = shard.index.keys or Keys.of(map(str, range(start, stop)))
        # those in a table are not checked
        hashes[start:stop] = hash_keys(keys.text, keys.offsets)
    return hashes[dataset.selection.every]


_FACTS = np.dtype(
    [("present", "?"), ("checked", "?"), ("form", "u8"), ("lengths", "u8"), ("contents", "u8")]
)
"""The facts of a value in an index: whether there is one, and whether its checksum is recorded; the type
and codec of its bytes; a hash of its lengths alone, and one of its checksums, too."""


def _facts_of(dataset: Dataset, name: str, positions: I64) -> np.ndarray:
    """Return the facts in the indexes about a field of some samples."""
    reader = dataset.reader
    shards = [_facts_in(shard.index, name) for shard in dataset.shards]
    # the last one stands for no sample
    facts = np.concatenate([*shards, np.zeros(1, _FACTS)])
    return facts[reader.rows_of(name, dataset.selection.absolute(positions))]


def _facts_in(index: ShardIndex, name: str) -> np.ndarray:
    """Return the facts in the index of a shard about a field of all its samples."""
    facts = np.zeros(index.samples, _FACTS)
    extents = index.fields.get(name)
    if extents is None:
        return facts
    rows = np.arange(index.samples)
    facts["contents"], facts["present"] = field_digests(extents, rows)
    facts["lengths"], _ = field_digests(replace(extents, crc32=None), rows)
    facts["checked"] = extents.crc32 is not None
    facts["form"] = crc32(repr((extents.field.type, extents.codec)).encode())
    if extents.starts is not None:  # empty lists are the same in any form
        is_empty, _ = extents.empty_and_absent
        facts["checked"] |= is_empty
        facts["form"][is_empty] = 0
    return facts


def _compared(left: np.ndarray, right: np.ndarray) -> tuple[Bools, Bools]:
    """Return which pairs of values differ by the facts in their indexes, and which are not decided by these."""
    both = left["present"] & right["present"]
    checked = left["checked"] & right["checked"]
    # in another form, equal bytes may be other values, and other bytes the same
    alike = left["form"] == right["form"]
    same = both & checked & alike & (left["contents"] == right["contents"])
    same |= ~left["present"] & ~right["present"]
    unknown = both & ~same & (~alike | (~checked & (left["lengths"] == right["lengths"])))
    return ~same & ~unknown, unknown


def _decoded(
    left: Dataset,
    right: Dataset,
    pairs: tuple[I64, I64],
    known: Mapping[str, FieldDiff],
    report: ProgressReporter,
) -> dict[str, FieldDiff]:
    """Decode the values that are not known to be the same."""
    total = sum(len(field_diff.changed) + len(field_diff.unknown) for field_diff in known.values())
    compared, diffs = 0, {}

    def count(samples: int) -> None:
        nonlocal compared
        compared += samples
        report.report(Progress(compared, total, "samples", samples=compared))

    for name, field_diff in known.items():
        positions = np.union1d(field_diff.changed, field_diff.unknown)
        rows = np.searchsorted(pairs[0], positions)
        same = are_same(left, right, (pairs[0][rows], pairs[1][rows]), name, count)
        diffs[name] = FieldDiff(positions[~same], positions[same], NO_NUMBERS)
    report.finish()
    return diffs

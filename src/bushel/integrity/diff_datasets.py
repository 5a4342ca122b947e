"""Compare two datasets: samples that only one has, and fields whose values changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bushel import kernels
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.inside import reader_of, refuse_windows, whole_positions
from bushel._index.key_pairs import equal_hashes
from bushel._index.table import MISSING, FieldExtents, Keys
from bushel._runtime.arrays import I64, U32, U64, Bools, offsets_of, ranges
from bushel._runtime.progress import (
    Progress,
    ProgressReporter,
    ShowProgress,
    callback_of,
    shows_progress,
)
from bushel._runtime.public import public

_AT_ONCE = 1 << 16
_DECODED_AT_ONCE = 64


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
    labels: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = field(default_factory=dict)

    @property
    def same(self) -> bool:
        """Whether both have the same samples, fields, values and classes, and all of them could be compared."""
        unequal = any(
            len(field_diff.changed) or len(field_diff.unknown)
            for field_diff in self.fields.values()
        )
        of_spec = self.removed_fields or self.added_fields or self.labels
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
                    plural = "" if len(positions) == 1 or name.endswith("s") else "s"
                    said.append(f"{len(positions):,} {name}{plural} {what}")
        said += [f"field {name} removed" for name in self.removed_fields]
        said += [f"field {name} added" for name in self.added_fields]
        said += [f"{name} is {now}, was {was}" for name, (was, now) in self.types.items()]
        said += [f"classes of {name} have other names" for name in self.labels]
        return ", ".join(said) or "the same"


@public()
@shows_progress("comparing")
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
                f"diff compares datasets, not a {type(dataset).__name__}: open paths"
                " with bushel.open"
            )
        refuse_windows(dataset, "compare the datasets that they are of")
    by, pairs = _pairs(left, right)
    shared = [name for name in left.spec if name in right.spec]
    fields = _compared_fields(left, right, pairs, shared)
    labels = _other_names(left, right, shared)
    for name, names in labels.items():
        fields[name] = _with_other_classes(left, right, pairs, name, names, fields[name])
    if values:
        fields = _decoded(left, right, pairs, fields, ProgressReporter(callback_of(progress)))
    return Diff(
        (len(left), len(right)),
        by,
        _without(len(left), pairs[0]),
        _without(len(right), pairs[1]),
        pairs,
        fields,
        {name: kind for name, kind in left.spec.items() if name not in right.spec},
        {name: kind for name, kind in right.spec.items() if name not in left.spec},
        {
            name: (left.spec[name], right.spec[name])
            for name in shared
            if left.spec[name] != right.spec[name]
        },
        labels,
    )


def _other_names(
    left: Dataset, right: Dataset, shared: Sequence[str]
) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the names of classes of the fields where these differ."""
    names_of_both = {
        name: (tuple(left.labels.get(name, ())), tuple(right.labels.get(name, ())))
        for name in shared
    }
    return {name: names for name, names in names_of_both.items() if names[0] != names[1]}


def _with_other_classes(
    left: Dataset,
    right: Dataset,
    pairs: tuple[I64, I64],
    name: str,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    known: FieldDiff,
) -> FieldDiff:
    """Return the comparison of a field with the samples that the two datasets put into classes of other names."""
    changed = np.zeros(len(pairs[0]), np.bool_)
    for start in range(0, len(pairs[0]), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        samples_of_both = (
            dataset.read(positions_of_dataset[part].tolist(), [name])
            for dataset, positions_of_dataset in zip((left, right), pairs, strict=True)
        )
        changed[part] = [
            _class_of(left_sample.get(name), names[0])
            != _class_of(right_sample.get(name), names[1])
            for left_sample, right_sample in zip(*samples_of_both, strict=True)
        ]
    positions = np.union1d(known.changed, pairs[0][changed])
    return FieldDiff(positions, known.same_value, np.setdiff1d(known.unknown, positions))


def _class_of(value: Any, names: tuple[str, ...]) -> Any:
    """Return the name of a class, or the value itself where it has none."""
    is_number = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(names)
    return (names[value] if is_number else "") or _comparable(value)


def _comparable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes())
    return value


def _without(total: int, found: I64) -> I64:
    return np.delete(np.arange(total, dtype=np.int64), found)


def _pairs(left: Dataset, right: Dataset) -> tuple[str, tuple[I64, I64]]:
    """Return "key" or "position", by which samples are matched, and the positions of the pairs."""
    if not (left.info.keyed and right.info.keyed):
        positions = np.arange(min(len(left), len(right)), dtype=np.int64)
        return "position", (positions, positions)
    first, second = equal_hashes(_hashes(left), _hashes(right))
    same = np.ones(len(first), np.bool_)
    for start in range(0, len(first), _AT_ONCE):  # two keys may have one hash
        part = slice(start, start + _AT_ONCE)
        left_keys, right_keys = (
            _keys(dataset, places[part]) for dataset, places in ((left, first), (right, second))
        )
        if left_keys != right_keys:
            same[part] = [a == b for a, b in zip(left_keys, right_keys, strict=True)]
    return "key", (first[same], second[same])


def _keys(dataset: Dataset, positions: I64) -> list[str]:
    return reader_of(dataset).keys(whole_positions(dataset, positions))


def _hashes(dataset: Dataset) -> U64:
    """Return the hash of the key of each sample."""
    reader = reader_of(dataset)
    hashes = np.empty(int(reader.starts[-1]), np.uint64)
    for number, shard in enumerate(reader.counted):
        start, stop = int(reader.starts[number]), int(reader.starts[number + 1])
        keys = shard.index.keys or Keys.of(map(str, range(start, stop)))
        # those in a table are not checked
        hashes[start:stop] = kernels.hash_keys(keys.text, keys.offsets)
    return hashes[whole_positions(dataset, np.arange(len(dataset), dtype=np.int64))]


@dataclass(frozen=True)
class _Values:
    """One field of all samples of a dataset, without its bytes."""

    dataset: Dataset
    name: str

    @cached_property
    def parts(self) -> list[tuple[int, FieldExtents | None]]:
        """The number of samples and the extents of each shard."""
        return [(shard.samples, shard.index.fields.get(self.name)) for shard in self.dataset.shards]

    @cached_property
    def forms(self) -> I64:
        """int64[samples + 1]: a number of the type of each value and the codec of its bytes; 0 for no value."""
        forms = [
            np.full(
                samples,
                0
                if extents is None
                else kernels.crc32(repr((extents.field.codec, extents.codec)).encode()),
            )
            for samples, extents in self.parts
        ]
        return np.concatenate([*forms, np.zeros(1, np.int64)])

    @cached_property
    def checked(self) -> Bools:
        """bool[samples + 1]: whether the checksums are recorded. The last one stands for no sample."""
        is_checked = [
            np.full(samples, extents is not None and extents.crc32 is not None)
            for samples, extents in self.parts
        ]
        return np.concatenate([*is_checked, np.zeros(1, np.bool_)])

    @cached_property
    def counts(self) -> I64:
        """int64[samples + 1]: number of extents of each; -1 if the sample lacks the field, and for no sample."""
        counts_of_parts: list[Any] = []
        for samples, extents in self.parts:
            if extents is None:
                counts_of_parts.append(np.full(samples, -1, np.int64))
            elif extents.starts is None:
                counts_of_parts.append(np.where(extents.length == MISSING, -1, 1))
            else:
                counts = np.diff(extents.starts)
                counts_of_parts.append(
                    counts if extents.absent is None else np.where(extents.absent, -1, counts)
                )
        return np.concatenate([*counts_of_parts, np.full(1, -1, np.int64)])

    @cached_property
    def starts(self) -> I64:
        """int64[samples + 2]: where the extents of each sample begin in `elements`."""
        return offsets_of(np.maximum(self.counts, 0))

    @cached_property
    def elements(self) -> tuple[I64, U32]:
        """Length and checksum (0 if it is unknown) of all extents, in order."""
        lengths, sums = [np.zeros(0, np.int64)], [np.zeros(0, np.uint32)]
        for _, extents in self.parts:
            if extents is not None:
                present = extents.length != MISSING
                lengths.append(extents.length[present])
                crc32 = (
                    np.zeros(extents.rows, np.uint32) if extents.crc32 is None else extents.crc32
                )
                sums.append(crc32[present])
        return np.concatenate(lengths), np.concatenate(sums)


def _compared_fields(
    left: Dataset, right: Dataset, pairs: tuple[I64, I64], names: list[str]
) -> dict[str, FieldDiff]:
    """Compare fields of samples of two datasets by their indexes."""
    positions = whole_positions(left, pairs[0]), whole_positions(right, pairs[1])
    diffs = {}
    for name in names:
        left_values, right_values = _Values(left, name), _Values(right, name)
        whole = (
            reader_of(left).rows_of(name, positions[0]),
            reader_of(right).rows_of(name, positions[1]),
        )
        sizes, bytes_ = _equal(left_values, right_values, *whole)
        both_checked = left_values.checked[whole[0]] & right_values.checked[whole[1]]
        empty = (left_values.counts[whole[0]] <= 0) & (right_values.counts[whole[1]] <= 0) & sizes
        # in another form, equal bytes may be other values, and other bytes the same; a missing
        # value never equals one
        alike = left_values.forms[whole[0]] == right_values.forms[whole[1]]
        present = (left_values.counts[whole[0]] >= 0) & (right_values.counts[whole[1]] >= 0)
        same = empty | (sizes & bytes_ & both_checked & alike)
        unknown = ~same & present & (~alike | (sizes & ~both_checked))
        diffs[name] = FieldDiff(
            pairs[0][~same & ~unknown], np.zeros(0, np.int64), pairs[0][unknown]
        )
    return diffs


def _equal(one: _Values, other: _Values, left: I64, right: I64) -> tuple[Bools, Bools]:
    """Return whether number and lengths, and whether the checksums, of the extents of pairs of samples are equal."""
    sizes = one.counts[left] == other.counts[right]
    sums = sizes.copy()
    for start in range(0, len(left), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        alike = start + np.flatnonzero(sizes[part] & (one.counts[left[part]] > 0))
        if not len(alike):
            continue
        counts = one.counts[left[alike]]
        places = [
            ranges(values.starts[samples[alike]], counts)
            for values, samples in ((one, left), (other, right))
        ]
        first = np.cumsum(counts) - counts
        for equal, number in ((sizes, 0), (sums, 1)):
            a, b = one.elements[number][places[0]], other.elements[number][places[1]]
            equal[alike] = np.logical_and.reduceat(a == b, first)
    return sizes, sums


def _decoded(
    left: Dataset,
    right: Dataset,
    pairs: tuple[I64, I64],
    known: Mapping[str, FieldDiff],
    report: ProgressReporter,
) -> dict[str, FieldDiff]:
    """Decode the values that are not known to be the same."""
    partner = dict(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    total, compared = (
        sum(len(field_diff.changed) + len(field_diff.unknown) for field_diff in known.values()),
        0,
    )
    diffs = {}
    for name, field_diff in known.items():
        names = tuple(left.labels.get(name, ())), tuple(right.labels.get(name, ()))
        positions = np.union1d(field_diff.changed, field_diff.unknown)
        same = np.zeros(len(positions), np.bool_)
        for start in range(0, len(positions), _DECODED_AT_ONCE):
            chosen = positions[start : start + _DECODED_AT_ONCE].tolist()
            samples_of_both = (
                left.read(chosen, [name]),
                right.read([partner[position] for position in chosen], [name]),
            )
            same[start : start + len(chosen)] = [
                _same_field(*pair, name, names) for pair in zip(*samples_of_both, strict=True)
            ]
            compared += len(chosen)
            report.report(Progress(compared, total, "samples", samples=compared))
        diffs[name] = FieldDiff(positions[~same], positions[same], np.zeros(0, np.int64))
    report.finish()
    return diffs


def _same_field(
    one: dict[str, Any],
    other: dict[str, Any],
    name: str,
    names: tuple[tuple[str, ...], tuple[str, ...]],
) -> bool:
    if (name in one) != (name in other):
        return False
    if name not in one:
        return True
    classes = [
        _class_of(sample[name], names_of_side)
        for sample, names_of_side in zip((one, other), names, strict=True)
    ]
    return classes[0] == classes[1] if names[0] != names[1] else same_value(one[name], other[name])


def same_value(one: Any, other: Any) -> bool:
    """Return whether two decoded values are equal: arrays also in shape and dtype, NaN equal to NaN."""
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        arrays = np.asarray(one), np.asarray(other)
        floats = arrays[0].dtype.kind in "fc"
        return arrays[0].dtype == arrays[1].dtype and bool(
            np.array_equal(*arrays, equal_nan=floats)
        )
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(
            same_value(one[name], other[name]) for name in one
        )
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(other, np.generic):
        other = other.item()
    return type(one) is type(other) and (bool(one == other) or (one != one and other != other))


def keys_of(dataset: Dataset, positions: I64) -> Iterator[str]:
    """Yield the keys of samples, or their positions if they have none."""
    for start in range(0, len(positions), _AT_ONCE):
        yield from _keys(dataset, positions[start : start + _AT_ONCE])

"""`Info`, the facts about a dataset, and how a dataset or a sample describes itself: as text, and in a notebook.

Fields and columns are also summarised in a few numbers, of the index only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._dataset.read.shard_fields import unread_bytes
from bushel._dataset.read.shards import Listing, OpenShard, kinds, labels_of
from bushel._index.columns import drawable, objects_of
from bushel._index.expansion import COSTLY, expansion_of
from bushel._index.shard import may_lack_samples
from bushel._index.table import FieldExtents
from bushel._runtime.messages import count, few, size
from bushel._runtime.public import public
from bushel.codecs import holds_sound
from bushel.errors import BushelError
from bushel.spec import format_spec
from bushel.storage import is_local

if TYPE_CHECKING:
    from bushel._dataset.read.reader import Reader
    from bushel._dataset.read.sides import Joined


@public("bushel.datasets")
@dataclass(frozen=True, slots=True, repr=False)
class Info:
    """Container, counts and sizes of a dataset.

    Attributes:
        container: Name of the container; several names are joined by `+`.
        shards: Number of shards.
        samples: Number of samples of the whole dataset. A view has the same info as the dataset
            that it views.
        bytes: Size of all files in bytes.
        files: Number of files.
        checksums: Whether the CRC-32 of every field is known.
        keyed: Whether samples have keys of their own rather than positions.
        indexed: Whether the index of every shard is stored beside it.
        spec: Field names to types.
        complete: Whether the writer of the dataset has finished, as far as is known.
        expected: Number of samples that an incomplete dataset should have, if known.
        expansion: Bytes that compressed blocks expand to for each byte that is read, if samples are
            read in random order; 0 if nothing is compressed. Only shards whose tables are open are
            counted.
        joins: A `Joined` for each dataset that was joined to the first one.
        removed: Number of samples that were removed (docs/removal.md), which the other counts of
            samples leave out.
        removed_missing: Number of samples that lists of removed samples name, but that are not
            stored any more.
        unread: Bytes of a remote dataset without an index that are read when their samples are
            first needed.

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
    expansion: float = 0.0
    unread: int = 0
    joins: tuple[Joined, ...] = ()
    removed: int = 0
    removed_missing: int = 0

    @property
    def costly(self) -> str | None:
        """The cost of reading at random, in words, if blocks expand to more than ten times the returned bytes."""
        if self.expansion <= COSTLY:
            return None
        return f"reading at random expands {self.expansion:,.0f} times the bytes that it returns"

    @property
    def shortfall(self) -> str:
        """The missing samples or parts of an incomplete dataset, in words."""
        if self.expected is None:
            return "incomplete"
        return f"incomplete: {self.expected:,} samples expected"

    def __repr__(self) -> str:
        counts = [
            count(self.samples, "sample"),
            count(self.shards, "shard"),
            count(self.files, "file"),
        ]
        notes = [
            "keys" if self.keyed else "no keys",
            "checksums" if self.checksums else "no checksums",
            "index stored" if self.indexed else "index not stored",
        ]
        if not self.complete:
            notes.append(self.shortfall)
        if self.removed:
            notes.append(f"{self.removed:,} removed")
        if self.removed_missing:
            notes.append(f"{self.removed_missing:,} removed before and not stored any more")
        if self.costly is not None:
            notes.append(self.costly)
        if self.unread:
            notes.append(f"{size(self.unread)} to be read when needed")
        notes += [join.misses or f"joined by {join.on}" for join in self.joins]
        return (
            f"<bushel.datasets.Info: {self.container}, {', '.join(counts)}, "
            f"{size(self.bytes)}; {_typed(self.spec)}; {', '.join(notes)}>"
        )


def _typed(spec: Mapping[str, str]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in spec.items())


def info_of(reader: Reader, spec: dict[str, str]) -> Info:
    """Return the info of a dataset with this reader and these fields."""
    from bushel._dataset.read.remaining import file_sizes, whole_shards

    shards, incomplete = reader.shards, reader.incomplete
    some, sizes, unread = kinds(shards), file_sizes(shards), 0
    count_of_shards = len(shards)
    if any(shard.section is not None for shard in some):
        count_of_shards, unread = len(whole_shards(shards)), unread_bytes(shards)
    if isinstance(shards, Listing):
        checksums = shards.listed.all_summed
    else:
        checksums = all(shard.checksums for shard in shards)
    return Info(
        container="+".join(dict.fromkeys(shard.container for shard in some)),
        shards=count_of_shards,
        samples=len(reader.base.whole),
        bytes=int(sizes.sum()),
        files=len(sizes),
        checksums=checksums,
        keyed=reader.keyed,
        indexed=all(shard.stored for shard in some),
        spec=spec,
        complete=incomplete is None,
        expected=None if incomplete is None else incomplete.expected,
        expansion=expansion_of(
            shard.index for shard in some if shard.loaded and shard.damage is None
        ),
        unread=unread,
        joins=reader.joins,
        removed=0 if reader.remaining is None else len(reader.remaining.removed),
        removed_missing=_removed_missing(reader),
    )


def _removed_missing(reader: Reader) -> int:
    """Return how many samples the lists of removed samples name that are not stored; a store is not asked for lists."""
    shards = [shard.shard for shard in kinds(reader.shards)]
    if reader.remaining is None and not (
        may_lack_samples(shards) and all(map(is_local, shards[0].roots))
    ):
        return 0
    from bushel._dataset.read.remaining import lists_of, matches_in

    lists = lists_of(reader.shards)
    return sum(
        matches_in(reader.shards, placed, placed.removed.names.distinct())[1] for placed in lists
    )


def described(dataset: Any) -> str:
    """Return the `repr` of a dataset."""
    info = dataset.info
    total = "" if len(dataset) == info.samples else f" of {info.samples:,}"
    noun, windows = "samples", dataset.reader.windows
    if windows is not None:
        noun, total = str(windows.shape), ""
    notes = [
        f"{info.removed:,} removed" if info.removed else "",
        "" if info.keyed else "no keys",
        "" if info.complete else info.shortfall,
        *(join.misses for join in info.joins),
    ]
    if windows is not None and windows.without:
        notes.append(f"{windows.without:,} samples are too short for a window")
    notes.append(dataset.selection.made)
    shards = f"{count(info.shards, 'shard')}, {size(info.bytes)}"
    facts = "; ".join(filter(None, [f"{shards}; {_typed(dataset.spec)}", *notes]))
    return f"<bushel.Dataset: {len(dataset):,}{total} {noun}, {info.container}, {facts}>"


_SHOWN = 6


def dataset_html(dataset: Any) -> str:
    """Return the description of a dataset with the pictures of its first samples."""
    from bushel._pictures.notebook import Gallery, facts_html

    info: Info = dataset.info
    total = "" if len(dataset) == info.samples else f" of {info.samples:,}"
    facts = [
        ("container", info.container),
        ("shards", f"{info.shards:,}"),
        ("bytes", size(info.bytes)),
        ("checksums", "of every field" if info.checksums else "missing"),
        ("keys", "yes" if info.keyed else "no"),
        ("complete", "yes" if info.complete else info.shortfall),
    ]
    columns = _columns(dataset)
    if columns:
        facts.append(("columns", few(columns, 8)))
    rows = [("field", "type"), *dataset.spec.items()]
    return facts_html(
        f"bushel.Dataset, {len(dataset):,}{total} samples",
        facts,
        rows,
        Gallery(dataset, _SHOWN)._repr_html_(),
    )


def sample_in_notebook(sample: Mapping[str, Any], origin: tuple[Reader, int] | None) -> str:
    """Return a sample as a table.

    `origin` is its reader and its position in the whole dataset; without it, sounds are arrays like
    others, and classes have no names.
    """
    from bushel._pictures.notebook import sample_html

    if origin is None:
        return sample_html(sample)
    reader, position = origin
    sounds: dict[str, bytes | None] = {}
    try:
        labels = labels_of(reader.shards, reader.fields)
        names = [
            name
            for name, kind in format_spec(reader.fields).items()
            if holds_sound(kind) and name in sample
        ]
        # a window has no stored bytes of its own, and would play the whole sound
        parts = () if reader.windows is None else reader.windows.shape.offsets
        whole = dict.fromkeys(name for name in names if name not in parts)
        at = np.array([position], np.int64)
        [stored] = reader.read(at, whole, decode=False) if whole else [{}]
        sounds = {name: stored.get(name) for name in names}
    except (BushelError, OSError):
        # the file was deleted in the meantime: the decoded sample is still shown
        labels = {}
    return sample_html(sample, labels, sounds)


def _columns(dataset: Any) -> tuple[str, ...]:
    try:
        columns: tuple[str, ...] = dataset.columns
    except (BushelError, OSError):  # a damaged index: reading samples raises the error
        return ()
    return columns


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """The summary of one field."""

    name: str  # name of the field
    type: str
    codecs: str  # codecs of the stored bytes, joined by `+` if shards differ
    samples: int  # number of samples that have the field
    elements: int  # number of values: one per sample, or the elements of all sequences
    bytes: int  # size of all values in bytes
    mean: float  # mean size of a value in bytes
    min: int  # size of the shortest value in bytes
    max: int  # size of the longest value in bytes


def summarise(shards: Iterable[OpenShard], spec: Mapping[str, str]) -> list[FieldSummary]:
    """Return the sizes of the fields. Only the index is read."""
    indexes = [shard.index for shard in shards]
    return [
        _summarise(name, kind, [index.fields[name] for index in indexes if name in index.fields])
        for name, kind in spec.items()
    ]


def _summarise(name: str, kind: str, parts: list[FieldExtents]) -> FieldSummary:
    samples = elements = total = longest = 0
    shortest = 1 << 62
    for column in parts:
        length = column.length[column.present]
        if column.starts is None:
            samples += len(length)
        else:
            samples += len(column.starts) - 1
            if column.absent is not None:
                samples -= int(np.count_nonzero(column.absent))
        elements, total = elements + len(length), total + int(length.sum())
        shortest = int(length.min(initial=shortest))
        longest = int(length.max(initial=longest))
    shortest = min(shortest, longest)  # of no values
    codecs = "+".join(dict.fromkeys(column.codec for column in parts))
    mean = total / elements if elements else 0.0
    return FieldSummary(name, kind, codecs, samples, elements, total, mean, shortest, longest)


_NAMED = 5  # values that are shown of a column with few different ones
_FEW = 10  # integers with up to this many different values are counted one by one, like texts


@dataclass(frozen=True, slots=True)
class ColumnSummary:
    """The summary of a column."""

    name: str  # name of the column
    kind: str  # `int`, `float`, `bool` or `text`
    values: int  # number of samples with a value
    missing: int  # number of samples without one
    distinct: int  # number of different values
    min: float | None  # the smallest number; None for texts and without finite values
    max: float | None  # the largest number
    mean: float | None  # the mean of the numbers
    # the most frequent values with their counts, of texts, truth values and integers of few values
    top: tuple[tuple[Any, int], ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Its name, kind, counts of values, missing and different ones, mean, least and greatest number, as texts."""
        counts = (f"{count:,}" for count in (self.values, self.missing, self.distinct))
        numbers = (
            "" if number is None else f"{number:,.6g}" for number in (self.mean, self.min, self.max)
        )
        return self.name, self.kind, *counts, *numbers

    @property
    def frequent(self) -> str:
        """The most frequent values with their counts, as text; empty if they are not counted."""
        texts = ((str(value)[:40], many) for value, many in self.top)
        shown = ", ".join(
            f"{text if text.isprintable() else ascii(text)} ({many:,})" for text, many in texts
        )
        return shown + (", …" if self.top and len(self.top) < self.distinct else "")


def summary(name: str, column: np.ndarray) -> ColumnSummary:
    """Summarise a column that `Dataset.column` returned."""
    present: np.ndarray = np.ma.asarray(column).compressed()
    missing = len(column) - len(present)
    if present.dtype.kind in "mM":
        present = objects_of(present.astype(str).tolist())
    else:
        present = drawable(present)
    kind = {"O": "text", "b": "bool", "f": "float"}.get(present.dtype.kind, "int")
    distinct, counts = np.unique(present, return_counts=True)
    top: tuple[tuple[Any, int], ...] = ()
    if kind in ("text", "bool") or (kind == "int" and len(distinct) <= _FEW):
        order = np.argsort(-counts, kind="stable")[: _FEW if kind == "int" else _NAMED]
        top = tuple(zip(distinct[order].tolist(), counts[order].tolist(), strict=True))
    numbers = present[np.isfinite(present)] if kind == "float" else present
    low = high = mean = None
    if kind not in ("text", "bool") and len(numbers):
        low, high = numbers.min().item(), numbers.max().item()
        mean = float(numbers.mean(dtype=np.float64))
    return ColumnSummary(name, kind, len(present), missing, len(distinct), low, high, mean, top)

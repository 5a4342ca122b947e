"""Leaves of the tree of tasks that finishes a run: a leaf reads some parts, and writes files for the root.

A leaf publishes its parts, and writes four files: totals, entries of the manifest, lines of the
error log, and the hashes of the keys, sorted. So neither a leaf nor the root holds more than its
share, and leaves are tasks of an engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt

import msgspec
import numpy as np

from bushel._index.class_names import Labels
from bushel._index.sidecar import ManifestShard, load_index
from bushel._index.table import Shard, ShardIndex
from bushel._pack.commit import publish
from bushel._pack.key_hashes import save_hashes
from bushel._pack.run_folder import Record, RunFolder, RunResult
from bushel._pack.run_plan import RunPlan
from bushel._pack.side_files import error_lines
from bushel._runtime.arrays import U64
from bushel._runtime.structs import Struct
from bushel.errors import StateError
from bushel.storage import AnyPath, read_whole, write_whole

_PARTS = 64
_KEYS = 4 << 20


class Totals(RunResult, frozen=True):
    """The totals of the parts of a leaf."""

    spec: dict[str, str]  # field to type
    codecs: dict[str, str]  # field to the codec of the stored bytes
    # the names of classes, each with the name of the first part that has just these
    labels: list[tuple[str, dict[str, list[str]]]]


_TOTALS = msgspec.json.Decoder(Totals)


def leaf_size(plan: RunPlan) -> int:
    """Return how many parts a leaf has: as many as there are leaves, but not too many keys."""
    own = -(-plan.samples // max(plan.parts, 1))
    return max(1, min(max(_PARTS, isqrt(plan.parts)), _KEYS // max(own, 1)))


def leaf_file(place: AnyPath, number: int, kind: str) -> AnyPath:
    """Return the path of a file of a leaf: `totals`, `entries`, `errors` or `keys`."""
    return place / f"{number:05d}.{kind}"


def load_totals(place: AnyPath, number: int) -> Totals:
    """Return the totals of a leaf."""
    return _TOTALS.decode(read_whole(leaf_file(place, number, "totals")))


class LeafTask(Struct, frozen=True):
    """Publishes the parts of the leaf with a number, and writes its files. It can be pickled, and called twice."""

    run: RunFolder
    parts: int
    size: int
    place: AnyPath

    def __call__(self, number: int, /) -> int:
        """Read the parts of a leaf, and return how many keys they have.

        Raises:
            StateError: The record or the files of a part are missing.
        """
        first = number * self.size
        entries: list[bytes] = []
        lines: list[str] = []
        samples = size = 0
        limits: dict[str, None] = {}
        spec: dict[str, str] = {}
        codecs: dict[str, str] = {}
        labels: dict[str, tuple[str, dict[str, list[str]]]] = {}
        hashes: list[U64] = [np.zeros(0, np.uint64)]
        for record in records_of(self.run, range(first, min(first + self.size, self.parts))):
            publish(self.run, record)
            name = self.run.part(record.part).name
            for shard, index in indexes_of(self.run, record):
                if index.keys is not None:
                    hashes.append(index.keys.hashes)
                entries.append(msgspec.json.encode(ManifestShard.of(f"{name}/{shard.name}", index)))
            samples, size = samples + record.samples, size + record.bytes
            limits |= dict.fromkeys(record.limits)
            spec, codecs = {**record.spec, **spec}, {**record.codecs, **codecs}
            labels.setdefault(repr(record.labels), (name, record.labels))
            lines += record.errors
        found = Totals(samples, size, len(lines), list(limits), spec, codecs, list(labels.values()))
        self._save(number, "entries", b"".join(b"  " + entry + b",\n" for entry in entries))
        self._save(number, "errors", error_lines(map(msgspec.json.decode, lines)))
        self._save(number, "totals", msgspec.json.encode(found))
        keys = np.concatenate(hashes)
        save_hashes(leaf_file(self.place, number, "keys"), keys)
        return len(keys)

    def _save(self, number: int, kind: str, data: bytes) -> None:
        write_whole(leaf_file(self.place, number, kind), data, sync=False)


def join_names(labels: list[tuple[str, dict[str, list[str]]]]) -> list[tuple[str, Labels]]:
    """Return names of classes of leaves in the form that `join_labels` takes."""
    return [(name, {field: tuple(each) for field, each in own.items()}) for name, own in labels]


def records_of(run: RunFolder, parts: range) -> Iterator[Record]:
    """Yield the records of parts. Raise StateError if one is missing."""
    for number in parts:
        record = run.load_record(number)
        if record is None:
            raise StateError(f"the record of part {number} of {run.target} was removed meanwhile")
        yield record


def indexes_of(run: RunFolder, record: Record) -> Iterator[tuple[Shard, ShardIndex]]:
    """Yield the shards of a part with their tables."""
    root = run.root if run.single else run.part(record.part)
    for recorded in record.shards:
        shard = recorded.below(root)
        yield shard, load_index(shard.sidecar)

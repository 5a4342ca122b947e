"""The records of a single bag that are left when `bushel remove` removed samples of its dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from bushel.containers import RemovedInShard, Shard, removed_in
from bushel.containers.bag import read_refs, read_spec
from bushel.storage import AnyPath, open_file

__all__ = ["kept_records"]

Bools = npt.NDArray[np.bool_]


def kept_records(path: AnyPath, records: int) -> npt.NDArray[np.int64] | None:
    """Return the numbers of the records of a local bag that were not removed, ascending; None if none was.

    A bag of a dataset loses the records that only removed samples refer to; a bag that is a dataset of its own loses
    those that were removed from it.

    Raises:
        FormatError: A list of removed samples is damaged or of another bag, or the dataset is damaged.
    """
    if not isinstance(path, Path):
        return None
    gone = np.zeros(records, np.bool_)
    if (alone := removed_in(Shard(path.parent, path.name, (path.name,)))) is not None:
        alone.check(records)
        gone |= alone.rows
    if (inside := removed_in(Shard(path.parent, "", (path.name,)))) is not None:
        gone |= _of_removed_samples(path, records, inside)
    return np.flatnonzero(~gone) if gone.any() else None


def _of_removed_samples(path: Path, records: int, removed: RemovedInShard) -> Bools:
    """Return which records of a bag of a dataset belong to removed samples only."""
    refs_path = path.with_name("refs.bag")
    if path == refs_path or not refs_path.exists():  # generation C: record i of every bag is of sample i
        removed.check(records)
        return removed.rows
    entries, refs = read_refs(read_spec(open_file(path.with_name("spec.json"))), open_file(refs_path))
    removed.check(entries.records)
    if (own := refs.get(path.stem)) is None:  # a file that is not of the dataset
        return np.zeros(records, np.bool_)
    first = own.first.astype(np.int64)
    count = np.ones(len(first), np.int64) if own.count is None else own.count.astype(np.int64)
    lost, kept = (_referred(first[rows], count[rows], records) for rows in (removed.rows, ~removed.rows))
    return lost & ~kept


def _referred(first: npt.NDArray[np.int64], count: npt.NDArray[np.int64], records: int) -> Bools:
    """Return which records some samples refer to, given the first record of each sample and how many they are."""
    steps = np.zeros(records + 1, np.int64)
    np.add.at(steps, np.clip(first, 0, records), 1)
    np.add.at(steps, np.clip(first + count, 0, records), -1)
    return np.cumsum(steps[:-1]) > 0

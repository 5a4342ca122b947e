"""Stages that keep the samples of the first epoch: in memory, or in an LMDB database."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

from bushel.compat.webdataset.utils import PipelineStage

__all__ = ["Cached", "LMDBCached"]


class Cached(PipelineStage):
    """Keeps all samples in memory once they have been read to the end."""

    def __init__(self) -> None:
        self.cached: list[Any] | None = None

    def run(self, source: Iterable[Any]) -> Iterator[Any]:
        """The samples of the source, or those kept."""
        if self.cached is not None:
            yield from self.cached
            return
        kept = []
        for sample in source:
            kept.append(sample)
            yield sample
        self.cached = kept


class LMDBCached(PipelineStage):
    """Keeps all samples in an LMDB database, which later runs of the program find again.

    Samples are pickled, so use only databases that you have made. Samples are numbered, so that equal keys do not
    replace one another and the order stays; a database of the original's is read too.

    Args:
        fname: Where the database is.
        map_size: Bytes that it may grow to.
        pickler: Module with `dumps` and `loads`.
        chunksize: Samples that are written at once.

    Raises:
        ModuleNotFoundError: The package `lmdb` is not installed.
    """

    def __init__(self, fname: str, map_size: float = 1e12, pickler: Any = pickle, chunksize: int = 500) -> None:
        self.db: Any = import_module("lmdb").open(fname, readonly=False, map_size=int(map_size))
        self.pickler, self.chunksize = pickler, chunksize

    def is_complete(self) -> bool:
        """Whether all samples are in the database."""
        with self.db.begin(write=False) as txn:
            return txn.get(b"_") is not None

    def add_samples(self, samples: Iterable[tuple[str, Any]]) -> None:
        """Write samples under keys."""
        with self.db.begin(write=True) as txn:
            for key, sample in samples:
                txn.put(key.encode(), self.pickler.dumps(sample))

    def run(self, source: Iterable[Any]) -> Iterator[Any]:
        """The samples of the database, or those of the source."""
        if self.is_complete():
            with self.db.begin(write=False) as txn:
                for key, value in txn.cursor():
                    if key != b"_":
                        yield self.pickler.loads(value)
            return
        waiting: list[tuple[str, Any]] = []
        for number, sample in enumerate(source):
            waiting.append((f"{number:012d}", sample))
            if len(waiting) >= self.chunksize:
                self.add_samples(waiting)
                waiting = []
            yield sample
        self.add_samples(waiting)
        with self.db.begin(write=True) as txn:
            txn.put(b"_", b"1")

    def close(self) -> None:
        """Close the database."""
        self.db.close()

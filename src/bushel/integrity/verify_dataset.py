"""Checking a whole dataset: everything that can be known of its health from its files and its index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bushel.core.parallel import cpu_count, parallel_map
from bushel.integrity.check_shard import Checked, Checks, check_shard
from bushel.integrity.discover import Place, discover
from bushel.integrity.report import Findings, Problem, Report

__all__ = ["verify"]


class _Stopped(BaseException):
    """Ends the work on a shard when nobody waits for it any more."""


def verify(
    source: Any,
    *,
    checksums: bool = True,
    decode: bool = False,
    container: str | None = None,
    workers: int | None = None,
    pickle: bool = False,
    max_problems: int = 1000,
    report: Callable[[int, int], None] | None = None,
) -> Report:
    """Check a dataset, and go on after every problem until everything is checked. Nothing is written.

    Of every shard: whether its files are all there and their structure holds, whether Bushel's index (where it is as
    new as the files) agrees with what the files say, whether the bytes of every field have the CRC-32 that the index
    or the container has on record, and whether every key is there once.

    Args:
        source: As for `bushel.open`; no streams.
        checksums: Whether to compare bytes with checksums, which reads all data.
        decode: Whether to decode every value too, which finds images that were broken before they were packed.
        container: Its name, where a folder holds files of several.
        workers: Shards to check at once.
        pickle: Allow pickled gulp metadata, which runs code of whoever wrote the file.
        max_problems: Problems to list; further ones are counted.
        report: Called with bytes checked so far, and bytes of all files.

    Raises:
        FileNotFoundError: Nothing is there.
        FormatError: There is no dataset at all.
        ValueError: `workers` or `max_problems` is less than 1.
    """
    workers = workers if workers is not None else cpu_count()
    if workers < 1 or max_problems < 1:
        raise ValueError("workers and max_problems are at least 1")
    found = Findings(max_problems)
    places = discover(source, container, found)
    stop, progress = threading.Event(), _Progress(places, report)

    def tick(size: int) -> None:
        if stop.is_set():
            raise _Stopped
        progress.add(size)

    checks = Checks(checksums, decode, pickle, max_problems, tick)
    results: list[Checked] = []
    samples = 0
    check = parallel_map(
        lambda place: check_shard(place.container, place.shard, checks), places, workers=workers, stop=stop
    )
    for result in check:
        found.extend(result.findings, samples)
        samples += 0 if result.index is None else result.index.samples
        results.append(result)
        progress.finish(places[len(results) - 1])
    _check_keys(places, results, found)
    return Report(
        tuple(problem for problem, _ in found.problems),
        samples,
        len(places),
        sum(result.bytes_checked for result in results),
        all(result.complete for result in results) and bool(places),
        found.more,
    )


class _Progress:
    """Bytes checked, of all bytes: a shard counts whole when it is done, however many of its bytes had checksums."""

    def __init__(self, places: Sequence[Place], report: Callable[[int, int], None] | None) -> None:
        self._report, self._lock = report, threading.Lock()
        self._sizes = {id(place): _size(place) for place in places} if report is not None else {}
        self._total, self._done, self._ticked = sum(self._sizes.values()), 0, 0

    def add(self, size: int) -> None:
        """Some bytes more."""
        if self._report is not None:
            with self._lock:
                self._ticked += size
                self._report(min(max(self._done, self._ticked), self._total), self._total)

    def finish(self, place: Place) -> None:
        """A whole shard more."""
        if self._report is not None:
            with self._lock:
                self._done += self._sizes[id(place)]
                self._report(min(max(self._done, self._ticked), self._total), self._total)


def _size(place: Place) -> int:
    paths = (place.shard.path(number) for number in range(len(place.shard.files)))
    return sum(int(path.stat().st_size) for path in paths if path.exists())


def _check_keys(places: Sequence[Place], results: Sequence[Checked], found: Findings) -> None:
    """Look for keys that samples of several shards have."""
    keyed = [
        (place, result.index.keys)
        for place, result in zip(places, results, strict=True)
        if result.index is not None and result.index.keys is not None
    ]
    if len(keyed) < 2:
        return
    hashes = np.concatenate([keys.hashes for _, keys in keyed])
    owner = np.concatenate([np.full(len(keys), number, np.int64) for number, (_, keys) in enumerate(keyed)])
    order = np.argsort(hashes, kind="stable")
    hashes, owner = hashes[order], owner[order]
    local = np.concatenate([keys.order for _, keys in keyed])[order]
    same = np.flatnonzero((hashes[1:] == hashes[:-1]) & (owner[1:] != owner[:-1]))
    for at in same[np.lexsort((local[same + 1], owner[same + 1]))].tolist():
        first, second = int(owner[at]), int(owner[at + 1])
        key = keyed[second][1][int(local[at + 1])]
        if key == keyed[first][1][int(local[at])]:
            files = [str(keyed[number][0].shard.path(0)) for number in (first, second)]
            found.add(Problem(files[1], None, key, None, "key", f"a sample of {files[0]} has this key too"))

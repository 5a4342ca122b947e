"""Benchmark of random batched reads: all containers, the originals, other record formats, and physical limits.

    python benchmarks/reads.py --out reads.json            warm, 1,000,000 × 200 B and 100,000 × 8 KB
    python benchmarks/reads.py --cold --out cold.json      8 KB, nothing in memory
    python benchmarks/reads.py --small                     a tenth of the records, fewer rounds
    python benchmarks/reads.py --only "bushel read tar" "bushel keyed tar" bagz       these readers

Each reader runs in its own process and reads 256 records per call in one thread, in turns. Datasets are written once,
into `.bench/`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path

from measure import Rate, Timing, in_turns, options_parser, save, show
from served import COLD_LIMITS, OTHERS, WARM_LIMITS, Reader, Served, bushel_readers, forget, remember, serving

BATCH = 256
WARM_SECONDS, TOUCH_SECONDS = 0.4, 2.0
COLD_BATCHES = 16
AGAINST = ("bagz", "granular", "mxnet", "memmap gather", "advised pread", "advised pread, after headers")


def usable(readers: list[Reader], skipped: dict[str, str], only: Collection[str] = ()) -> list[Reader]:
    """Return the readers that can be measured here, of those named if any are; add the others to `skipped`."""
    if unknown := set(only) - {reader.name for reader in readers}:
        raise SystemExit(f"no reader is called {', '.join(unknown)}: {', '.join(reader.name for reader in readers)}")
    readers = [reader for reader in readers if not only or reader.name in only]
    skipped.update({reader.name: reader.missing for reader in readers if reader.missing})
    return [reader for reader in readers if not reader.missing]


def warm(readers: list[Reader], count: int, length: int, rounds: int) -> dict[str, Rate]:
    """Measure records that are in memory."""
    paths = {reader: reader.fill(count, length) for reader in readers}
    with ExitStack() as stack:
        contestants: dict[str, Callable[[int], Timing]] = {}
        for reader in readers:
            served = stack.enter_context(serving(reader, paths[reader], count))
            remember(paths[reader])
            first = served.read(BATCH, 0, 64)
            touched = served.read(BATCH, 0, _batches(first, TOUCH_SECONDS))
            contestants[reader.name] = _reading(served, _batches(touched, WARM_SECONDS))
        return in_turns(contestants, rounds)


def _batches(known: Timing, seconds: float) -> int:
    """Return the number of batches that take about that time."""
    return max(4, round(seconds / known.wall * known.items / BATCH))


def _reading(served: Served, batches: int) -> Callable[[int], Timing]:
    return lambda number: served.read(BATCH, 1 + number, batches)


def cold(readers: list[Reader], count: int, length: int, rounds: int) -> dict[str, Rate]:
    """Measure records that are not in memory. In every round a new process opens the dataset, which is then evicted."""
    contestants: dict[str, Callable[[int], Timing]] = {}
    for reader in readers:
        contestants[reader.name] = _reading_cold(reader, reader.fill(count, length), count)
    return in_turns(contestants, rounds)


def _reading_cold(reader: Reader, path: Path, count: int) -> Callable[[int], Timing]:
    def measure(number: int) -> Timing:
        with serving(reader, path, count) as served:
            served.read(1, 99, 1)  # make everything that is made on first use
            forget(path)
            return served.read(BATCH, 1 + number, COLD_BATCHES)

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Random batched reads.", "a tenth of the records, fewer rounds")
    parser.add_argument("--cold", action="store_true", help="drop the page cache before each round")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="readers, as the tables call them")
    options = parser.parse_args()
    rounds = options.rounds or (3 if options.small else 7)
    part = 10 if options.small else 1
    skipped: dict[str, str] = {}
    results: dict[str, dict[str, Rate]] = {}
    if options.cold:
        readers = usable([*bushel_readers("bushel", "read"), *OTHERS, *COLD_LIMITS], skipped, options.only)
        results["cold 8 KB"] = cold(readers, 100_000 // part, 8192, rounds)
    else:
        forms = {"bushel": "read", "bushel_verify": "read+CRC", "bushel_gather": "gather"}
        own = [reader for peer, label in forms.items() for reader in bushel_readers(peer, label)]
        own += bushel_readers("bushel", "keyed", keyed=True)
        readers = usable([*own, *OTHERS, *WARM_LIMITS], skipped, options.only)
        results["warm 200 B"] = warm(readers, 1_000_000 // part, 200, rounds)
        results["warm 8 KB"] = warm(readers, 100_000 // part, 8192, rounds)
    for title, rates in results.items():
        show(f"{title}, {BATCH} records a call", "records", rates, AGAINST)
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()

"""Conformance checks of datasets in several threads and processes."""

from __future__ import annotations

import multiprocessing
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.conformance.samples import make_samples
from tests.conformance.target import Target, numbered

from bushel.testing.expect import expect_equal

_SAMPLES = 40


def _dataset(target: Target, name: str) -> Any:
    spec = target.fit()
    samples = make_samples(spec, target.seed, _SAMPLES)
    return target.open(target.write(name, spec, samples, numbered(_SAMPLES), shard_samples=15))


def _expected(dataset: Any) -> list[dict[str, Any]]:
    return list(dataset.read(range(len(dataset)), decode=False))


def _reads(dataset: Any, expected: list[dict[str, Any]], seed: int, count: int) -> int:
    """Read stored bytes at random, one by one and in batches; return the number of correct samples."""
    rng = random.Random(seed)
    right = 0
    while right < count:
        positions = [rng.randrange(len(expected)) for _ in range(rng.choice([1, 1, 7]))]
        for position, sample in zip(positions, dataset.read(positions, decode=False), strict=True):
            expect_equal(sample, expected[position], f"sample {position}, read concurrently")
            right += 1
    return right


def check_threads(target: Target, reads: int = 250) -> None:
    """Check that eight threads read one dataset correctly at random."""
    dataset = _dataset(target, "threads")
    expected = _expected(dataset)
    dataset.close()
    with ThreadPoolExecutor(8) as pool:
        for right in pool.map(lambda seed: _reads(dataset, expected, seed, reads), range(8)):
            expect_equal(right >= reads, True, "a thread's reads")


def check_fork(target: Target) -> None:
    """Check that forked processes can use a dataset that their parent has read from and still reads."""
    _in_processes(target, "fork")


def check_spawn(target: Target) -> None:
    """Check that a dataset and its views can be pickled to spawned processes."""
    _in_processes(target, "spawn")


def _in_processes(target: Target, method: str) -> None:
    dataset = _dataset(target, method)
    expected = _expected(dataset)
    view = dataset[::-2]
    context: Any = multiprocessing.get_context(method)
    results = context.Queue()
    work = [(dataset, expected), (view, expected[::-2])]
    processes = [
        context.Process(target=_child, args=(part, expected_samples, results)) for part, expected_samples in work
    ]
    for process in processes:
        process.start()
    _reads(dataset, expected, 0, 200)
    outcomes = [results.get(timeout=120) for _ in processes]
    for process in processes:
        process.join(120)
        expect_equal(process.exitcode, 0, f"exit code of a {method}ed process")
    expect_equal(outcomes, ["right", "right"], f"what {method}ed processes read")


def _child(dataset: Any, expected: list[dict[str, Any]], results: Any) -> None:
    try:
        _reads(dataset, expected, 1, 200)
        results.put("right")
    except Exception as error:  # any error is reported in the parent
        results.put(repr(error))

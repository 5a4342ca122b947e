"""Damaged files of every container raise only Bushel's own errors, in bounded time and memory.

Each batch runs in a process of its own, with a limit on its memory and its time, so that a crash, a hang or a huge
allocation is a failed test with the damage that caused it.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings
from tests.fuzz.datasets import ORIGINALS, STREAMS, originals, written
from tests.fuzz.mutations import mutate
from tests.paths import ROOT


def fuzz(way: str, folder: Path, datasets: list[Path], *, seed: int, count: int) -> None:
    """Run one batch."""
    folder.mkdir()
    command = [sys.executable, "-m", "tests.fuzz.worker", way, str(folder), str(seed), str(count), *map(str, datasets)]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=60 + count * len(datasets), check=False
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"hangs; it has finished {(error.stdout or b'').decode()!r}")
    assert done.returncode == 0, f"ended with {done.returncode} after\n{done.stdout}\n{done.stderr}"
    refused = [int(line) for line in done.stdout.splitlines()[1::2]]
    assert len(refused) == len(datasets)
    assert sum(refused) > 0


def batch(way: str, container: str, tmp_path: Path, *, seed: int, count: int) -> None:
    if container == "stream":
        datasets = [*written(tmp_path, "tar"), *originals(STREAMS)]
    else:
        datasets = [*written(tmp_path, container), *originals(ORIGINALS[container])]
    fuzz(way, tmp_path / "work", datasets, seed=seed, count=count)


SOME = settings().max_examples // 2


@pytest.mark.parametrize("container", ORIGINALS)
def test_damaged_files(container: str, tmp_path: Path) -> None:
    batch("data", container, tmp_path, seed=0, count=SOME)


def test_damaged_streams(tmp_path: Path) -> None:
    batch("stream", "stream", tmp_path, seed=0, count=SOME)


def test_damaged_sidecars(tmp_path: Path) -> None:
    batch("sidecars", "tar", tmp_path, seed=0, count=SOME)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 11))
@pytest.mark.parametrize("container", ORIGINALS)
def test_damaged_files_at_length(container: str, seed: int, tmp_path: Path) -> None:
    batch("data", container, tmp_path, seed=seed, count=1000)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("container", ORIGINALS)
def test_damaged_sidecars_at_length(container: str, seed: int, tmp_path: Path) -> None:
    batch("sidecars", container, tmp_path, seed=seed, count=500)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 6))
def test_damaged_streams_at_length(seed: int, tmp_path: Path) -> None:
    batch("stream", "stream", tmp_path, seed=seed, count=1000)


def test_mutations_change_something_and_can_be_repeated() -> None:
    data = bytes(range(256)) * 4 + b'{"n": 123}'
    damaged = [mutate(data, random.Random(seed))[0] for seed in range(200)]
    assert damaged == [mutate(data, random.Random(seed))[0] for seed in range(200)]
    assert sum(each != data for each in damaged) > 190
    assert len(set(damaged)) > 190

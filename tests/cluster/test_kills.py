"""Kills at random moments: whatever dies, the same call ends with the same bytes, and nothing else is there.

`KILLS=50 make cluster` repeats each that often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.clusters import ENGINES, Cluster, Place, clusters, make_place, psutil
from tests.cluster.driver import PARTS, SAMPLES, pack

import bushel
from bushel._pack.run_folder import find_run

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

KILLS = int(os.environ.get("KILLS", "2"))
PLACES = ("folder", "s3")


@pytest.fixture(scope="module", params=ENGINES)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from clusters(request.param)


@pytest.fixture(params=PLACES)
def out(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Place:
    return make_place(request.param, tmp_path) / "out"


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    one = Place(str(tmp_path_factory.mktemp("one") / "out"))
    pack(one.path, None)
    return one.files()


def check(out: Place, expected: dict[str, bytes]) -> None:
    """Check a finished run: the bytes, the samples, and that nothing else is there."""
    assert out.files() == expected
    assert out.leftovers() == []
    run, plan = find_run(out.path)
    assert run.missing(plan) == []
    assert len(run.written(plan)) == PARTS
    dataset = bushel.open(out.path, verify=True)
    assert [sample["label"] for sample in dataset] == [label for label in range(SAMPLES) if label not in (17, 90)]
    assert len(set(dataset.keys)) == len(dataset)


def end(driver: subprocess.Popen[bytes]) -> int:
    _, said = driver.communicate(timeout=180)
    if driver.returncode > 0:
        print(said.decode(errors="replace")[-2000:])
    return driver.returncode


def some_commits(driver: subprocess.Popen[bytes], out: Place, count: int) -> None:
    """Wait until some parts are written, so that a kill comes at another moment of the run each time."""
    until = time.monotonic() + 120
    while time.monotonic() < until and driver.poll() is None:
        try:
            run, plan = find_run(out.path)
            if len(run.written(plan)) >= count:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_driver_is_killed(out: Place, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    chance = random.Random(seed)
    driver = cluster.start(out.path)
    some_commits(driver, out, chance.randrange(PARTS))
    time.sleep(chance.random() * 0.1)
    driver.kill()
    end(driver)
    assert end(cluster.start(out.path)) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_workers_are_killed(out: Place, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    chance = random.Random(seed)
    driver = cluster.start(out.path)
    some_commits(driver, out, chance.randrange(PARTS - 4))
    time.sleep(chance.random() * 0.1)
    try:
        threads = cluster.threads(driver.pid)
        if threads:
            os.kill(chance.choice(threads).pid, signal.SIGKILL)
    except (ProcessLookupError, psutil.NoSuchProcess):
        pass
    assert end(driver) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_node_is_killed(out: Place, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    if cluster.name != "ray":
        pytest.skip("only Ray has nodes here")
    driver = cluster.start(out.path)
    some_commits(driver, out, random.Random(seed).randrange(PARTS - 8))
    cluster.restart()
    assert end(driver) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_two_drivers_at_once(out: Place, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    drivers = [cluster.start(out.path), cluster.start(out.path)]
    assert [end(driver) for driver in drivers] == [0, 0]
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_worker_hangs_and_is_killed(out: Place, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    driver = cluster.start(out.path)
    some_commits(driver, out, random.Random(seed).randrange(PARTS - 8))
    stopped: list[Any] = []
    try:
        stopped = cluster.threads(driver.pid)[:1]
        for worker in stopped:
            os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(1)
    finally:
        for worker in stopped:
            os.kill(worker.pid, signal.SIGKILL)
    assert end(driver) == 0
    check(out, expected)

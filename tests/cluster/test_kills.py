"""Kills at random moments: whatever dies, the same call ends with the same bytes, and nothing else is there.

`KILLS=50 make cluster` repeats each that often.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.driver import PARTS, SAMPLES, pack
from tests.ingest.pack_sources import files_of
from tests.paths import ROOT

import bushel
from bushel.ingest.run_folder import find_run

psutil = pytest.importorskip("psutil")

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

KILLS = int(os.environ.get("KILLS", "2"))
ENGINES = ("local", "ray", "dask")


class Cluster:
    """An engine that outlives its drivers.

    Attributes:
        name: Name of the engine.
        address: Returns where drivers find it, once its workers are there.
        workers: Returns the processes that run parts, given the driver.
        restart: Starts again what a test has killed.
    """

    def __init__(
        self, name: str, address: Callable[[], str], workers: Callable[[int], list[Any]], restart: Callable[[], None]
    ) -> None:
        self.name, self.address, self.workers, self.restart = name, address, workers, restart

    def start(self, out: Path) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.cluster.driver", self.name, self.address(), str(out)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@pytest.fixture(scope="module", params=ENGINES)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        if request.param == "local":
            yield Cluster("local", str, lambda pid: psutil.Process(pid).children(), lambda: None)
        elif request.param == "ray":
            yield from _ray()
        else:
            yield from _dask()


def _ray() -> Iterator[Cluster]:
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    both = [nodes.add_node(num_cpus=1) for _ in range(2)]

    def workers(_: int) -> list[Any]:
        found = psutil.process_iter(["cmdline"])
        return [each for each in found if (each.info["cmdline"] or [""])[0].startswith("ray::_call")]

    def restart() -> None:
        nodes.remove_node(both.pop(0), allow_graceful=False)
        both.append(nodes.add_node(num_cpus=1))

    yield Cluster("ray", lambda: nodes.address, workers, restart)
    nodes.shutdown()


def _dask() -> Iterator[Cluster]:
    distributed = pytest.importorskip("distributed")
    clusters = []

    def start() -> None:
        clusters.append(distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))

    def address() -> str:
        """Return the address when both workers are there. Dask's nanny gives up a worker that dies while it starts."""
        end = time.monotonic() + 30
        while len(clusters[-1].scheduler.workers) < 2:
            if time.monotonic() > end:
                clusters.pop().close()
                start()
                end = time.monotonic() + 30
            time.sleep(0.05)
        return str(clusters[-1].scheduler_address)

    def workers(_: int) -> list[Any]:
        pids = [nanny.pid for nanny in clusters[-1].workers.values()]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid or 0)]

    start()
    yield Cluster("dask", address, workers, lambda: None)
    clusters[-1].close()


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    out = tmp_path_factory.mktemp("one") / "out"
    pack(out, None)
    return {**files_of(out), "errors": out.with_name("out.errors.jsonl").read_bytes()}


def check(out: Path, expected: dict[str, bytes]) -> None:
    """Check a finished run: the bytes, the samples, and that nothing else is there."""
    assert {**files_of(out), "errors": out.with_name("out.errors.jsonl").read_bytes()} == expected
    run, plan = find_run(out)
    assert run.missing(plan) == []
    assert len(run.committed()) == PARTS
    dataset = bushel.open(out, verify=True)
    assert [sample["label"] for sample in dataset] == [label for label in range(SAMPLES) if label not in (17, 90)]
    assert len(set(dataset.keys)) == len(dataset)


def end(driver: subprocess.Popen[bytes]) -> int:
    _, said = driver.communicate(timeout=180)
    if driver.returncode > 0:
        print(said.decode(errors="replace")[-2000:])
    return driver.returncode


def some_commits(driver: subprocess.Popen[bytes], out: Path, count: int) -> None:
    """Wait until some parts are committed, so that a kill comes at another moment of the run each time."""
    until = time.monotonic() + 120
    while time.monotonic() < until and driver.poll() is None:
        try:
            if len(find_run(out)[0].committed()) >= count:
                return
        except FileNotFoundError:
            pass
        time.sleep(0.01)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_driver_is_killed(tmp_path: Path, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    chance, out = random.Random(seed), tmp_path / "out"
    driver = cluster.start(out)
    some_commits(driver, out, chance.randrange(PARTS))
    time.sleep(chance.random() * 0.1)
    driver.kill()
    end(driver)
    assert end(cluster.start(out)) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_workers_are_killed(tmp_path: Path, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    chance, out = random.Random(seed), tmp_path / "out"
    driver = cluster.start(out)
    some_commits(driver, out, chance.randrange(PARTS - 4))
    time.sleep(chance.random() * 0.1)
    try:
        workers = cluster.workers(driver.pid)
        if workers:
            os.kill(chance.choice(workers).pid, signal.SIGKILL)
    except (ProcessLookupError, psutil.NoSuchProcess):
        pass
    assert end(driver) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_node_is_killed(tmp_path: Path, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    if cluster.name != "ray":
        pytest.skip("only Ray has nodes here")
    out = tmp_path / "out"
    driver = cluster.start(out)
    some_commits(driver, out, random.Random(seed).randrange(PARTS - 8))
    cluster.restart()
    assert end(driver) == 0
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_two_drivers_at_once(tmp_path: Path, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    out = tmp_path / "out"
    drivers = [cluster.start(out), cluster.start(out)]
    assert [end(driver) for driver in drivers] == [0, 0]
    check(out, expected)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_worker_hangs(tmp_path: Path, cluster: Cluster, expected: dict[str, bytes], seed: int) -> None:
    out = tmp_path / "out"
    driver = cluster.start(out)
    some_commits(driver, out, random.Random(seed).randrange(PARTS - 8))
    stopped: list[Any] = []
    try:
        stopped = cluster.workers(driver.pid)[:1]
        for worker in stopped:
            os.kill(worker.pid, signal.SIGSTOP)
        assert end(driver) == 0
        check(out, expected)
    finally:
        for worker in stopped:
            try:
                os.kill(worker.pid, signal.SIGCONT)
            except ProcessLookupError:
                continue
    time.sleep(1)
    check(out, expected)  # the late result changes nothing

"""Clusters on this machine, and places that runs are written to."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import files_of
from tests.cloud.conftest import environment, make_bucket
from tests.paths import ROOT
from tests.storage.objects.memory import objects_in

from bushel.storage.objects.location import ObjectPath

__all__ = ["ENGINES", "Cluster", "Place", "clusters", "make_place", "psutil", "ray_nodes", "s3_server"]

psutil = pytest.importorskip("psutil")

ENGINES = ("local", "ray", "dask")
_READY_SECONDS = 30


@dataclass(frozen=True)
class Cluster:
    """An engine that outlives its drivers.

    Attributes:
        name: Name of the engine.
        address: Returns where drivers find it, once its workers are there.
        threads: Returns the processes that run parts, given the driver.
        restart: Starts again what a test has killed.
    """

    name: str
    address: Callable[[], str]
    threads: Callable[[int], list[Any]]
    restart: Callable[[], None]

    def start(self, out: str) -> subprocess.Popen[bytes]:
        """Start a driver."""
        command = [sys.executable, "-m", "tests.cluster.driver", self.name, self.address(), out]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@dataclass(frozen=True)
class Place:
    """A folder in a file system or in an object store.

    Attributes:
        path: Its path or URL.
    """

    path: str

    def __truediv__(self, name: str) -> Place:
        return Place(f"{self.path}/{name}")

    def files(self) -> dict[str, bytes]:
        """Return the files of a dataset without Bushel's own, and its error log as `errors`."""
        if "://" not in self.path:
            path = Path(self.path)
            log = path.with_name(f"{path.name}.errors.jsonl")
            return {**files_of(path), "errors": log.read_bytes() if log.exists() else b""}
        there = ObjectPath.parse(self.path)
        lines = there.parent / f"{there.name}.errors.jsonl"
        return {**objects_in(there), "errors": lines.read_bytes() if lines.exists() else b""}

    def leftovers(self) -> list[str]:
        """Return the names of what writers of parts have left."""
        if "://" not in self.path:
            return [str(each) for each in (Path(self.path) / ".bushel/overwrite").glob("*")]
        return [name for name in objects_in(ObjectPath.parse(self.path), sidecars=True) if name.endswith(".lock")]


def s3_server() -> dict[str, str] | None:
    """Return the variables of the S3 server that `make cluster` starts; None if it does not run."""
    import urllib.error
    import urllib.request

    variables = environment()
    try:
        urllib.request.urlopen(variables["AWS_ENDPOINT_URL"], timeout=5).close()
    except urllib.error.HTTPError:
        return variables
    except OSError:
        return None
    return variables


def make_place(kind: str, folder: Path) -> Place:
    """Return a folder, or a new bucket of the S3 server, whose variables are set."""
    if kind == "folder":
        return Place(str(folder))
    if s3_server() is None:
        pytest.skip("the S3 server does not run: `make cluster` starts it")
    bucket = ObjectPath.parse(f"s3://cluster-{uuid.uuid4().hex[:12]}")
    make_bucket(bucket)
    return Place(str(bucket))


def clusters(name: str) -> Iterator[Cluster]:
    """Run a cluster: two processes, or two nodes with one process each. Workers find the tests, and the S3 server."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("BUSHEL_NETWORK_PATIENCE", "20")
        for variable, value in (s3_server() or {}).items():
            patch.setenv(variable, value)
        if name == "local":
            yield Cluster("local", str, lambda pid: psutil.Process(pid).children(), lambda: None)
        elif name == "ray":
            yield from ray_nodes([{}, {}])
        else:
            yield from _dask()


def ray_nodes(variables: Sequence[Mapping[str, str]]) -> Iterator[Cluster]:
    """Run a cluster of Ray with a node for each of these sets of variables."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster as Nodes

    nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    running = [nodes.add_node(num_cpus=1, env_vars=dict(own)) for own in variables]

    def threads(_: int) -> list[Any]:
        found = psutil.process_iter(["cmdline"])
        return [each for each in found if (each.info["cmdline"] or [""])[0].startswith("ray::_call")]

    def restart() -> None:
        nodes.remove_node(running.pop(0), allow_graceful=False)
        running.append(nodes.add_node(num_cpus=1))

    yield Cluster("ray", lambda: str(nodes.address), threads, restart)
    nodes.shutdown()


def _dask() -> Iterator[Cluster]:
    distributed = pytest.importorskip("distributed")
    running = []

    def start() -> None:
        running.append(distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None))

    def address() -> str:
        """Return the address when both workers are there. Dask's nanny gives up a worker that dies while it starts."""
        end = time.monotonic() + _READY_SECONDS
        while len(running[-1].scheduler.workers) < 2:
            if time.monotonic() > end:
                running.pop().close()
                start()
                end = time.monotonic() + _READY_SECONDS
            time.sleep(0.05)
        return str(running[-1].scheduler_address)

    def threads(_: int) -> list[Any]:
        pids = [nanny.pid for nanny in running[-1].workers.values()]
        return [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid or 0)]

    start()
    yield Cluster("dask", address, threads, lambda: None)
    running[-1].close()

"""Run tasks on Ray: tasks of Ray Core."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from bushel._runtime.tasks import Finished, LostWorkerError, Task
from bushel.errors import needed_by

from .local import call

with needed_by("engine='ray'", "bushel[ray]"):
    import ray
    from ray import exceptions
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

_LOST = (
    exceptions.WorkerCrashedError,
    exceptions.NodeDiedError,
    exceptions.ObjectLostError,
    exceptions.OutOfMemoryError,
    exceptions.OwnerDiedError,
    exceptions.TaskCancelledError,
    exceptions.LocalRayletDiedError,
)
_LOOK_SECONDS = 5.0


def connect(engine: Any = "ray") -> RayEngine:
    """Return an engine on the cluster at an address, or on the one that `ray.init()` finds or starts."""
    return RayEngine(engine if isinstance(engine, str) and "://" in engine else None)


class RayEngine:
    """Tasks of Ray Core. Ray places each on a node with the resources that it needs.

    Args:
        address: As for `ray.init`: by default the cluster that this process is connected to, the
            one in `RAY_ADDRESS`, or a new one on this machine.
        num_cpus: CPUs of a task; give the same number as `threads=` to use as many threads.
        memory: Bytes of memory of a task. Ray then starts as many on a node as have room.
        resources: Further resources of a task, as for `ray.remote`.
        max_in_flight: Number of tasks that are submitted at a time; by default as many as the
            cluster has CPUs for.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        num_cpus: float = 1,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        max_in_flight: int | None = None,
    ) -> None:
        self._address, self._started = address, False
        options: dict[str, Any] = {
            "num_cpus": num_cpus,
            "max_retries": 0,
            "resources": dict(resources or {}),
        }
        if memory is not None:
            options["memory"] = memory
        self._run, self._options = ray.remote(_call), options
        self._num_cpus, self._most = num_cpus, max_in_flight
        self._task: Any = None
        self._running: dict[Any, int] = {}
        self._failed: dict[int, set[str]] = {}
        self._looked, self._slots = -_LOOK_SECONDS, 1

    @property
    def slots(self) -> int:
        """Number of tasks that the cluster can run at a time, which changes when nodes come and go."""
        self._connect()
        now = time.monotonic()
        if self._most is not None:
            return self._most
        if now - self._looked >= _LOOK_SECONDS:
            self._looked = now
            self._slots = max(
                1, int(ray.cluster_resources().get("CPU", 1) / max(self._num_cpus, 1e-9))
            )
        return self._slots

    def submit(self, task: Task, number: int) -> None:
        """Start a task, elsewhere than where it has failed. The task is sent to a node once."""
        self._connect()
        if self._task is None:
            self._task = ray.put(task)
        options = self._options
        if number in self._failed:
            options = {**options, "scheduling_strategy": self._elsewhere(self._failed[number])}
        self._running[self._run.options(**options).remote([self._task], number)] = number

    def wait(self, seconds: float) -> list[Finished]:
        """Return the tasks that have finished."""
        if not self._running:
            time.sleep(seconds)
            return []
        ready, _ = ray.wait(list(self._running), num_returns=1, timeout=seconds)
        more, _ = ray.wait(list(self._running), num_returns=len(self._running), timeout=0)
        return [self._finished(reference) for reference in dict.fromkeys([*ready, *more])]

    def close(self) -> None:
        """Cancel what runs, and end a cluster that this engine has started."""
        if not ray.is_initialized():
            return
        running, self._running, self._failed = self._running, {}, {}
        for reference in running:
            ray.cancel(reference, force=True)
        if running:
            ray.wait(list(running), num_returns=len(running), timeout=_LOOK_SECONDS)
        self._task = None
        if self._started:
            ray.shutdown()
            self._started = False

    def _connect(self) -> None:
        if not ray.is_initialized():
            self._started = True
            ray.init(
                self._address, log_to_driver=False, include_dashboard=False, configure_logging=False
            )

    def _finished(self, reference: Any) -> Finished:
        number = self._running.pop(reference)
        try:
            node, result, failure = ray.get(reference)
        except _LOST as error:
            return Finished(
                number, error=LostWorkerError(f"Ray lost the worker of task {number}: {error}")
            )
        except exceptions.RayError as error:
            return Finished(number, error=error)
        if failure is None:
            self._failed.pop(number, None)
        else:
            self._failed.setdefault(number, set()).add(node)
        return Finished(number, result, failure)

    def _elsewhere(self, failed: set[str]) -> Any:
        """Return a strategy that prefers a node on which the task has not failed, if there is one."""
        alive = [
            node
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU", 0) >= self._num_cpus
        ]
        untried = [node["NodeID"] for node in alive if node["NodeID"] not in failed]
        if untried:
            return NodeAffinitySchedulingStrategy(random.choice(untried), soft=True)
        return "DEFAULT"


def _call(holder: list[Any], number: int) -> tuple[str, Any, BaseException | None]:
    """Run a task in a worker. Return the node, too."""
    return (ray.get_runtime_context().get_node_id(), *call(_load(holder[0]), number))


@lru_cache(maxsize=1)
def _load(reference: Any) -> Task:
    """Return the task; a worker unpickles it once."""
    task: Task = ray.get(reference)
    return task

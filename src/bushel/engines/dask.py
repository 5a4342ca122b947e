"""Run tasks on Dask: a client, the address of a scheduler, or a cluster of processes on this machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from bushel._runtime.tasks.engine import Attempt, Finished, LostWorkerError, Task
from bushel._runtime.threads import cpu_count
from bushel.engines.local import call_pickled
from bushel.errors import UnsupportedError, needed_by

with needed_by("engine='dask'", "bushel[dask]"):
    import distributed
    from distributed.protocol.pickle import dumps

# a task of at least this many bytes is sent to the workers once, and not with each attempt
_LARGE = 1 << 20


def connect(engine: Any = "dask") -> DaskEngine:
    """Return an engine on a `distributed.Client`, an address, or, for `dask`, a new cluster on this machine."""
    return DaskEngine(None if engine == "dask" else engine)


def _local_cluster() -> Any:
    """Start a scheduler in this process, and a worker process for each CPU.

    Raises:
        UnsupportedError: Dask cannot start them, as in a script that is imported by its own worker
            processes.
    """
    try:
        return distributed.LocalCluster(
            n_workers=cpu_count(),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            # its other pages, which would take port 8787
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        )
    except RuntimeError as error:
        raise UnsupportedError(
            f"engine='dask' cannot start worker processes: {str(error).rstrip('.')}. They import"
            " the script "
            'that starts them, so call Bushel below `if __name__ == "__main__":`, or give engine='
            " the address of a "
            "scheduler"
        ) from error


class DaskEngine:
    """Tasks of Dask.

    Args:
        client: A `distributed.Client`, or the address of a scheduler. By default a cluster on this
            machine is started, with a process for each CPU.
        max_in_flight: Number of tasks that are submitted at a time; by default as many as the
            workers have threads.
        resources: Resources of a task, as for `Client.submit`, such as `{"MEMORY": 4e9}`.
    """

    def __init__(
        self,
        client: Any = None,
        *,
        max_in_flight: int | None = None,
        resources: dict[str, float] | None = None,
    ) -> None:
        self._given = client
        self._owned = not isinstance(client, distributed.Client)
        self._cluster: Any = None
        self._open_client: Any = None if self._owned else client
        self._most, self._resources = max_in_flight, resources
        self._job: Any = None
        self._attempts: dict[Any, Attempt] = {}
        self._failed: dict[int, set[str]] = {}

    @property
    def _client(self) -> Any:
        """The client, which is made on first use."""
        if self._open_client is None:
            if self._given is None:
                self._cluster = _local_cluster()
            self._open_client = distributed.Client(self._cluster or self._given)
        return self._open_client

    @property
    def slots(self) -> int:
        """Number of tasks that the workers can run at a time, which changes when workers come and go."""
        return self._most or max(1, sum(self._client.nthreads().values()))

    def submit(self, task: Task, attempt: Attempt) -> None:
        """Start an attempt."""
        if self._job is None:
            job = dumps(task)
            large = len(job) > _LARGE
            if large:
                self._job = self._client.scatter(job, broadcast=True, hash=False)
            else:
                self._job = job
        future = self._client.submit(
            _call,
            self._job,
            attempt.number,
            pure=False,
            resources=self._resources,
            workers=self._others(attempt) if attempt.attempt else None,
        )
        self._attempts[future] = attempt

    def wait(self, seconds: float, unwanted: Sequence[Attempt] = ()) -> list[Finished]:
        """Return the finished attempts. Dask cannot end a running task; unwanted attempts are forgotten."""
        finished = [
            self._forget(future)
            for future, attempt in list(self._attempts.items())
            if attempt in unwanted
        ]
        if not self._attempts:
            time.sleep(0 if finished else seconds)
            return finished
        try:
            distributed.wait(
                list(self._attempts),
                timeout=0 if finished else seconds,
                return_when="FIRST_COMPLETED",
            )
        except TimeoutError:
            return finished
        return [
            *finished,
            *(self._finished(future) for future in list(self._attempts) if future.done()),
        ]

    def close(self) -> None:
        """Cancel what waits, and close a client and a cluster that this engine has made."""
        attempts, self._attempts, self._failed = self._attempts, {}, {}
        if attempts:
            self._client.cancel(list(attempts), force=True)
        self._job = None
        if self._owned and self._open_client is not None:
            self._open_client.close()
            self._open_client = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _others(self, attempt: Attempt) -> list[str] | None:
        """Return the workers on which no other attempt of this task has failed or may hang; None if all have."""
        keys = {
            future.key for future, other in self._attempts.items() if other.number == attempt.number
        }
        failed = self._failed.get(attempt.number, set())
        keys_by_worker = self._client.processing()
        return [
            worker
            for worker, running in keys_by_worker.items()
            if keys.isdisjoint(running) and worker not in failed
        ] or None

    def _forget(self, future: Any) -> Finished:
        attempt = self._attempts.pop(future)
        self._client.cancel([future], force=True)
        return Finished(
            attempt, error=LostWorkerError("the task was cancelled, as its result was not needed")
        )

    def _finished(self, future: Any) -> Finished:
        attempt = self._attempts.pop(future)
        try:
            worker, result, failure = future.result()
        except (
            distributed.KilledWorker,
            distributed.CancelledError,
            distributed.comm.CommClosedError,
        ) as error:
            return Finished(
                attempt,
                error=LostWorkerError(f"Dask lost the worker of task {attempt.number}: {error}"),
            )
        except Exception as error:
            return Finished(attempt, error=error)
        if failure is None:
            self._failed.pop(attempt.number, None)
        else:
            self._failed.setdefault(attempt.number, set()).add(worker)
        return Finished(attempt, result, failure)


def _call(job: bytes, number: int) -> tuple[str, Any, BaseException | None]:
    """Run a task in a worker. Return the address of the worker, too."""
    return (distributed.get_worker().address, *call_pickled(job, number))

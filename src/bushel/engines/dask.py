"""Run tasks on Dask: a client, the address of a scheduler, or a cluster of processes on this machine."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from bushel._runtime.tasks import Finished, LostWorkerError, Task
from bushel._runtime.threads import cpu_count
from bushel.errors import UnsupportedError, needed_by

from .local import call_pickled

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
            f"engine='dask' cannot start worker processes: {str(error).rstrip('.')}. "
            "They import the script that starts them, so call Bushel below "
            '`if __name__ == "__main__":`, or give engine= the address of a scheduler'
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
        self._running: dict[Any, int] = {}
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

    def submit(self, task: Task, number: int) -> None:
        """Start a task, elsewhere than where it has failed."""
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
            number,
            pure=False,
            resources=self._resources,
            workers=self._others(number) if number in self._failed else None,
        )
        self._running[future] = number

    def wait(self, seconds: float) -> list[Finished]:
        """Return the tasks that have finished."""
        if not self._running:
            time.sleep(seconds)
            return []
        with suppress(TimeoutError):
            distributed.wait(list(self._running), timeout=seconds, return_when="FIRST_COMPLETED")
        return [self._finished(future) for future in list(self._running) if future.done()]

    def close(self) -> None:
        """Cancel what waits, and close a client and a cluster that this engine has made."""
        running, self._running, self._failed = self._running, {}, {}
        if running:
            self._client.cancel(list(running), force=True)
        self._job = None
        if self._owned and self._open_client is not None:
            self._open_client.close()
            self._open_client = None
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _others(self, number: int) -> list[str] | None:
        """Return the workers on which a task has not failed; None if it has on all."""
        workers = self._client.nthreads()
        return [worker for worker in workers if worker not in self._failed[number]] or None

    def _finished(self, future: Any) -> Finished:
        number = self._running.pop(future)
        try:
            worker, result, failure = future.result()
        except (
            distributed.KilledWorker,
            distributed.CancelledError,
            distributed.comm.CommClosedError,
        ) as error:
            return Finished(
                number, error=LostWorkerError(f"Dask lost the worker of task {number}: {error}")
            )
        except Exception as error:
            return Finished(number, error=error)
        if failure is None:
            self._failed.pop(number, None)
        else:
            self._failed.setdefault(number, set()).add(worker)
        return Finished(number, result, failure)


def _call(job: bytes, number: int) -> tuple[str, Any, BaseException | None]:
    """Run a task in a worker. Return the address of the worker, too."""
    return (distributed.get_worker().address, *call_pickled(job, number))

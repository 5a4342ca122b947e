"""Encode samples in worker processes, for sources and transforms in pure Python.

Each process serves one thread at a time, so the threads of a parallel map keep as many processes
busy.
"""

from __future__ import annotations

import pickle
import queue
from typing import Any, Self

from bushel._pack.encoder import BadItem, EncodedSample, Encoder
from bushel._pack.feeds import Batch
from bushel._runtime.processes import WorkerProcess, answer, pickle_for_worker, portable


class WorkerPool:
    """Worker processes that call an `Encoder`, from any number of threads.

    Raises:
        TypeError: It cannot be pickled; the message names the reason.
    """

    def __init__(self, encoder: Encoder, processes: int) -> None:
        job = pickle_for_worker(encoder, "the source and the transforms")
        self._workers: list[WorkerProcess] = []
        self._free: queue.SimpleQueue[WorkerProcess] = queue.SimpleQueue()
        try:
            for _ in range(processes):
                self._workers.append(WorkerProcess("bushel._pack.processes", "serve"))
            for worker in self._workers:
                worker.send(job)
                self._free.put(worker)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(self, batch: Batch) -> list[EncodedSample | BadItem]:
        """Encode a batch in a worker process. Raise WorkerDiedError if the process died."""
        worker = self._free.get()
        try:
            worker.send(pickle.dumps(batch, 5))
            message, _ = worker.receive()
            results: list[EncodedSample | BadItem] = pickle.loads(message)
            return results
        finally:
            self._free.put(worker)

    def close(self) -> None:
        """End the worker processes, which must be idle."""
        for worker in self._workers:
            worker.close()
        for worker in self._workers:
            worker.join()


def serve(descriptor: int) -> None:
    """Run a worker process: encode batches for the parent at the other end of this socket until it closes its end."""
    answer(
        descriptor,
        lambda encoder, batch: [_portable(result) for result in encoder(pickle.loads(batch))],
    )


def _portable(result: EncodedSample | BadItem) -> EncodedSample | BadItem:
    """Return a result that can be pickled: views of memory as bytes, and an error that survives pickling."""
    if isinstance(result, EncodedSample):
        values = {name: _plain(value) for name, value in result.values.items()}
        return EncodedSample(result.position, result.key, values, result.size)
    return BadItem(result.position, result.key, result.path, portable(result.error))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    if isinstance(value, memoryview):
        return bytes(value)
    return value

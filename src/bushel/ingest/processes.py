"""Preparing items in helper processes, for sources and transforms in pure Python.

Each helper serves one thread at a time, so the threads of a parallel map keep as many helpers busy as there are.
"""

from __future__ import annotations

import os
import pickle
import queue
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from bushel.core.processes import Channel, HelperProcess, pickle_for_helper, portable
from bushel.ingest.prepare import Bad, Item, Preparer, Ready

__all__ = ["HelperPool", "serve"]


class HelperPool:
    """Calls a `Preparer` in helper processes, from any number of threads.

    Args:
        prepare: What to do; it is pickled.
        processes: Number of helpers.

    Raises:
        TypeError: It cannot be pickled; says what is in the way.
    """

    def __init__(self, prepare: Preparer, processes: int) -> None:
        job = pickle_for_helper(prepare, "the source and the transforms")
        self._helpers: list[HelperProcess] = []
        self._free: queue.SimpleQueue[HelperProcess] = queue.SimpleQueue()
        try:
            for _ in range(processes):
                self._helpers.append(HelperProcess("bushel.ingest.processes", "serve"))
            for helper in self._helpers:
                helper.tell(job)
                self._free.put(helper)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __call__(self, batch: Sequence[Item]) -> list[Ready | Bad]:
        """Prepare a batch in a helper.

        Raises:
            HelperDiedError: The helper died.
        """
        helper = self._free.get()
        try:
            helper.tell(pickle.dumps(batch, 5))
            message, _ = helper.receive()
            results: list[Ready | Bad] = pickle.loads(message)
            return results
        finally:
            self._free.put(helper)

    def close(self) -> None:
        """End the helpers, which have nothing to do any more."""
        for helper in self._helpers:
            helper.close()
        for helper in self._helpers:
            helper.join()


def serve(descriptor: int) -> None:
    """Prepare batches for the parent at the other end of this socket until it closes it."""
    channel = Channel.of_descriptor(descriptor)
    try:
        message, _ = channel.receive()
        prepare: Preparer = pickle.loads(message)
        while True:
            message, _ = channel.receive()
            results = prepare(pickle.loads(message))
            channel.send(pickle.dumps([_portable(result) for result in results], 5))
    except (EOFError, ConnectionError):  # the parent has done
        os._exit(0)


def _portable(result: Ready | Bad) -> Ready | Bad:
    """The same, with views of memory as bytes, and an error that survives the way."""
    if isinstance(result, Ready):
        values = {name: _plain(value) for name, value in result.values.items()}
        return Ready(result.position, result.key, values, result.size)
    return Bad(result.position, result.key, result.path, portable(result.error))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return bytes(value) if isinstance(value, memoryview) else value

"""Preparing items in helper processes, for sources and transforms in pure Python.

Helpers are fresh interpreters, not forks, and do not run the main script again. Each serves one thread at a time, so
the threads of `in_order` keep as many helpers busy as there are.
"""

from __future__ import annotations

import io
import os
import pickle
import queue
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import FunctionType, TracebackType
from typing import Any, Self

from bushel.ingest.prepare import Bad, Item, Preparer, Ready
from bushel.loader.channel import Channel

__all__ = ["HelperPool", "serve"]

_PATIENCE_SECONDS = 10


class HelperPool:
    """Calls a `Preparer` in helper processes, from any number of threads.

    Args:
        prepare: What to do; it is pickled.
        processes: Number of helpers.

    Raises:
        TypeError: It cannot be pickled; says what is in the way.
    """

    def __init__(self, prepare: Preparer, processes: int) -> None:
        job = _pickled(prepare)
        self._helpers: list[_Helper] = []
        self._free: queue.SimpleQueue[_Helper] = queue.SimpleQueue()
        try:
            for _ in range(processes):
                helper = _Helper(job)
                self._helpers.append(helper)
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
            RuntimeError: The helper died.
        """
        helper = self._free.get()
        try:
            return helper.ask(batch)
        finally:
            self._free.put(helper)

    def close(self) -> None:
        """End the helpers, which have nothing to do any more."""
        for helper in self._helpers:
            helper.close()
        for helper in self._helpers:
            helper.join()


class _Helper:
    def __init__(self, job: bytes) -> None:
        own, its = socket.socketpair()
        with its:
            task = f"from bushel.ingest.processes import serve; serve({its.fileno()})"
            code = f"import sys; sys.path[:] = {sys.path}; {task}"
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                process_group=0,  # Ctrl-C is for the parent, which ends its helpers itself
            )
        self._channel = Channel(own)
        with suppress(ConnectionError):  # a helper that died says so when it is asked
            self._channel.send(job)

    def ask(self, batch: Sequence[Item]) -> list[Ready | Bad]:
        try:
            self._channel.send(pickle.dumps(batch, 5))
            message, _ = self._channel.receive()
        except (EOFError, ConnectionError):
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise RuntimeError(
                f"helper process {self._process.pid} {how}; if the system was out of memory, use fewer processes"
            ) from None
        results: list[Ready | Bad] = pickle.loads(message)  # noqa: S301 - from our own child
        return results

    def close(self) -> None:
        self._channel.close()

    def join(self) -> None:
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve(descriptor: int) -> None:
    """Prepare batches for the parent at the other end of this socket until it closes it."""
    channel = Channel.of_descriptor(descriptor)
    try:
        message, _ = channel.receive()
        prepare: Preparer = pickle.loads(message)  # noqa: S301 - from our parent
        while True:
            message, _ = channel.receive()
            results = prepare(pickle.loads(message))  # noqa: S301 - from our parent
            channel.send(pickle.dumps([_portable(result) for result in results], 5))
    except (EOFError, ConnectionError):  # the parent has done
        os._exit(0)


def _portable(result: Ready | Bad) -> Ready | Bad:
    """The same, with views of memory as bytes, and an error that survives the way."""
    if isinstance(result, Ready):
        values = {name: _plain(value) for name, value in result.values.items()}
        return Ready(result.position, result.key, values, result.size)
    try:
        pickle.loads(pickle.dumps(result.error))  # noqa: S301 - our own
    except Exception:  # noqa: BLE001 - whatever a foreign exception's own methods raise
        error = RuntimeError(f"{type(result.error).__name__}: {result.error}")
        return Bad(result.position, result.key, result.path, error)
    return result


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(element) for element in value]
    return bytes(value) if isinstance(value, memoryview) else value


class _Pickler(pickle.Pickler):
    """Refuses by name what a fresh interpreter could not find."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise TypeError(
                f"{obj.__qualname__} is defined in the main script, which helper processes do not run: move it to a "
                f"module of its own and import it, or leave processes= out to use threads"
            )
        return NotImplemented


def _pickled(prepare: Preparer) -> bytes:
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(prepare)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"processes= pickles the source and the transforms, and one cannot be: {error}") from error
    return buffer.getvalue()

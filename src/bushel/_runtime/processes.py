"""Worker processes: fresh interpreters that work for this one, for the loader and for packing.

They are started, not forked, so they inherit no locks, threads or open files. The parent's main
script is not run again, so it needs no `if __name__ == "__main__"`. A worker process ends when its
socket closes, however the parent ends.
"""

from __future__ import annotations

import io
import os
import pickle
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any, TypeVar

from bushel.errors import BushelError

E = TypeVar("E", bound=BaseException)
_REFUSED = (pickle.PicklingError, AttributeError, TypeError)
_LENGTH = struct.Struct("<Q")
_MOST_DESCRIPTORS = 1
_PATIENCE_SECONDS = 10
# NumPy's linear algebra starts a thread for every CPU when it is imported, and each of them looks
# for work for 2**26 ticks before it sleeps. That takes the CPUs from the imports of the worker
# processes. This is the minimum.
_SLEEP_AT_ONCE = {"OPENBLAS_THREAD_TIMEOUT": "4"}


class _OfMainScriptError(Exception):
    """A function or class is defined in the main script."""


class _Pickler(pickle.Pickler):
    """A pickler that stops at objects which a fresh interpreter cannot import."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, FunctionType | type) and obj.__module__ == "__main__":
            raise _OfMainScriptError
        return NotImplemented


def pickle_for_worker(job: Any, content: str) -> bytes:
    """Pickle a job for a worker process.

    Args:
        job: Any object.
        content: The objects of the user in the job, for the error: "the source and the transforms".

    Raises:
        TypeError: Something in it cannot be pickled; the error names it.
    """
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=5).dump(job)
    except BushelError:
        raise
    except (_OfMainScriptError, *_REFUSED):
        import cloudpickle  # 1 ms, for those who need it

        try:
            pickled: bytes = cloudpickle.dumps(job, protocol=5)
        except BushelError:
            raise
        except _REFUSED as error:
            raise TypeError(f"processes= pickles {content}, and one cannot be: {error}") from error
        return pickled
    return buffer.getvalue()


def pickle_for_parent(result: Any, buffers: list[pickle.PickleBuffer] | None = None) -> bytes:
    """Pickle the result of a worker process, with protocol 5.

    Objects of classes that the parent's main script defines become objects of these classes there.

    Args:
        result: The result.
        buffers: Gets the contents of its arrays, which are left out; None to pickle them, too.

    Raises:
        TypeError: It cannot be pickled.
        pickle.PicklingError: Likewise.
    """
    take = None if buffers is None else buffers.append
    try:
        return pickle.dumps(result, 5, buffer_callback=take)
    except _REFUSED:
        import cloudpickle

        if buffers is not None:
            buffers.clear()
        pickled: bytes = cloudpickle.dumps(result, 5, buffer_callback=take)
        return pickled


def portable(error: E) -> E | RuntimeError:
    """Return the exception, or a RuntimeError that quotes it if it does not survive pickling."""
    try:
        pickle.loads(pickle_for_parent(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


class WorkerDiedError(RuntimeError):
    """A worker process ended while it worked."""


class WorkerProcess:
    """The parent's end of a worker process.

    The process starts with its imports, and reads a long message only after them: start all worker
    processes before you send to the first.

    Args:
        module: Name of the module that does the work: its function `serve` is called with the
            descriptor of the worker's end of the socket.
    """

    def __init__(self, module: str) -> None:
        import subprocess  # which the processes themselves do not need

        parent_end, child_end = socket.socketpair()
        with child_end:
            # imports leave no garbage, and collecting it would take an eighth of the time until the
            # work starts
            imports = f"gc.disable(); from {module} import serve; gc.freeze(); gc.enable()"
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    (
                        f"import gc, sys; sys.path[:] = {sys.path}; "
                        f"{imports}; serve({child_end.fileno()})"
                    ),
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[child_end.fileno()],
                env={**_SLEEP_AT_ONCE, **os.environ},
                # Ctrl-C reaches the parent only, which ends its worker processes itself
                process_group=0,
            )
        self._channel = Channel(parent_end)

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def send(self, message: bytes) -> None:
        """Send a message. If the process has ended, `receive` raises."""
        with suppress(ConnectionError):
            self._channel.send(message)

    def receive(self) -> tuple[memoryview, Sequence[int]]:
        """Wait for a message, and return it with the descriptors that came with it.

        Raises:
            WorkerDiedError: The process ended.
        """
        try:
            return self._channel.receive()
        except (EOFError, ConnectionError):
            status = self._process.wait()
            if status < 0:
                how = f"was killed by signal {-status}"
            else:
                how = f"ended with status {status}"
            raise WorkerDiedError(
                f"worker process {self.pid} {how}; if the system was "
                "out of memory, use fewer processes or smaller batches"
            ) from None

    def close(self) -> None:
        """Tell the process to end."""
        self._channel.close()

    def kill(self) -> None:
        """Kill the process, and wait until it has ended."""
        self._process.kill()
        self._channel.close()
        self._process.wait()

    def fileno(self) -> int:
        """Return the descriptor to wait for messages on."""
        return self._channel.fileno()

    def join(self) -> None:
        """Wait until the process has ended, and kill it if a library in it prevents that."""
        import subprocess

        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Channel:
    """One end of a connected Unix socket, for messages with file descriptors attached.

    One thread at a time may send, and one may receive.
    """

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def of_descriptor(cls, descriptor: int) -> Channel:
        """Take over a socket given by its descriptor."""
        return cls(socket.socket(fileno=descriptor))

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one message, with duplicates of these descriptors. Raise OSError if the other end is closed."""
        header = _LENGTH.pack(len(message))
        sent = socket.send_fds(self._socket, [header], list(descriptors))
        self._socket.sendall(header[sent:])
        self._socket.sendall(message)

    def receive(self) -> tuple[memoryview, list[int]]:
        """Wait for the next message. Raise EOFError if the other end is closed."""
        header, descriptors, _, _ = socket.recv_fds(self._socket, _LENGTH.size, _MOST_DESCRIPTORS)
        rest = bytearray(_LENGTH.size - len(header))
        if header:
            self._fill(memoryview(rest))
        if not header:
            raise EOFError("the other end of the channel is closed")
        message = bytearray(_LENGTH.unpack(header + rest)[0])
        self._fill(memoryview(message))
        return memoryview(message), descriptors

    def _fill(self, buffer: memoryview) -> None:
        filled = 0
        while filled < len(buffer):
            if not (count := self._socket.recv_into(buffer[filled:])):
                raise EOFError("the other end of the channel was closed within a message")
            filled += count

    def fileno(self) -> int:
        """Return the socket's descriptor, to wait for messages."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


def answer(descriptor: int, reply: Callable[[Any, memoryview], object]) -> None:
    """Main loop of a worker process: answer the parent's messages until it closes the socket.

    Args:
        descriptor: The socket.
        reply: Called with the job, which the parent sends first, and with each later message. Its
            result is pickled.
    """
    channel = Channel.of_descriptor(descriptor)
    try:
        message, _ = channel.receive()
        job = pickle.loads(message)
        while True:
            message, _ = channel.receive()
            channel.send(pickle_for_parent(reply(job, message)))
    except (EOFError, ConnectionError):  # the parent has finished
        os._exit(0)

"""The parent's end of one helper process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from bushel.core.processes.channel import Channel

__all__ = ["HelperDiedError", "HelperProcess"]

_PATIENCE_SECONDS = 10

# NumPy's linear algebra makes a thread for every processor when it is imported, and each looks for work for 2**26
# ticks before it sleeps: that takes the processors from the helpers' own imports. This is the least it takes.
_SLEEP_AT_ONCE = {"OPENBLAS_THREAD_TIMEOUT": "4"}


class HelperDiedError(RuntimeError):
    """A helper process ended in the midst of its work."""


class HelperProcess:
    """A fresh interpreter that serves this process through a socket.

    It begins with its imports, and until they are done a long message waits to be read: start all helpers before the
    first is told something.

    Args:
        module: Where its work is.
        function: Of that module; called with the descriptor of its end of the socket.
    """

    def __init__(self, module: str, function: str) -> None:
        own, its = socket.socketpair()
        with its:
            # nothing that is imported is garbage, and looking for it takes an eighth of the time until the work begins
            imports = f"gc.disable(); from {module} import {function}; gc.freeze(); gc.enable()"
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    f"import gc, sys; sys.path[:] = {sys.path}; {imports}; {function}({its.fileno()})",
                ],
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                env={**_SLEEP_AT_ONCE, **os.environ},
                process_group=0,  # Ctrl-C is for the parent, which ends its helpers itself
            )
        self._channel = Channel(own)

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def tell(self, message: bytes) -> None:
        """Send a message. A helper that died says so when it is asked."""
        with suppress(ConnectionError):
            self._channel.send(message)

    def receive(self) -> tuple[memoryview, Sequence[int]]:
        """Wait for a message, and the descriptors that came with it.

        Raises:
            HelperDiedError: There will be none.
        """
        try:
            return self._channel.receive()
        except (EOFError, ConnectionError):
            status = self._process.wait()
            how = f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
            raise HelperDiedError(
                f"helper process {self.pid} {how}; if the system was out of memory, use fewer processes or smaller "
                f"batches"
            ) from None

    def close(self) -> None:
        """Tell the helper to end."""
        self._channel.close()

    def join(self) -> None:
        """Wait for its end; it comes at once, unless a library in it will not let go."""
        try:
            self._process.wait(_PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

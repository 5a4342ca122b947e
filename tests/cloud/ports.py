"""Ports of the servers that tests start."""

from __future__ import annotations

import socket
import subprocess
import time


def free_port() -> int:
    """Return a port of this machine that no server uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for_server(process: subprocess.Popen[bytes], port: int) -> None:
    """Wait until a server accepts connections.

    Raises:
        OSError: It has ended, or does not accept any for a minute.
    """
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            return

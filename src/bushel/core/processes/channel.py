"""Messages, with file descriptors attached, over a Unix socket between a process and its helpers."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence

__all__ = ["Channel"]

_LENGTH = struct.Struct("<Q")
_MOST_DESCRIPTORS = 1


class Channel:
    """One end of a connected stream socket. One thread at a time may send, and one may receive."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end

    @classmethod
    def of_descriptor(cls, descriptor: int) -> Channel:
        """Take over a socket given by its descriptor."""
        return cls(socket.socket(fileno=descriptor))

    def send(self, message: bytes, descriptors: Sequence[int] = ()) -> None:
        """Send one message, and duplicates of these descriptors with it.

        Raises:
            OSError: The other end is gone.
        """
        header = _LENGTH.pack(len(message))
        sent = socket.send_fds(self._socket, [header], list(descriptors))
        self._socket.sendall(header[sent:])
        self._socket.sendall(message)

    def receive(self) -> tuple[memoryview, list[int]]:
        """Wait for the next message.

        Raises:
            EOFError: The other end is gone.
        """
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
                raise EOFError("the other end of the channel was closed in mid-message")
            filled += count

    def fileno(self) -> int:
        """The socket's descriptor, to wait for messages."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

"""Streams that are read once, from front to back: files, handles and the output of commands, compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import IO, Any, Protocol, cast

from bushel.errors import FormatError, UnsupportedError

_GZIP, _BZ2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
_DECOMPRESSORS: Sequence[tuple[bytes, str, Callable[[Any], Readable]]] = (
    (_GZIP, "gzip", gzip.open),
    (_BZ2, "bzip2", bz2.open),
    (_XZ, "xz", lzma.open),
)
_PATIENCE = 5.0  # seconds that a command has to end after SIGTERM


class Readable(Protocol):
    """A stream that can be read."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


class _Rejoined:
    """A handle whose first bytes were read already."""

    def __init__(self, head: bytes, handle: Readable) -> None:
        self._head, self._handle = head, handle

    def read(self, size: int, /) -> bytes:
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._handle.read(size)


class _Guarded:
    """A decompressor that raises `FormatError` for damaged data."""

    def __init__(self, handle: Readable, kind: str, name: str) -> None:
        self._handle, self._kind, self._name = handle, kind, name

    def read(self, size: int, /) -> bytes:
        try:
            return self._handle.read(size)
        except EOFError as error:
            raise FormatError(f"the {self._kind} data are truncated", self._name) from error
        except (zlib.error, lzma.LZMAError, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # not of the decompressor
                raise
            message = f"the {self._kind} data are damaged: {error}"
            raise FormatError(message, self._name) from error


def is_compressed(head: bytes) -> bool:
    """Return whether the first bytes of a file (six are enough) are the header of gzip, bzip2, xz or zstd."""
    return head.startswith((_GZIP, _BZ2, _XZ, _ZSTD))


def decompressed(handle: Readable, name: str) -> Readable:
    """Decompress a stream if its first bytes are the header of gzip, bzip2 or xz.

    Reading the result raises `FormatError` if the data are damaged.

    Raises:
        UnsupportedError: The stream is compressed with zstd.
    """
    head = b""
    while len(head) < len(_XZ) and (part := handle.read(len(_XZ) - len(head))):
        head += part
    whole = _Rejoined(head, handle)
    for magic, kind, decompress in _DECOMPRESSORS:
        if head.startswith(magic):
            return _Guarded(decompress(whole), kind, name)
    if head.startswith(_ZSTD):
        raise UnsupportedError(
            f"{name} is compressed with zstd, which Python cannot decompress: run "
            f"`unzstd` on it, or open 'pipe:zstd -dc {name}' with allow_commands=True"
        )
    return whole


@contextmanager
def output_of(command: str | Sequence[str]) -> Iterator[Readable]:
    """Run a shell command, or a program with its arguments, and read what it prints.

    The `with` block waits for the command to end if it has read everything. If an exception leaves
    it, as when a generator is abandoned, it ends the command and the processes that the command
    started.

    Raises:
        FormatError: The command failed; this is raised after its output was read.
        OSError: The shell or the program does not exist.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    output = cast("IO[bytes]", process.stdout)
    try:
        try:
            yield output
        except FormatError as error:
            with suppress(subprocess.TimeoutExpired):  # it still runs: then its output is at fault
                if status := process.wait(1.0):  # the reason for the damaged output
                    raise _failed(command, status) from error
            raise
        if status := process.wait():
            raise _failed(command, status)
    finally:
        output.close()
        end_process(process)


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and the processes that it started: by SIGTERM, then by SIGKILL."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)


def _failed(command: str | Sequence[str], status: int) -> FormatError:
    how = f"failed with exit status {status}"
    if status < 0:
        how = f"was killed by signal {-status}"
    line = command if isinstance(command, str) else " ".join(command)
    return FormatError(f"the command {how}", f"pipe:{line}")

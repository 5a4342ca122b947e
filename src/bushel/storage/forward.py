"""Bytes that come once, from front to back: files read through, open handles, commands; compressed or not."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import signal
import subprocess
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Protocol, cast

from bushel.errors import FormatError, UnsupportedError

__all__ = ["Readable", "decompressed", "end_process", "is_compressed", "output_of"]

_GZIP, _BZ2, _XZ, _ZSTD = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
_PATIENCE = 5.0
"""Seconds that a command has to end after it was asked to."""


class Readable(Protocol):
    """What a stream must be able to do."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes, none at the end."""
        ...


class _Rejoined:
    """A handle of which the first bytes were read already."""

    __slots__ = ("_handle", "_head")

    def __init__(self, head: bytes, handle: Readable) -> None:
        self._head, self._handle = head, handle

    def read(self, size: int, /) -> bytes:
        if self._head:
            part, self._head = self._head[:size], self._head[size:]
            return part
        return self._handle.read(size)


class _Guarded:
    """A decompressor whose complaints become errors of Bushel's."""

    __slots__ = ("_handle", "_kind", "_name")

    def __init__(self, handle: Readable, kind: str, name: str) -> None:
        self._handle, self._kind, self._name = handle, kind, name

    def read(self, size: int, /) -> bytes:
        try:
            return self._handle.read(size)
        except EOFError as error:
            raise FormatError(f"the {self._kind} data end too early: the file was cut", file=self._name) from error
        except (zlib.error, lzma.LZMAError) as error:
            raise FormatError(f"the {self._kind} data are damaged: {error}", file=self._name) from error
        except OSError as error:
            if error.errno is not None:  # of the system, not of the decompressor
                raise
            raise FormatError(f"the {self._kind} data are damaged: {error}", file=self._name) from error


def is_compressed(head: bytes) -> bool:
    """Whether the first bytes of a file (six are enough) are those of gzip, bzip2, xz or zstd."""
    return head.startswith((_GZIP, _BZ2, _XZ, _ZSTD))


def decompressed(handle: Readable, name: str) -> Readable:
    """The content of a stream that may be packed with gzip, bzip2 or xz, which its first bytes tell.

    Args:
        handle: The stream.
        name: What error messages call it. Reading the result raises `FormatError` where the data are damaged.

    Raises:
        UnsupportedError: It is packed with zstd.
    """
    head = b""
    while len(head) < len(_XZ) and (part := handle.read(len(_XZ) - len(head))):
        head += part
    whole = _Rejoined(head, handle)
    if head.startswith(_GZIP):
        return _Guarded(gzip.GzipFile(fileobj=cast("IO[bytes]", whole), mode="rb"), "gzip", name)
    if head.startswith(_BZ2):
        return _Guarded(bz2.BZ2File(cast("IO[bytes]", whole)), "bzip2", name)
    if head.startswith(_XZ):
        return _Guarded(lzma.LZMAFile(cast("IO[bytes]", whole)), "xz", name)
    if head.startswith(_ZSTD):
        raise UnsupportedError(
            f"{name} is packed with zstd, which Python cannot unpack: run `unzstd` on it, or open"
            f" 'pipe:zstd -dc {name}' with allow_commands=True"
        )
    return whole


@contextmanager
def output_of(command: str | Sequence[str]) -> Iterator[Readable]:
    """Run a shell command, or a program with its arguments, and read what it prints.

    A block that has read everything waits for the command to end; one that is left by an exception, as an abandoned
    generator is, ends the command and what it started.

    Raises:
        FormatError: The command has failed, which shows when its output has been read.
        OSError: There is no shell, or no such program.
    """
    words = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
    output = cast("IO[bytes]", process.stdout)
    try:
        try:
            yield output
        except FormatError as error:
            if status := _status_soon(process):  # why the output is damaged
                raise _failed(command, status) from error
            raise
        if status := process.wait():
            raise _failed(command, status)
    finally:
        output.close()
        end_process(process)


def _status_soon(process: subprocess.Popen[bytes]) -> int | None:
    """The exit status, unless the command goes on running: then what it printed is to blame."""
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a session, and what it started: first it is asked, then it is made to."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, how)
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            continue


def _failed(command: str | Sequence[str], status: int) -> FormatError:
    how = f"was ended by signal {-status}" if status < 0 else f"failed with exit status {status}"
    line = command if isinstance(command, str) else " ".join(command)
    return FormatError(f"the command {how}", file=f"pipe:{line}")

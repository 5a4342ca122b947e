"""The holder of a lock: its process and machine, and whether it still runs."""

from __future__ import annotations

import getpass
import json
import os
import shlex
import socket
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType

import msgspec

LEASE_SECONDS = 60.0
"""Seconds without a sign of life after which another machine may take over a lock."""
_LONGEST_COMMAND = 160


class Holder(msgspec.Struct, frozen=True):
    """The process that has a lock.

    Attributes:
        token: A random name of the lock, by which a holder recognises its own.
        run: What the processes that share it write: the fingerprint of a run in parts, or `files`;
            else empty.
        host: Name of the machine.
        machine: The machine's identity, which a restart does not change; empty if unknown.
        boot: Identity of the machine's last start; empty if unknown.
        namespace: The namespace of process numbers, which containers have of their own; empty if
            unknown.
        pid: Number of the process.
        started: Start of the process in clock ticks since the machine started; 0 if unknown.
        user: Name of the user; empty if unknown.
        command: Command line of the process, shortened.
        line: The place in the user's code that opened the writer, such as `train.py:31`; empty if
            unknown.
        since: Time when it was taken, in seconds since 1970 by the holder's clock.
    """

    token: str
    run: str
    host: str
    machine: str
    boot: str
    namespace: str
    pid: int
    started: int
    user: str
    command: str
    line: str
    since: float

    def encode(self) -> bytes:
        """Return the holder as JSON, which `parse` reads."""
        return json.dumps(msgspec.structs.asdict(self), indent=1).encode()


def parse(data: bytes | None) -> Holder | None:
    """Return the holder in a lock; None if the lock is damaged, as after a power cut."""
    try:
        return msgspec.convert(json.loads(data or b""), Holder)  # texts may have surrogates
    except (ValueError, RecursionError):
        return None


def this_process(run: str = "") -> Holder:
    """Return this process as the holder of a new lock."""
    user = ""
    with suppress(OSError, KeyError):  # a container without an entry for its user
        user = getpass.getuser()
    command = shlex.join([os.path.basename(sys.executable or "python"), *sys.argv])
    if sys.argv and os.path.basename(sys.argv[0]) == "bushel":
        command = shlex.join(["bushel", *sys.argv[1:]])
    if len(command) > _LONGEST_COMMAND:
        command = command[: _LONGEST_COMMAND - 1] + "…"
    return Holder(
        os.urandom(8).hex(),
        run,
        *_machine(),
        pid=os.getpid(),
        started=_start_of(os.getpid()) or 0,
        user=user,
        command=command,
        line=_line_of_user(sys._getframe(1)),
        since=time.time(),
    )


def is_gone(holder: Holder, *, locked: bool | None, silent: float) -> bool:
    """Return whether the holder of a lock has ended, so that the lock can be taken over.

    Args:
        holder: The holder of a lock that was not released.
        locked: Whether this process could `flock` the file, which the holder has on this machine
            until it ends; None if the storage has no locks.
        silent: Seconds since the holder last renewed the lock, by the clock of the storage.
    """
    host, machine, boot, namespace = _machine()
    same_host = (holder.host, holder.machine) == (host, machine)
    if holder.boot == boot if boot else same_host:
        if locked:
            return True
        if holder.namespace == namespace and not is_running(holder.pid, holder.started):
            return True
        # without `flock`, a process that lost the network may run on without the lock
        is_locked = locked is False and holder.namespace == namespace
        return not is_locked and silent > LEASE_SECONDS
    restarted = bool(boot and machine) and same_host
    return restarted or silent > LEASE_SECONDS


def is_running(pid: int, started: int) -> bool:
    """Return whether the process with this number and this start is running on this machine."""
    now = _start_of(pid)
    if now is not None:
        return not started or now == started
    if os.path.exists("/proc/self/stat"):
        return False
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)  # of another user
    return True


def describe(holder: Holder | None, target: object) -> str:
    """Return the message of the error for a second writer: who has the lock since when, and what to do.

    Args:
        holder: The holder; None if its lock cannot be read.
        target: Path of the dataset.
    """
    if holder is None:
        return (
            f"{target} is in use by another writer: wait "
            "until that has ended, or write to another path"
        )
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.since))
    holder_machine = holder.host, holder.machine, holder.boot
    if (*holder_machine, holder.namespace, holder.pid) == (*_machine(), os.getpid()):
        where = f" at {holder.line}" if holder.line else ""
        return (
            f"{target} is in use by this process: a writer of it was opened{where}, "
            f"{since}, and is not closed. Call its close(), or open it in a `with` "
            "statement. If no variable refers to it any more, gc.collect() ends it"
        )
    who = f"process {holder.pid} on {holder.host}" + f" of user {holder.user}" * bool(holder.user)
    lost = ""
    if holder_machine != _machine()[:3]:
        lost = (
            f". If that machine is gone, try again {LEASE_SECONDS:.0f} "
            "seconds after it has stopped, not earlier"
        )
    return (
        f"{target} is in use: {who} writes to it since {since} (`{holder.command}`). "
        f"Wait until that has ended, or write to another path{lost}"
    )


@cache
def _machine() -> tuple[str, str, str, str]:
    """Return the name and identity of this machine, that of its last start, and of the namespace of process numbers."""
    identity, boot, namespace = "", "", ""
    with suppress(OSError):
        identity = Path("/etc/machine-id").read_text("ascii", "replace").strip()
    with suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii", "replace").strip()
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return socket.gethostname(), identity, boot, namespace


def _start_of(pid: int) -> int | None:
    """Return the start of a process in clock ticks since this machine started; None if the process does not exist."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    state, *rest = stat[stat.rindex(b")") + 1 :].split()
    if state in (b"Z", b"X"):
        return None
    return int(rest[18])


def _line_of_user(frame: FrameType | None) -> str:
    """Return the nearest line of code outside Bushel that led here."""
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "bushel":
        frame = frame.f_back
    if frame is None:
        return ""
    name, line = frame.f_code.co_filename, frame.f_lineno
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    cell = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(name)
    if cell:
        return f"{' '.join(cell)}, line {line}"
    return f"{name}:{line}"

"""The library `shim.c`: compile it, start programs with it, and switch it on in them.

`start` runs a module of this folder with the library. There, `Shim` is its handle.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.paths import ROOT

__all__ = ["CALLS", "Shim", "compiler", "ran_with_library", "shim_library", "start"]

_SOURCE = Path(__file__).with_name("shim.c")

CALLS = {"open": 1, "read": 2, "write": 4, "sync": 8, "names": 16, "stat": 32, "create": 64}
"""Kinds of calls that `Shim.fail` knows. `create` opens files for writing; `names` are rename, link, unlink, mkdir and
rmdir."""


def compiler() -> str | None:
    """Return the C compiler, or None if there is none or this is not Linux."""
    return shutil.which(os.environ.get("CC", "cc")) if sys.platform == "linux" else None


def shim_library() -> Path:
    """Compile `shim.c` if it has changed, and return the library."""
    digest = hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]
    target = ROOT / "build" / f"shim-{digest}.so"
    if not target.exists():
        target.parent.mkdir(exist_ok=True)
        partial = target.with_name(f"{target.name}.{os.getpid()}")
        options = ["-O1", "-g", "-Wall", "-Wextra", "-fPIC", "-shared"]
        subprocess.run([compiler() or "cc", *options, "-o", partial, _SOURCE, "-ldl", "-lpthread"], check=True)
        partial.rename(target)
    return target


def start(module: str, *arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    """Run a module of the tests in a process with the library, and wait for it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    environment |= {"LD_PRELOAD": str(shim_library()), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False, timeout=timeout
    )


def ran_with_library(module: str, arguments: Sequence[str] | None) -> int | None:
    """Run the module in a process with the library and return its exit code; None if this process has the library."""
    if "LD_PRELOAD" in os.environ:
        return None
    done = start(module, *(sys.argv[1:] if arguments is None else arguments))
    print(done.stdout, end="")
    return done.returncode


class Shim:
    """The library in this process, which `start` has preloaded."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        try:
            self._library.shim_changes.restype = ctypes.c_long
        except AttributeError:
            raise SystemExit("run this with LD_PRELOAD, as tests.faults.shim.start does") from None

    def log(self, folder: Path, log: Path, kill_at: int = 0) -> None:
        """Log changes below a folder, and kill this process before change number `kill_at` (0: never)."""
        self._library.shim_log(os.fsencode(folder.resolve()), os.fsencode(log), ctypes.c_long(kill_at))

    def stop(self, change: int) -> None:
        """Stop this process before change number `change` since `log`, until another one continues it."""
        self._library.shim_stop(ctypes.c_long(change))

    @property
    def changes(self) -> int:
        """Number of changes since `log`."""
        return int(self._library.shim_changes())

    def fail(self, calls: str, error: int, folder: Path, *, after: int = 0, times: int = -1) -> None:
        """Let calls on files below a folder fail with an error number: `times` of them (-1: all), after some."""
        kinds = sum(CALLS[call] for call in calls.split())
        place = os.fsencode(folder.resolve())
        self._library.shim_fail(kinds, error, ctypes.c_long(after), ctypes.c_long(times), place)

    def set_clock_back(self, seconds: int, *, after: int = 0) -> None:
        """Set the clock back after it was read some times."""
        self._library.shim_clock(ctypes.c_long(after), ctypes.c_long(seconds))

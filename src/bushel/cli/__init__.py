"""The command line: `app` lists the commands, and each module holds the commands of one purpose."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process.

    Exit codes: 0 success, 1 problems in the data, 2 wrong use or an error of the system, 130
    stopped by Ctrl-C.
    """
    # OpenBLAS starts a thread for each processor when NumPy is imported, and they wait busily:
    # nothing here needs them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    _collect_later()
    if sys.stdout is None:  # it was closed, as by `>&-`
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    try:
        from .app import app

        app(prog_name="bushel")
    except KeyboardInterrupt:  # before a command runs
        raise SystemExit(130) from None
    except OSError as error:  # of the text of --help or --version
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes at exit
        sys.stderr.write(f"bushel: standard output: {error.strerror}\n")
        raise SystemExit(2) from None
    finally:
        # the interpreter looks for cycles once more when it ends, among all that was imported
        gc.freeze()


def _collect_later() -> None:
    """Let the first garbage collection wait until most is imported, and later ones leave that out."""
    usual = gc.get_threshold()

    def restore(phase: str, info: dict[str, Any]) -> None:
        if phase == "stop":
            gc.callbacks.remove(restore)
            gc.set_threshold(*usual)
            gc.freeze()

    gc.set_threshold(80_000, *usual[1:])
    gc.callbacks.append(restore)

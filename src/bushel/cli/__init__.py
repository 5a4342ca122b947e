"""The command line, one file per command."""

from __future__ import annotations

import os

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process.

    Exit codes: 0 success, 1 problems in the data, 2 wrong use or an error of the system, 130 stopped by Ctrl-C.
    """
    # OpenBLAS starts a thread for each processor when NumPy is imported, and they wait busily: nothing here needs them.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from bushel.cli.app import app

        app(prog_name="bushel")
    except KeyboardInterrupt:  # before a command runs
        raise SystemExit(130) from None

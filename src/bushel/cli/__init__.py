"""The command line: `bushel convert`, `bushel verify` and so on, one file per command."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """Run the command line and end the process.

    Exit codes: 0 fine, 1 problems found in the data, 2 wrong use (or the system refused), 130 stopped by Ctrl-C.
    """
    try:
        from bushel.cli.app import app

        app(prog_name="bushel")
    except KeyboardInterrupt:  # before a command was running
        raise SystemExit(130) from None

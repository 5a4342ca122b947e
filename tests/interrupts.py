"""Programs that tests interrupt."""

from __future__ import annotations

import os

__all__ = ["interruptible"]


def interruptible() -> dict[str, str]:
    """Return the environment for a program that a test interrupts with SIGINT.

    Its coverage is not measured: the tracer of coverage.py holds a plain lock now and then, and a KeyboardInterrupt in
    that moment leaves it held for ever.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}

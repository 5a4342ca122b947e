"""Programs that tests interrupt."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.paths import ROOT

__all__ = ["interruptible", "started"]


def interruptible() -> dict[str, str]:
    """Return the environment for a program that a test interrupts with SIGINT.

    Its coverage is not measured: the tracer of coverage.py holds a plain lock now and then, and a KeyboardInterrupt in
    that moment leaves it held forever.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}


def started(program: str) -> subprocess.Popen[str]:
    """Start a program that a test interrupts, and wait until it prints "going"."""
    pipe = subprocess.PIPE
    child = subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=pipe, stderr=pipe, text=True, env=interruptible()
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "going\n"
    return child

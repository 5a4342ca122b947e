"""A plugin for pytest: imports of an original package get its drop-in, and the outcome of every test is written down.

``original_suites.py`` starts pytest with ``-p mapped_imports`` and these variables in the environment:

    MAPPED_IMPORTS     JSON, {"webdataset": "bushel.compat.webdataset", …}; submodules are mapped too
    RECORDED_OUTCOMES  path of the JSON to write, {"tests/test_x.py::test_y": "passed", …}
    SECONDS_PER_TEST   a test that takes longer has failed
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import map_imports  # noqa: F401 it maps the imports
import pytest

OUTCOMES: dict[str, str] = {}
SECONDS = float(os.environ.get("SECONDS_PER_TEST", "0"))
WORSE = ("passed", "skipped", "failed", "error")
"""A test has a report for each of its phases; the worst one counts."""


def _too_long(signum: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"the test took longer than {SECONDS} seconds")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End a test that hangs."""
    before = signal.signal(signal.SIGALRM, _too_long)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _note(nodeid: str, outcome: str) -> None:
    OUTCOMES[nodeid] = max(OUTCOMES.get(nodeid, "passed"), outcome, key=WORSE.index)


def pytest_runtest_logreport(report: Any) -> None:
    """Note the outcome of one phase of a test."""
    _note(report.nodeid, "error" if report.failed and report.when != "call" else report.outcome)


def pytest_collectreport(report: Any) -> None:
    """Note a module that cannot be imported."""
    if report.failed:
        _note(report.nodeid, "error")


def pytest_sessionfinish() -> None:
    """Write the outcomes."""
    Path(os.environ["RECORDED_OUTCOMES"]).write_text(json.dumps(OUTCOMES), encoding="utf-8")

"""A plugin for pytest: imports of an original package get its drop-in, and the outcome of every test is written down.

``original_suites.py`` starts pytest with ``-p mapped_imports`` and these variables in the environment:

    MAPPED_IMPORTS     JSON, {"webdataset": "bushel.compat.webdataset", …}; submodules are mapped too
    RECORDED_OUTCOMES  path of the JSON to write, {"tests/test_x.py::test_y": "passed", …}
    SECONDS_PER_TEST   a test that takes longer has failed
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest

MAPPED: dict[str, str] = json.loads(os.environ.get("MAPPED_IMPORTS", "{}"))
OUTCOMES: dict[str, str] = {}
SECONDS = float(os.environ.get("SECONDS_PER_TEST", "0"))
WORSE = ("passed", "skipped", "failed", "error")
"""A test has a report for each of its phases; the worst one counts."""


class MappedImports(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a module of an original in the drop-in. The module is the drop-in's own, not a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return a spec if ``fullname`` is of a mapped package and the drop-in has such a module."""
        there = self._there(fullname)
        if there is None or importlib.util.find_spec(there) is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def exec_module(self, module: ModuleType) -> None:
        """Put the drop-in's module where the import looks for the result."""
        there = self._there(module.__name__)
        if there is not None:
            sys.modules[module.__name__] = importlib.import_module(there)

    def _there(self, fullname: str) -> str | None:
        for name in (fullname, fullname.partition(".")[0]):
            if name in MAPPED:
                return MAPPED[name] + fullname[len(name) :]
        return None


sys.meta_path.insert(0, MappedImports())


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

"""A plugin that notes which tests were skipped: they are run again where the packages that they need are there.

`pytest -p tests.skipped_tests` writes their names into `build/skipped_tests.txt`, one a line; a file that was skipped
whole is named by its path.
"""

from __future__ import annotations

from pathlib import Path

import pytest

PLACE = Path(__file__).parents[1] / "build" / "skipped_tests.txt"

_skipped = dict[str, None]()


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _skipped[report.nodeid] = None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _skipped[report.nodeid] = None


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workerinput"):
        return  # the process that started this one hears of its tests
    PLACE.parent.mkdir(exist_ok=True)
    PLACE.write_text("".join(f"{name}\n" for name in _skipped), "utf-8")

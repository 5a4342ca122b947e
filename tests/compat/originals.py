"""The environments with the original packages, in which their code is run for comparison."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from tests.paths import ROOT

INTEROP = ROOT / "interop"


def python_of(environment: str) -> Path:
    """Return the Python interpreter of an environment, such as `webdataset`. Without it, the test is skipped."""
    environments = runpy.run_path(str(INTEROP / "environments.py"))
    if not environments["is_current"](environment):
        pytest.skip(f"no up-to-date environment {environment}: run `make interop-env`")
    python: Path = environments["python_of"](environment)
    return python

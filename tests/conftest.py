"""What all tests share: where the sample data is, when it is there."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"

# The same examples every time, so that a change is judged by what it changes; new ones are for the night. How long they
# take to make says what else the machine is doing.
settings.register_profile(
    "default", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("nightly", deadline=None, max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Shells have what they run in the background ignore interrupts, and it would pass that on to the programs under test.
signal.signal(signal.SIGINT, signal.default_int_handler)


def _folder(name: str) -> Path:
    folder = SHARED / name
    if not folder.is_dir():
        pytest.skip(f"the sample data is not here ({name})")
    return folder


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the datasets written by the original packages, since opening one may leave an index beside it."""
    copy = tmp_path_factory.mktemp("shared") / "golden"
    shutil.copytree(_folder("golden"), copy)
    for folder in (copy, *copy.rglob("*/")):
        folder.chmod(0o755)
    return copy


@pytest.fixture(scope="session")
def photos() -> Path:
    """Real photos in folders, one per class."""
    return _folder("photos")


@pytest.fixture(scope="session")
def videos() -> Path:
    """Real video clips."""
    return _folder("videos")

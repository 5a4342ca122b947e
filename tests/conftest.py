"""What all tests share: where the sample data is, when it is there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).resolve().parents[1].parent / "shared" / "data"

settings.register_profile("default", deadline=None, max_examples=50)
settings.register_profile("nightly", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


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

"""Folders of the repository and of test data."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

GOLDEN = ROOT / "tests" / "golden"
"""Datasets written by the original packages, described in their README.md."""

SAMPLE_DATA = ROOT.parent / "shared" / "data"
"""Photos and videos, which are not part of the repository; tests that need them are skipped without."""


@contextmanager
def folder_on_disk() -> Iterator[Path]:
    """Yield a temporary folder for tests of direct reads and of the page cache: other tests may write to memory."""
    with tempfile.TemporaryDirectory(prefix="bushel-test-", dir="/var/tmp") as folder:
        yield Path(folder)


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """Yield a temporary folder of a file system in memory; skip the test where the system has none."""
    if not Path("/dev/shm").is_dir():
        pytest.skip("the system has no file system in memory here")
    with tempfile.TemporaryDirectory(prefix="bushel-test-", dir="/dev/shm") as folder:
        yield Path(folder)

"""Folders of test data."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).resolve().parent / "golden"
"""Datasets written by the original packages, described in their README.md."""

SAMPLE_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Photos and videos, which are not part of the repository; tests that need them are skipped without."""

"""Folders of the repository and of test data."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

GOLDEN = ROOT / "tests" / "golden"
"""Datasets written by the original packages, described in their README.md."""

SAMPLE_DATA = ROOT.parent / "shared" / "data"
"""Photos and videos, which are not part of the repository; tests that need them are skipped without."""

"""Pages of the viewer do not end early because the machine does much else."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _patient_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for pages in ("compare_pages", "quality_pages"):
        monkeypatch.setattr(f"bushel.viewer.{pages}._SECONDS", 60.0)

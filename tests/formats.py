"""The formats that datasets are written in: every container, and a bag in both generations."""

from __future__ import annotations

from typing import Literal

import pytest

__all__ = ["FORMATS", "FORMAT_NAMES", "each_format"]

FORMATS: tuple[tuple[str, Literal["B", "C"] | None], ...] = (
    ("bag", "B"),
    ("bag", "C"),
    ("tar", None),
    ("ffrecord", None),
    ("gulp", None),
    ("recordio", None),
)
"""Container and generation."""

FORMAT_NAMES = [f"{container}{generation or ''}" for container, generation in FORMATS]

each_format = pytest.mark.parametrize(("container", "generation"), FORMATS, ids=FORMAT_NAMES)
"""Runs a test with `container` and `generation` of each format."""

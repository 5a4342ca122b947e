"""Every container that is packed into."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

import bushel

CASES: list[tuple[str, Literal["B", "C"] | None]] = [
    ("bag", "B"),
    ("bag", "C"),
    ("tar", None),
    ("ffrecord", None),
    ("gulp", None),
    ("recordio", None),
]


each = pytest.mark.parametrize(("container", "generation"), CASES, ids=[f"{c}{g or ''}" for c, g in CASES])


def opened(path: Path | str, *, partial: bool = False) -> bushel.Dataset:
    return bushel.open(path, verify=True, partial=partial)

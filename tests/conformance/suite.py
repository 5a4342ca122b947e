"""The checks of a container that is written, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.conformance import concurrency, damage, kills, reading, writing
from tests.conformance.target import Target

from bushel.testing import InapplicableError

CONTAINER_CHECKS: Mapping[str, Callable[[Target], None]] = {
    name.removeprefix("check_"): getattr(module, name)
    for module in (writing, reading, damage, concurrency, kills)
    for name in vars(module)
    if name.startswith("check_")
}
"""Checks by name. A check raises `InapplicableError` if the container lacks the feature that it tests."""


def check_container(container: str, folder: Path, *, generation: str | None = None, seed: int = 0) -> list[str]:
    """Check a container in an empty folder, and return the names of the checks that did not apply."""
    skipped = []
    for name, check in CONTAINER_CHECKS.items():
        folder_of_check = folder / name
        folder_of_check.mkdir()
        try:
            check(Target(container, folder_of_check, generation, seed))
        except InapplicableError:
            skipped.append(name)
    return skipped

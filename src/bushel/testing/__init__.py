"""The conformance suite for containers, codecs, sources and storage back-ends.

It does not need pytest. A failing check raises a `ConformanceError` with what was expected and what was found:

    from bushel.testing import check_container
    check_container("tar", tmp_path)

To run every check as a test of its own:

    @pytest.mark.parametrize("name", CONTAINER_CHECKS)
    def test_container(name, tmp_path):
        CONTAINER_CHECKS[name](Target("tar", tmp_path))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from bushel.testing import concurrency, damage, kills, reading, writing
from bushel.testing.codecs import check_codec
from bushel.testing.engines import check_engine
from bushel.testing.expect import ConformanceError, InapplicableError
from bushel.testing.sources import check_source
from bushel.testing.storage import check_storage
from bushel.testing.target import Target

__all__ = [
    "CONTAINER_CHECKS",
    "ConformanceError",
    "InapplicableError",
    "Target",
    "check_codec",
    "check_container",
    "check_engine",
    "check_source",
    "check_storage",
]

CONTAINER_CHECKS: Mapping[str, Callable[[Target], None]] = {
    name.removeprefix("check_"): getattr(module, name)
    for module in (writing, reading, damage, concurrency, kills)
    for name in module.__all__
    if name.startswith("check_")
}
"""Checks by name. A check raises `InapplicableError` if the container lacks the feature that it tests."""


def check_container(container: str, folder: Path, *, generation: str | None = None, seed: int = 0) -> list[str]:
    """Check a container.

    Args:
        container: Name of the container, as `bushel.Writer` takes it.
        folder: An empty folder that the checks write to.
        generation: Generation of a bag.
        seed: Seed of the random specs and samples.

    Returns:
        The names of the checks that did not apply.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.testing import check_container
        >>> Path("empty").mkdir()
        >>> check_container("recordio", Path("empty"))  # the checks that did not apply
        []
    """
    skipped = []
    for name, check in CONTAINER_CHECKS.items():
        own = folder / name
        own.mkdir()
        try:
            check(Target(container, own, generation, seed))
        except InapplicableError:
            skipped.append(name)
    return skipped

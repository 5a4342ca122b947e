"""The conformance suite: what a container, a codec, a source or a storage back-end must hold.

It needs no pytest. A check that fails raises a `ConformanceError` that says what was expected and what was found:

    from bushel.testing import check_container
    check_container("tar", tmp_path)

To see every check as a test of its own:

    @pytest.mark.parametrize("name", CONTAINER_CHECKS)
    def test_container(name, tmp_path):
        CONTAINER_CHECKS[name](Target("tar", tmp_path))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from bushel.testing import concurrency, damage, kills, reading, writing
from bushel.testing.codecs import check_codec
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
    "check_source",
    "check_storage",
]

CONTAINER_CHECKS: Mapping[str, Callable[[Target], None]] = {
    name.removeprefix("check_"): getattr(module, name)
    for module in (writing, reading, damage, concurrency, kills)
    for name in module.__all__
    if name.startswith("check_")
}
"""Name to check. A check raises `InapplicableError` where the container has not got what it asks for."""


def check_container(container: str, folder: Path, *, generation: str | None = None, seed: int = 0) -> list[str]:
    """Check a container.

    Args:
        container: Its name, as `bushel.Writer` takes it.
        folder: An empty folder for what the checks write.
        generation: Of a bag.
        seed: Another seed checks with other specs and samples.

    Returns:
        The names of the checks that did not apply.

    Raises:
        ConformanceError: It does not hold what it must.
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

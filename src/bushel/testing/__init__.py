"""The conformance suite for containers, codecs, sources and storage back-ends.

It does not need pytest. A failing check raises a `ConformanceError` with the expected and the found
value:

    from bushel.testing import Golden, check_container, check_readable
    check_container("tar", tmp_path)
    check_readable("shelf", Golden(Path("words.shelf"), [{"text": "one"}, {"text": "two"}], ["a",
    "b"]))

To run every check as a test of its own:

    @pytest.mark.parametrize("name", CONTAINER_CHECKS)
    def test_container(name, tmp_path):
        CONTAINER_CHECKS[name](Target("tar", tmp_path))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from bushel.testing import concurrency, damage, kills, readable, reading, writing
from bushel.testing.codecs import check_codec
from bushel.testing.devices import CpuDeviceDecoder, check_device_decoder
from bushel.testing.engines import check_engine
from bushel.testing.expect import ConformanceError, InapplicableError
from bushel.testing.readable import Golden, Readable
from bushel.testing.sources import check_source
from bushel.testing.storage import check_storage
from bushel.testing.target import Target

__all__ = [
    "CONTAINER_CHECKS",
    "READABLE_CHECKS",
    "ConformanceError",
    "CpuDeviceDecoder",
    "Golden",
    "InapplicableError",
    "Readable",
    "Target",
    "check_codec",
    "check_container",
    "check_device_decoder",
    "check_engine",
    "check_readable",
    "check_source",
    "check_storage",
]

CONTAINER_CHECKS: Mapping[str, Callable[[Target], None]] = {
    name.removeprefix("check_"): getattr(module, name)
    for module in (writing, reading, damage, concurrency, kills)
    for name in vars(module)
    if name.startswith("check_")
}
"""Checks by name. A check raises `InapplicableError` if the container lacks the feature that it tests."""

READABLE_CHECKS: Mapping[str, Callable[[Readable], None]] = {
    name.removeprefix("check_"): getattr(readable, name)
    for name in vars(readable)
    if name.startswith("check_")
}
"""Checks of containers that are only read, by name."""


def check_container(
    container: str, folder: Path, *, generation: str | None = None, seed: int = 0
) -> list[str]:
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
        folder_of_check = folder / name
        folder_of_check.mkdir()
        try:
            check(Target(container, folder_of_check, generation, seed))
        except InapplicableError:
            skipped.append(name)
    return skipped


def check_readable(container: str, golden: Golden) -> list[str]:
    """Check a container that is read, whether or not Bushel writes it, by a dataset of its original tool.

    Recognition, tables, values at random, verifying, epochs, pickling, conversion and damage are
    checked, on copies of the dataset in a temporary folder.

    Args:
        container: Name of the container.
        golden: The dataset, and what must come out of it.

    Returns:
        The names of the checks that did not apply.

    Raises:
        ConformanceError: A check failed.

    Examples:
        >>> from bushel.testing import Golden, check_readable
        >>> with bushel.Writer("words.ffr", {"data": "bytes"}) as writer:
        ...     numbers = writer.append({"data": b"one"}), writer.append({"data": b"two"})
        >>> check_readable("ffrecord", Golden(Path("words.ffr"), [{"data": b"one"}, {"data": b"two"}]))
        []
    """
    skipped = []
    for name, check in READABLE_CHECKS.items():
        with TemporaryDirectory(prefix="bushel-check-") as folder:
            try:
                check(Readable(container, golden, Path(folder)))
            except InapplicableError:
                skipped.append(name)
    return skipped

"""Two writers of one target, and files that change under a reader."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from tests._dataset.views.models import CONTAINERS
from tests.faults.race import TARGETS
from tests.faults.shim import compiler, start

import bushel

SPEC = {"data": "bytes", "label": "int"}
SOME = settings().max_examples // 8
"""How many interleavings of two writers run by day; at night, all of them, too."""


@pytest.mark.skipif(compiler() is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize("container", CONTAINERS)
def test_interleaved_writers_leave_what_one_after_the_other_leaves(container: str) -> None:
    targets = ",".join(target for target in TARGETS if target.partition(".")[0] == container)
    done = start("tests.faults.race", "--count", str(SOME), "--targets", targets, timeout=600)
    assert done.returncode == 0, done.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("target", TARGETS)
def test_writers_interleaved_at_every_change(target: str) -> None:
    done = start("tests.faults.race", "--targets", target, timeout=7200)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("touched", [False, True], ids=["not yet open", "open"])
@pytest.mark.parametrize("size", [5000, 4000, 6000])
def test_a_file_that_is_replaced(tmp_path: Path, container: str, touched: bool, size: int) -> None:
    for name, value in (("old", b"o" * 5000), ("new", b"n" * size)):
        with bushel.Writer(tmp_path / name, SPEC, container=container, shard_samples=10, sync=False) as writer:
            for number in range(20):
                writer.append({"data": value, "label": number}, key=f"k{number}")
    dataset = bushel.open(tmp_path / "old")
    if touched:
        dataset.read([0, 15])
    for path in sorted((tmp_path / "new").rglob("*")):
        if path.is_file() and ".bushel" not in path.parts:
            os.replace(path, tmp_path / "old" / path.relative_to(tmp_path / "new"))
    if touched:  # the files that it has open are still there
        assert {bytes(sample["data"]) for sample in dataset} == {b"o" * 5000}
        return
    for number in range(20):
        with pytest.raises(bushel.errors.FormatError, match="changed"):
            dataset.read([number])

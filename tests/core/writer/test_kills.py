"""Writers killed at many random moments, also while they finish shards: the files come out as if nothing had been."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.core.models import CONTAINERS
from tests.core.writer.killed_writer import SUFFIX
from tests.paths import ROOT


def check(folder: Path, container: str, form: str, trials: int, seed: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.core.writer.killed_writer",
        str(folder),
        container,
        form,
        str(trials),
        str(seed),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= trials, "hardly anything was killed"


@pytest.mark.parametrize("container", CONTAINERS)
def test_kills_of_a_writer_of_many_shards(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "shards", trials=4, seed=0)


@pytest.mark.parametrize("container", list(SUFFIX))
def test_kills_of_a_writer_that_continues_one_file(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "single", trials=4, seed=0)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_kills_of_a_writer_of_small_records(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "records", trials=4, seed=0)


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["shards", "single", "records"])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_more_kills(tmp_path: Path, container: str, form: str, seed: int) -> None:
    if (form == "single" and container not in SUFFIX) or (form == "records" and container == "gulp"):
        pytest.skip("this container has no such datasets")
    check(tmp_path, container, form, trials=60, seed=seed)

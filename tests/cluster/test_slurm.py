"""The real Slurm on this machine: `make cluster` starts it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests._pack.pack_sources import files_of
from tests.cluster.slurm import finished, use_slurm, wait_for
from tests.sources.folders import image_folder

import bushel

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_slurm(monkeypatch, tmp_path)


def submit(*arguments: object) -> str:
    command = [sys.executable, "-m", "bushel", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("container", ["tar", "recordio"])
def test_an_array_and_the_job_that_joins_it(tmp_path: Path, container: str) -> None:
    photos, out = image_folder(tmp_path / "photos", 30), tmp_path / "out"
    said = submit("pack", photos, out, "-c", container, "--parts", 6, "--engine", "slurm", "--sbatch", "--mem=0")
    assert "submitted 6 of 6 parts to Slurm" in said
    wait_for(lambda: finished(out))
    bushel.pack(photos, tmp_path / "one", container=container, parts=6)
    assert files_of(out) == files_of(tmp_path / "one")
    assert list(bushel.open(out).keys) == list(bushel.open(tmp_path / "one").keys)


def test_missing_parts_are_submitted_again(tmp_path: Path) -> None:
    photos, out = image_folder(tmp_path / "photos", 30), tmp_path / "out"
    command = ("pack", photos, out, "-c", "tar", "--parts", 4, "--engine", "slurm")
    jobs = submit(*command, "--sbatch", "--begin=now+5").rsplit(": ", 1)[1].split(", ")
    subprocess.run(["scancel", f"{jobs[0]}_1", f"{jobs[0]}_3"], check=True)
    wait_for(lambda: finished(out))
    bushel.pack(photos, tmp_path / "one", container="tar", parts=4)
    assert files_of(out) == files_of(tmp_path / "one")

"""The real Slurm on this machine: `make cluster` starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.pack_sources import files_of
from tests.paths import ROOT
from tests.sources.folders import image_folder

import bushel
from bushel.ingest.run_folder import find_run

pytestmark = pytest.mark.cluster

PATIENCE_SECONDS = 180


@pytest.fixture(autouse=True)
def _slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if shutil.which("sbatch") is None:
        pytest.skip("Slurm is not installed")
    said = subprocess.run([ROOT / "scripts/cluster.sh", "env"], check=True, capture_output=True, text=True).stdout
    monkeypatch.setenv("SLURM_CONF", said.strip().partition("=")[2])
    if subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
        pytest.skip("Slurm does not run: `make cluster` starts it")
    monkeypatch.chdir(tmp_path)


def submit(*arguments: object) -> str:
    command = [sys.executable, "-m", "bushel", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        queue = subprocess.run(["squeue"], capture_output=True, text=True, check=False).stdout
        logs = "".join(path.read_text() for path in Path().glob("slurm-*.out"))
        assert time.monotonic() < end, f"the run has not finished:\n{queue}\n{logs}"
        time.sleep(0.5)


def finished(out: Path) -> bool:
    return find_run(out)[0].load_result() is not None


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
    command = ("pack", photos, out, "-c", "tar", "--parts", 4, "--engine", "slurm", "--retries", 2)
    jobs = submit(*command, "--sbatch", "--begin=now+5").rsplit(": ", 1)[1].split(", ")
    subprocess.run(["scancel", f"{jobs[0]}_1", f"{jobs[0]}_3"], check=True)
    wait_for(lambda: finished(out))
    bushel.pack(photos, tmp_path / "one", container="tar", parts=4)
    assert files_of(out) == files_of(tmp_path / "one")
    assert os.listdir(out / ".bushel/run/parts") != []

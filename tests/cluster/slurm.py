"""The real Slurm on this machine, for tests: `make cluster` starts it."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.paths import ROOT

from bushel._pack.run_folder import find_run

__all__ = ["finished", "use_slurm", "wait_for"]

PATIENCE_SECONDS = 180
# before a fixture gives the tests a folder of their own for temporary files
_ENVIRONMENT = os.environ.copy()


def use_slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Use the Slurm that `make cluster` has started, from this folder."""
    if shutil.which("sbatch") is None:
        pytest.skip("Slurm is not installed")
    command: list[str | Path] = [ROOT / "scripts/cluster.sh", "env"]
    said = subprocess.run(command, check=True, capture_output=True, text=True, env=_ENVIRONMENT).stdout
    monkeypatch.setenv("SLURM_CONF", said.strip().partition("=")[2])
    if subprocess.run(["sinfo"], capture_output=True, check=False).returncode:
        pytest.skip("Slurm does not run: `make cluster` starts it")
    monkeypatch.chdir(tmp_path)


def wait_for(done: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not done():
        queue = subprocess.run(["squeue"], capture_output=True, text=True, check=False).stdout
        logs = "".join(path.read_text() for path in Path().glob("slurm-*.out"))
        assert time.monotonic() < end, f"the run has not finished:\n{queue}\n{logs}"
        time.sleep(0.5)


def finished(out: Path | str) -> bool:
    return find_run(out)[0].load_result() is not None

"""The training examples, run as a user runs them, where their libraries are installed."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.paths import ROOT

EXAMPLES = ROOT / "examples"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")


def run(*arguments: str | Path) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def loss_of(output: str) -> str:
    [line] = [line for line in output.splitlines() if line.startswith("loss")]
    return line


@needs_torch
def test_a_torch_loop_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    script = EXAMPLES / "train_torch.py"
    whole = run(script, tmp_path / "whole")
    assert "stopped after step 13" in run(script, tmp_path / "cut", "--stop-after", "13")
    resumed = run(script, tmp_path / "cut")
    assert "going on at step 10, in epoch 0" in resumed
    assert loss_of(resumed) == loss_of(whole)
    assert "samples/s" in whole


@needs_jax
def test_a_jax_loop_learns(tmp_path: Path) -> None:
    output = run(EXAMPLES / "train_jax.py", tmp_path)
    losses = [float(found) for found in re.findall(r"mean loss ([0-9.]+) over 16 steps", output)]
    assert len(losses) == 2
    assert losses[1] < losses[0]


@needs_torch
def test_two_ranks_see_every_sample(tmp_path: Path) -> None:
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    output = run(*launch, EXAMPLES / "train_ddp.py", tmp_path)
    assert output.count("512 different samples; by rank 256, 256") == 2

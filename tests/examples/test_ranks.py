"""The commands of docs/frameworks.md: two processes of each framework are killed in mid-epoch, resumed, and audited."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.docs.pages import blocks, commands_of
from tests.paths import ROOT

import bushel
from bushel.audit import examine, record

PAGE = "docs/frameworks.md"
VARIABLES = {name: text for name, text in os.environ.items() if not name.startswith(("SLURM", "RANK", "WORLD_SIZE"))}
SLURM = {
    **VARIABLES,
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NTASKS_PER_NODE"), "2"),
    **dict.fromkeys(("SLURM_JOB_ID", "SLURM_NNODES"), "1"),
    **{"SLURM_JOB_NAME": "train", "SLURM_NODELIST": "localhost", "SLURM_NODEID": "0", "MASTER_ADDR": "127.0.0.1"},
}
"""What `srun --ntasks 2` sets in all of its processes."""


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def train(example: str, *options: str, slurm: bool = False, dies: bool = False) -> str:
    """Run the page's commands that start an example, all at the same time, and return what they print."""
    [block] = [block for block in blocks(PAGE, "sh") if f"examples/{example}.py" in block]
    text = block.replace("localhost:9876", f"localhost:{free_port()}").replace("examples/", f"{ROOT}/examples/")
    *starts, audit = commands_of(text.replace("torchrun ", "python -m torch.distributed.run --standalone "))
    assert audit == "bushel audit run/seen --of run/shapes"
    environments = [VARIABLES] * len(starts)
    if slurm:
        common = {**SLURM, "MASTER_PORT": free_port()}
        starts, environments = starts * 2, [{**common, "SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in "01"]
    processes = [
        subprocess.Popen(
            [sys.executable, *shlex.split(command.removesuffix("&"))[1:], *options],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for command, environment in zip(starts, environments, strict=True)
    ]
    outputs = "\n".join(process.communicate(timeout=400)[0] for process in processes)
    assert all((process.returncode != 0) == dies for process in processes), outputs
    return outputs


@pytest.mark.parametrize(
    ("example", "package", "batch_size", "options", "slurm"),
    [
        pytest.param("train_ddp", "torch", 16, [], False, id="torchrun"),
        pytest.param("train_lightning", "lightning", 32, [], False, id="lightning"),
        pytest.param("train_lightning", "lightning", 32, ["--strategy", "ddp_spawn"], False, id="lightning-ddp_spawn"),
        pytest.param("train_lightning", "lightning", 32, [], True, id="lightning-slurm"),
        pytest.param("train_accelerate", "accelerate", 32, [], False, id="accelerate"),
        pytest.param("train_jax", "jax", 16, [], False, id="jax"),
    ],
)
def test_two_processes_are_killed_and_resume(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    example: str,
    package: str,
    batch_size: int,
    options: list[str],
    slurm: bool,
) -> None:
    """Every sample comes once per epoch over both ranks, at the step of a run that nobody disturbed."""
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    monkeypatch.chdir(tmp_path)
    train(example, *options, "--die-after", "7", slurm=slurm, dies=True)
    train(example, *options, slurm=slurm)
    assert Path("run/seen/epoch0000-step00000005-rank00001-of-00002.audit").exists()
    ds = bushel.open("run/shapes")
    for rank in (0, 1):
        loader = bushel.Loader(ds, batch_size, shuffle=True, seed=0, fields=["label"], rank=rank, world_size=2)
        for epoch in (0, 1):
            list(record(loader, "undisturbed", epoch=epoch, rank=rank, world_size=2))
    report = str(examine("run/seen", keys=ds.keys, against="undisturbed"))
    for epoch in (0, 1):
        assert f"epoch {epoch}: {256 // batch_size} steps, 512 samples, each of them once" in report
    assert report.endswith("no problems"), report


def test_a_killed_run_resumes_with_one_rank_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    train("train_ddp", "--epochs", "1", "--die-after", "7", dies=True)
    program = [f"{ROOT}/examples/train_ddp.py", "run", "--record", "run/seen", "--epochs", "1"]
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
    output = subprocess.run([*launch, *program], capture_output=True, text=True, check=True).stdout
    assert "going on at step 5, in epoch 0" in output
    report = str(examine("run/seen", keys=bushel.open("run/shapes").keys))
    assert report.endswith("no problems"), report

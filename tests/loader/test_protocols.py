"""Lightning and Accelerate, where they are installed, save and restore a loader with their checkpoints."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

LIGHTNING = """
import json
import sys
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

folder, resume = Path(sys.argv[1]), sys.argv[2:]


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(3))
        self.seen = []

    def training_step(self, batch, number):
        self.seen.append((self.current_epoch, batch["number"].tolist()))
        return (batch["vector"] @ self.weight).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


module = Module()
trainer = lightning.Trainer(
    max_epochs=2,
    accelerator="cpu",
    logger=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    default_root_dir=folder,
    callbacks=[ModelCheckpoint(folder, every_n_train_steps=4, save_top_k=-1, filename="{step}")],
)
loader = Loader(MemoryDataset(30), 3, shuffle=True, seed=5, to="torch", threads=2)
trainer.fit(module, loader, ckpt_path=resume[0] if resume else None, weights_only=False)
print(json.dumps(module.seen))
"""

ACCELERATE = """
import sys

from accelerate import Accelerator

from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

accelerator = Accelerator(cpu=True)


def prepared():
    loader = accelerator.prepare(Loader(MemoryDataset(30), 3, shuffle=True, seed=5, to="torch", threads=2))
    assert isinstance(loader, Loader)
    return loader


loader = prepared()
accelerator.register_for_checkpointing(loader)
seen = []
for number, batch in enumerate(loader):
    seen.append(batch["number"].tolist())
    if number == 3:
        accelerator.save_state(sys.argv[1])
        break
list(loader)
accelerator.load_state(sys.argv[1])
seen += [batch["number"].tolist() for batch in loader]
assert loader.epoch == 1
assert seen == [batch["number"].tolist() for batch in prepared()]
"""


def run(program: str, *arguments: str | Path) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1] if done.stdout else ""


@pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
def test_lightning_resumes_in_mid_epoch(tmp_path: Path) -> None:
    whole = json.loads(run(LIGHTNING, tmp_path))
    assert [epoch for epoch, _ in whole] == [0] * 10 + [1] * 10
    for step in (4, 12):
        resumed = json.loads(run(LIGHTNING, tmp_path / "again", tmp_path / f"step={step}.ckpt"))
        assert resumed == whole[step:]


@pytest.mark.skipif(find_spec("accelerate") is None, reason="accelerate is not installed")
def test_accelerate_saves_and_loads_it(tmp_path: Path) -> None:
    run(ACCELERATE, tmp_path)

"""The training script on shards, run as a user runs it."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "examples" / "train_webdataset.py"


def test_the_training_script_learns(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(EXAMPLE), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "a batch: (32, 16, 16) images, (32,) classes" in done.stdout
    losses = [float(found) for found in re.findall(r"mean loss ([0-9.]+) over 16 steps", done.stdout)]
    assert len(losses) == 6
    assert losses[-1] < losses[0]
    assert sorted(path.name for path in tmp_path.glob("*.tar")) == [f"shapes-{i:06d}.tar" for i in range(4)]

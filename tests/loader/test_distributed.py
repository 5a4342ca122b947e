"""Real ranks: processes that find their rank through torch.distributed."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, os, sys
import torch.distributed
from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

torch.distributed.init_process_group("gloo")
os.environ["RANK"] = "not the rank"
loader = Loader(MemoryDataset(103, unreadable=range(0, 103, 9)), 5, shuffle=True, seed=1, **json.loads(sys.argv[1]))
steps = []
for batch in loader:
    steps.append(batch["number"].tolist())
    if loader.world_size == 4:
        torch.distributed.barrier()
print(json.dumps([loader.rank, loader.world_size, steps, [bad.sample for bad in loader.errors]]))
torch.distributed.destroy_process_group()
"""


def run_ranks(world_size: int, arguments: dict[str, object]) -> list[tuple[int, int, list[list[int]], list[int]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(world_size)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, json.dumps(arguments)],
            cwd=ROOT,
            env={**common, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world_size)
    ]
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * world_size
    return [tuple(json.loads(output.splitlines()[-1])) for output in outputs]


@pytest.mark.parametrize("world_size", [2, 4])
def test_ranks_share_the_epoch_and_replace_bad_samples_in_step(world_size: int) -> None:
    pytest.importorskip("torch")
    results = run_ranks(world_size, {"on_error": "replace", "pad": "wrap", "threads": 1})
    assert sorted((rank, size) for rank, size, _, _ in results) == [(rank, world_size) for rank in range(world_size)]
    steps = {len(batches) for _, _, batches, _ in results}
    assert steps == {-(-103 // (5 * world_size))}
    assert all(len(batch) == 5 for _, _, batches, _ in results for batch in batches)
    seen = {number for _, _, batches, _ in results for batch in batches for number in batch}
    bad = set(range(0, 103, 9))
    assert seen == set(range(103)) - bad
    assert {number for _, _, _, errors in results for number in errors} == bad

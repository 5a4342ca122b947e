"""Give documents to torchtitan: a loader of its own kind, whose state goes into its checkpoints.

    python examples/torchtitan_loader.py run

A configuration of torchtitan takes `BushelDataLoader.Config(dataset_path=...)` as its `dataloader`. torchtitan gives
each rank its number, the length of a row and the batch size, and saves `state_dict()` with the model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torchtitan.components.dataloader import BaseDataLoader

import bushel


class BushelDataLoader(BaseDataLoader):  # type: ignore[misc] # torchtitan is not installed where types are checked
    """Rows of `seq_len` tokens, and the tokens that follow them, in a shuffled order without end."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):  # type: ignore[misc]
        """The options of torchtitan's loaders, and the seed of the order."""

        seed: int = 0

    def __init__(
        self, config: Config, *, dp_world_size: int, dp_rank: int, seq_len: int, local_batch_size: int, **others: Any
    ) -> None:
        self.loader = bushel.Loader(
            bushel.open(config.dataset_path),
            local_batch_size,
            chunk_by="tokens.length",
            chunk_tokens=seq_len + 1,
            overlap=1,  # the last label of a row is the first input of the next one
            shuffle=True,
            seed=config.seed,
            drop_last=True,
            rank=dp_rank,
            world_size=dp_world_size,
            to="torch",
        )

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        while True:
            for batch in self.loader:
                tokens = batch["tokens"].long()
                yield {"input": tokens[:, :-1]}, tokens[:, 1:]

    def state_dict(self) -> dict[str, Any]:
        """Return the state, which is the same on all ranks."""
        return self.loader.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state, with any number of ranks."""
        self.loader.load_state_dict(state_dict)


def main() -> None:
    """Write documents, read some batches on each of two ranks, and resume one."""
    parser = argparse.ArgumentParser(description="A loader for torchtitan.")
    parser.add_argument("folder", type=Path, help="for the dataset")
    path = parser.parse_args().folder / "documents"
    if not path.exists():
        rng = np.random.default_rng(0)
        documents = [rng.integers(0, 1000, rng.integers(20, 200), np.uint16) for _ in range(500)]
        bushel.pack({"tokens": documents}, path, container="bag", spec={"tokens": "array(uint16,-1)"})
        bushel.index(path, columns="tokens.length")
    config = BushelDataLoader.Config(dataset_path=str(path))
    ranks = [config.build(dp_world_size=2, dp_rank=rank, seq_len=64, local_batch_size=4) for rank in (0, 1)]
    batches = [iter(rank) for rank in ranks]
    for _ in range(20):
        for inputs, labels in map(next, batches):
            assert torch.equal(inputs["input"][:, 1:], labels[:, :-1])
    resumed = config.build(dp_world_size=2, dp_rank=1, seq_len=64, local_batch_size=4)
    resumed.load_state_dict(ranks[0].state_dict())
    expected, given = next(batches[1]), next(iter(resumed))
    print(f"batches of {tuple(expected[1].shape)}; resumed in the same place: {torch.equal(expected[1], given[1])}")


if __name__ == "__main__":
    main()

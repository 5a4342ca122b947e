"""Train a small language model on rows of tokens: pack an array, load it, resume after a stop.

    python examples/train_tokens.py run                    trains one epoch, with a checkpoint after every fifth step
    python examples/train_tokens.py run --stop-after 7     stops there; the next call continues from the checkpoint

The tokens are the bytes of the Python sources of Bushel. A tokenizer's numbers are packed in the same way: as an array
of rows of one length, in memory, in a `numpy.memmap`, or chunk by chunk with `writer.extend`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import bushel

CONTEXT, BATCH, WIDTH, EVERY = 64, 64, 32, 5


def write_tokens(path: Path) -> None:
    """Pack rows of tokens, each with the token that follows it, if the dataset does not exist."""
    if path.exists():
        return
    sources = sorted(Path(bushel.__file__).parent.rglob("*.py"))[:60]
    text = np.frombuffer(b"".join(each.read_bytes() for each in sources), np.uint8)
    rows = len(text) // (CONTEXT + 1)
    tokens = text[: rows * (CONTEXT + 1)].reshape(rows, CONTEXT + 1).astype(np.uint16)
    bushel.pack({"tokens": tokens}, path, container="bag", shard_bytes="1MB")


class Model(nn.Module):  # type: ignore[misc] # torch is an extra
    """Predict each token from a running mean of the tokens before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(256, WIDTH), nn.Linear(2 * WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the scores of the next token at every place."""
        now = self.embed(tokens)
        counts = torch.arange(1, tokens.shape[1] + 1)[None, :, None]
        before = now.cumsum(1) / counts
        scores: torch.Tensor = self.out(torch.relu(self.mix(torch.cat([now, before], 2))))
        return scores


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="Pre-training from an array of tokens.")
    parser.add_argument("folder", type=Path, help="for the dataset and the checkpoint")
    parser.add_argument("--stop-after", type=int, help="steps after which to stop")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    checkpoint = options.folder / "checkpoint.pt"
    write_tokens(options.folder / "tokens")

    loader = bushel.Loader(
        bushel.open(options.folder / "tokens"), BATCH, shuffle=True, seed=0, drop_last=True, to="torch"
    )
    torch.manual_seed(0)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    steps, losses = 0, list[float]()
    if checkpoint.exists():
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        loader.load_state_dict(saved["loader"])
        steps = saved["steps"]
        print(f"going on at step {steps}")
    for batch in loader:
        tokens = batch["tokens"].long()
        scores = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        steps += 1
        losses.append(loss.item())
        if steps % EVERY == 0:
            states: dict[str, Any] = {"model": model, "optimizer": optimizer, "loader": loader}
            torch.save({**{name: one.state_dict() for name, one in states.items()}, "steps": steps}, checkpoint)
        if steps == options.stop_after:
            print(f"stopped after step {steps}")
            return
    print(f"loss {losses[0]:.4f} at first, {losses[-1]:.6f} after {steps} steps")


if __name__ == "__main__":
    main()

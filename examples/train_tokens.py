"""Train a small language model on rows of tokens: pack an array, load it, resume after a stop.

    python examples/train_tokens.py run                    trains one epoch, with a checkpoint after every tenth step
    python examples/train_tokens.py run --stop-after 13    stops there; the next call continues from the checkpoint

The tokens are the bytes of the Python sources of Bushel. A tokenizer's numbers are packed in the same way: as an array
of rows of one length, in memory, in a `numpy.memmap`, or chunk by chunk with `writer.extend`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from resuming import Run, train
from torch import nn

import bushel

CONTEXT, BATCH, WIDTH = 64, 64, 32


def write(path: Path) -> None:
    """Pack rows of tokens, each with the token that follows it."""
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


def loss_of(model: Model, tokens: torch.Tensor) -> torch.Tensor:
    """Predict each token of a row but the first."""
    return nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main() -> None:
    """Train."""
    run = Run.asked("Pre-training from an array of tokens.")
    rows = bushel.open(run.made("tokens", write))
    torch.manual_seed(0)
    model, loader = Model(), bushel.Loader(rows, BATCH, shuffle=True, seed=0, drop_last=True, to="torch")
    train(run, model, loader, lambda batch: loss_of(model, batch["tokens"].long()), epochs=1)


if __name__ == "__main__":
    main()

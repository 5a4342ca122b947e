"""A small language model on packs: rows are filled with whole documents, and none attends to another one.

python examples/train_packs.py run                    trains two epochs, with a checkpoint after every tenth step
python examples/train_packs.py run --stop-after 25    stops there; the next call continues from the checkpoint

The documents are paragraphs of Bushel's own sources, and the tokens are bytes. `cu_seqlens` says where documents begin.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from resuming import Run, train
from torch import nn

import bushel

ROW, WIDTH, HEADS, BATCH, EPOCHS, NEW = 256, 48, 3, 8, 2, 100


def write(path: Path) -> None:
    """Write a document for each paragraph of some sources; the writer records their lengths."""
    sources = sorted(Path(bushel.__file__).parent.glob("_dataset/*/*.py"))[:30]
    with bushel.Writer(path, {"tokens": "array(uint8,-1)"}, container="bag") as writer:
        for paragraph in "\n\n".join(source.read_text("utf-8") for source in sources).split("\n\n"):
            if tokens := paragraph.encode()[:ROW]:
                writer.append({"tokens": np.frombuffer(tokens, np.uint8)})


class Model(nn.Module):  # type: ignore[misc] # torch is an extra
    """One layer of attention within documents."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(ROW, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
        self.out = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, 256))

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the scores (rows, n, 256) of the next tokens of rows (rows, n)."""
        place = torch.arange(batch["tokens"].shape[1])
        number = torch.stack(
            [torch.bucketize(place, torch.as_tensor(row)[1:], right=True) for row in batch["cu_seqlens"]]
        )
        hidden = (number[:, :, None] != number[:, None]) | (place > place[:, None])
        now = self.tokens(batch["tokens"].long()) + self.places(batch["positions"].long())
        before, _ = self.attention(now, now, now, attn_mask=hidden.repeat_interleave(HEADS, 0), need_weights=False)
        scores: torch.Tensor = self.out(now + before)
        return scores


def loss_of(model: Model, batch: dict[str, Any]) -> torch.Tensor:
    """Predict each token of a document from those before it."""
    same = (batch["documents"][:, 1:] == batch["documents"][:, :-1]) & (batch["documents"][:, 1:] >= 0)
    return nn.functional.cross_entropy(model(batch)[:, :-1][same], batch["tokens"][:, 1:][same].long())


def main() -> None:
    """Train."""
    run, model = Run.asked("A language model on packs."), Model()
    texts = bushel.open(run.made("texts", write))
    packs: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": ROW, "shuffle": True, "seed": 0, "to": "torch"}
    if train(run, model, bushel.Loader(texts[:-NEW], BATCH, **packs), lambda batch: loss_of(model, batch), EPOCHS):
        [batch] = bushel.Loader(texts[-NEW:], NEW, **packs)
        print(f"{loss_of(model, batch).item() / np.log(2):.3f} bits per byte of new texts")
        row, ends = next((row, ends) for row, ends in enumerate(batch["cu_seqlens"]) if len(ends) > 2)
        first, end = ends[1:3]  # the second document of a row
        alone = {name: batch[name][row : row + 1, first:end] for name in ("tokens", "positions")}
        scores = model(alone | {"cu_seqlens": [[0, end - first]]})[0]
        same = torch.allclose(scores, model(batch)[row, first:end], atol=1e-4)
        print("in its row, a document has the scores that it has alone:", same)


if __name__ == "__main__":
    main()

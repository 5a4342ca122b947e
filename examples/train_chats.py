"""Chats become tokens and a mask of the loss, rows are filled with whole chats, and a stopped run goes on in mid-epoch.

    python examples/train_chats.py run                    trains two epochs, with a checkpoint after every tenth step
    python examples/train_chats.py run --stop-after 13    stops there; the next call continues from the checkpoint

The chats are lines of JSON with `messages`. `encode` is the template of chats; use that of your model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from resuming import Run, train
from torch import nn

import bushel

ROW, WIDTH, BATCH, EPOCHS, CHATS = 256, 48, 8, 2, 4000


def write_chats(path: Path) -> None:
    """Write lines of JSON: questions about sums, and answers."""
    with path.open("w") as file:
        for a, b in np.random.default_rng(0).integers(0, 100, (CHATS, 2)).tolist():
            question, answer = f"How much is {a} plus {b}?", f"{a} plus {b} is {a + b}."
            messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
            file.write(json.dumps({"messages": messages}) + "\n")


def write_tokens(path: Path) -> None:
    """Tokenize the chats once. The writer records their lengths, by which a loader fills rows."""
    chats = bushel.open(path.parent / "chats.jsonl")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>"))
    special = ["<unk>", "<user>", "<assistant>", "<end>"]
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator((turn["content"] for chat in chats for turn in chat["messages"]), trainer)

    def encode(sample: dict[str, Any]) -> dict[str, Any]:
        tokens: list[int] = []
        learned: list[bool] = []
        for turn in sample["messages"]:
            ids = tokenizer.encode(f"<{turn['role']}>{turn['content']}<end>").ids
            tokens += ids
            learned += [turn["role"] == "assistant"] * len(ids)  # the loss is that of the answers alone
        return {"tokens": np.array(tokens, np.uint16), "learned": np.array(learned, np.uint8)}

    spec = {"tokens": "array(uint16,-1)", "learned": "array(uint8,-1)"}
    bushel.pack(chats.map(encode, spec=spec).select_fields(spec), path, container="bag")


class Model(nn.Module):  # type: ignore[misc] # torch is an extra
    """Predict each token from the one before it and a mean of its chat so far."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(300, WIDTH), nn.Linear(2 * WIDTH, 300)

    def forward(self, batch: dict[str, Any]) -> torch.Tensor:
        """Return the scores (rows, n, 300) of the next tokens."""
        now, documents = self.embed(batch["tokens"].long()), batch["documents"]
        before = (documents[:, :, None] == documents[:, None]).tril().float()  # whole chats: none sees another one
        mean = before @ now / before.sum(2, keepdim=True)
        scores: torch.Tensor = self.out(torch.cat([now, mean], 2).tanh())
        return scores


def loss_of(model: Model, batch: dict[str, Any]) -> torch.Tensor:
    """Predict the tokens of the answers."""
    learned = (batch["learned"][:, 1:] > 0) & (batch["documents"][:, 1:] == batch["documents"][:, :-1])
    return nn.functional.cross_entropy(model(batch)[:, :-1][learned], batch["tokens"][:, 1:][learned].long())


def main() -> None:
    """Train."""
    run, model = Run.asked("Fine-tuning on chats."), Model()
    run.made("chats.jsonl", write_chats)
    tokens = bushel.open(run.made("tokens", write_tokens))
    rows = bushel.Loader(tokens, BATCH, pack_by="tokens.length", pack_tokens=ROW, shuffle=True, seed=0, to="torch")
    train(run, model, rows, lambda batch: loss_of(model, batch), EPOCHS)


if __name__ == "__main__":
    main()

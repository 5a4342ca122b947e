"""A loader in a notebook: its options, its place in the training run, and its next batch."""

from __future__ import annotations

import html
from typing import Any

from bushel._pictures.notebook import batch_html, facts_html

__all__ = ["loader_html"]


def loader_html(loader: Any, sizes: str, order: str, consumed: str) -> str:
    """Return the description of a loader.

    Args:
        loader: The `Loader`.
        sizes: The sizes of its batches, in words.
        order: Version of its order.
        consumed: How much of the epoch was given to the trainer.
    """
    facts = [
        ("gives", sizes),
        ("order", order),
        ("seed", str(loader.seed)),
        ("rank", f"{loader.rank} of {loader.world_size}"),
        ("processes", str(loader.processes)),
        ("epoch", f"{loader.epoch}, {consumed} consumed"),
    ]
    try:
        batch = loader.peek()
        shown = batch_html(batch, getattr(loader.dataset, "labels", None)) if isinstance(batch, dict) else ""
    except Exception as error:  # of a transform, a collate function or the data: the loop over the loader raises it
        shown = f"<div>The next batch cannot be made: {html.escape(f'{type(error).__name__}: {error}')}</div>"
    return facts_html(f"bushel.Loader of {len(loader.dataset):,} samples", facts, (), shown)

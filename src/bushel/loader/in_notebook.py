"""A loader in a notebook: its options, its place in the training run, and its next batch."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from bushel._pictures.notebook import batch_html, facts_html

__all__ = ["loader_html"]


def loader_html(title: str, facts: Sequence[tuple[str, str]], peek: Callable[[], Any]) -> str:
    """Return the description of a loader.

    Args:
        title: What it is.
        facts: Names and values.
        peek: Returns the next batch, without counting it.
    """
    try:
        batch = peek()
        shown = batch_html(batch) if isinstance(batch, dict) else ""
    except Exception as error:  # of a transform, a collate function or the data: the loop over the loader raises it
        shown = f"<div>The next batch cannot be made: {html.escape(f'{type(error).__name__}: {error}')}</div>"
    return facts_html(title, facts, (), shown)

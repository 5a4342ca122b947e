"""A loader in a notebook: its options, its place in the training run, and its next batch, as a table."""

from __future__ import annotations

import html
from typing import Any


class ShownBatch(dict[str, Any]):
    """A batch that `peek` returns: a dict, which a notebook shows with its shapes, types, pictures and texts.

    The batches of an iteration are plain dicts, since some frameworks take other classes for single values.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownBatch, (dict(self),)

    def __repr__(self) -> str:
        from bushel._pictures.terminal import is_brief, lines_of

        if is_brief(self):
            return dict.__repr__(self)
        return lines_of(self)

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import batch_html

        return batch_html(self)


def shown(batch: Any) -> Any:
    """Return a batch that is a dict as one that notebooks show; others as they are."""
    return ShownBatch(batch) if type(batch) is dict else batch


def loader_html(loader: Any, sizes: str, order: str, consumed: str) -> str:
    """Return the description of a loader."""
    from bushel._pictures.notebook import batch_html, facts_html

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

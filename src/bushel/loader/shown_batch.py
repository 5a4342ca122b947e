"""A batch that a notebook shows as a table."""

from __future__ import annotations

from typing import Any

__all__ = ["ShownBatch", "shown"]


class ShownBatch(dict[str, Any]):
    """A batch that `peek` returns: a dict, which a notebook shows with its shapes, types, pictures and texts.

    The batches of an iteration are plain dicts, since some frameworks take other classes for single values.
    """

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return ShownBatch, (dict(self),)

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import batch_html

        return batch_html(self)


def shown(batch: Any) -> Any:
    """Return a batch that is a dict as one that notebooks show; others as they are."""
    return ShownBatch(batch) if type(batch) is dict else batch

"""Random windows among the fields of a loader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bushel.loader.read.random_window import RandomWindows


def random_windows(fields: Any, dataset: Any, seed: int, *, packed: object = None) -> tuple[Any, RandomWindows | None]:
    """Return `fields=` of a loader without random windows, and these windows, or None if it has no random windows.

    Raises:
        TypeError, ValueError, KeyError: As `RandomWindows.of`.
        ValueError: The loader packs whole documents.
    """
    if not isinstance(fields, Mapping) or all(isinstance(own, bool | slice | range) for own in fields.values()):
        return fields, None
    from bushel.loader.read.random_window import RandomWindows

    mask, windows = RandomWindows.of(dataset, fields, seed)
    if windows is not None and packed is not None:
        raise ValueError("pack_by= and chunk_by= fill rows with whole documents: leave RandomWindow out")
    return mask, windows

"""Advice that the errors of writers get as a note."""

from __future__ import annotations

from bushel.errors import is_out_of_room

__all__ = ["add_advice"]

_FREE_SPACE = "free some disk space, and continue with mode='resume': complete shards are kept"
_FREE_SPACE_OVERWRITE = "free some disk space, and run it again: the old dataset is unchanged"


def add_advice(error: BaseException, *, overwrite: bool) -> None:
    """Add a note to an error that is due to a full disk: how to continue."""
    advice = _FREE_SPACE_OVERWRITE if overwrite else _FREE_SPACE
    if is_out_of_room(error) and advice not in getattr(error, "__notes__", ()):
        error.add_note(advice)

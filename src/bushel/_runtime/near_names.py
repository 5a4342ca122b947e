"""Names that are spelled like one that does not exist, for errors."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Return a question that names what may be meant, or nothing."""
    import difflib  # for mistakes only

    near = difflib.get_close_matches(name, dict.fromkeys(known), n=3, cutoff=0.6)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else ""

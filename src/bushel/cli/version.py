"""`bushel version`."""

from __future__ import annotations

import typer

__all__ = ["command"]


def command() -> None:
    """Print the version of Bushel.

    Example: bushel version
    """
    from bushel import __version__

    typer.echo(__version__)

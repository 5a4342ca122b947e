"""`bushel version`."""

from __future__ import annotations


def command() -> None:
    """Print the version of Bushel.

    Example: bushel version
    """
    from bushel import __version__
    from bushel.cli.output import print_text

    print_text(__version__)

"""Logging under the name `bushel`. `logging` is imported when there is something to log: that takes 3 ms."""

from __future__ import annotations


def log_info(message: str, *arguments: object) -> None:
    """Log details for finding the cause of a problem."""
    from logging import getLogger

    getLogger("bushel").info(message, *arguments, stacklevel=2)


def log_warning(message: str, *arguments: object) -> None:
    """Log what the user should know."""
    from logging import getLogger

    getLogger("bushel").warning(message, *arguments, stacklevel=2)

"""What to do about an exception: return True to go on, False to stop, or raise it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeAlias

__all__ = [
    "Handler",
    "ignore_and_continue",
    "ignore_and_stop",
    "reraise_exception",
    "warn_and_continue",
    "warn_and_stop",
]

Handler: TypeAlias = Callable[[Exception], bool]

_PAUSE = 0.5
"""Seconds for a warning to be seen before others push it off the screen."""


def reraise_exception(exn: Exception) -> NoReturn:
    """Raise it."""
    raise exn


def ignore_and_continue(exn: Exception) -> bool:
    """Go on."""
    return True


def warn_and_continue(exn: Exception) -> bool:
    """Warn and go on."""
    warnings.warn(repr(exn), stacklevel=2)
    time.sleep(_PAUSE)
    return True


def ignore_and_stop(exn: Exception) -> bool:
    """Stop, as if the data ended here."""
    return False


def warn_and_stop(exn: Exception) -> bool:
    """Warn and stop."""
    warnings.warn(repr(exn), stacklevel=2)
    time.sleep(_PAUSE)
    return False

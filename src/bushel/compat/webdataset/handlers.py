"""Handlers of exceptions: a handler returns True to continue, False to stop, or raises it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeAlias

Handler: TypeAlias = Callable[[Exception], bool]

_PAUSE = 0.5  # seconds that a warning stays on the screen before the next one, as in the original


def reraise_exception(exn: Exception) -> NoReturn:
    """Raise the exception."""
    raise exn


def ignore_and_continue(exn: Exception) -> bool:
    """Continue."""
    return True


def ignore_and_stop(exn: Exception) -> bool:
    """Stop, as if the data ended here."""
    return False


def _warn(exn: Exception) -> None:
    warnings.warn(repr(exn), stacklevel=3)
    time.sleep(_PAUSE)


def warn_and_continue(exn: Exception) -> bool:
    """Warn and continue."""
    _warn(exn)
    return True


def warn_and_stop(exn: Exception) -> bool:
    """Warn and stop."""
    _warn(exn)
    return False

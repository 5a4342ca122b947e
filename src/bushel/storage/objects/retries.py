"""Making requests again that fail.

What reads does so here rather than in obstore, for three reasons: an answer that is cut off counts as a failure too,
one limit holds for everything, and Ctrl-C waits for a request on its way but for no other.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from bushel.storage.objects.client import patience
from bushel.storage.objects.errors import is_transient, summary, translated

__all__ = ["Cut", "persistently"]

T = TypeVar("T")

_FIRST_DELAY, _LONGEST_DELAY = 0.1, 5.0


class Cut(Exception):
    """An answer that ended too early."""


def persistently(url: str, request: Callable[[], T], give_up: threading.Event | None = None) -> T:
    """Make a request until it succeeds, with longer and longer pauses, as long as there is hope and patience.

    Args:
        url: What errors are about.
        request: Makes one attempt.
        give_up: Set from elsewhere when nobody waits for the answer any more.

    Raises:
        OSError: As `translated` says; `ConnectionError` after `BUSHEL_NETWORK_PATIENCE` seconds of failures.
        BushelError: What `request` raised.
    """
    deadline = time.monotonic() + patience()
    delay, attempts = _FIRST_DELAY, 0
    pauses = threading.Event() if give_up is None else give_up
    while True:
        attempts += 1
        try:
            return request()
        except Exception as error:
            pause = delay * (0.5 + random.random())
            hopeful = isinstance(error, Cut) or is_transient(error)
            if not hopeful:
                with translated(url):
                    raise
            if pauses.is_set() or time.monotonic() + pause > deadline:
                tried = f"{attempts} requests failed, the last one with: {summary(error)}"
                advice = "check network and endpoint, or give it longer by BUSHEL_NETWORK_PATIENCE"
                raise ConnectionError(f"{url}: {tried}; {advice}") from error
        pauses.wait(pause)
        delay = min(2 * delay, _LONGEST_DELAY)

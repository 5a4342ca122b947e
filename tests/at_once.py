"""Functions that tests call at the same time, in threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

__all__ = ["at_once"]


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """Call functions at the same time, each in a thread. Return their results, or raise the error of one of them."""
    start = threading.Barrier(len(works))
    found: list[Any] = [None] * len(works)
    errors: list[BaseException] = []

    def run(number: int, work: Callable[[], Any]) -> None:
        start.wait()
        try:
            found[number] = work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=each) for each in enumerate(works)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found

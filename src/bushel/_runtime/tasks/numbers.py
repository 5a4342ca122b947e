"""Numbers of tasks as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def format_numbers(numbers: Iterable[int]) -> str:
    """Return ascending numbers as ranges: `7,19-22`."""
    return ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in _ranges(numbers))


def _ranges(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is None or first is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last

"""Notation of names and sizes: brace patterns such as `train-{000..146}.tar`, and sizes such as `1GB`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")
_RANGE_ONLY = re.compile(r"\{([0-9]+)\.\.([0-9]+)\}")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", re.IGNORECASE)
_LARGEST = 10_000_000  # largest number of names that one pattern may expand to


def parse_bytes(size: int | str) -> int:
    """Return a number of bytes that is written as `500MB`, `1GB` (10**9 bytes), `1GiB` (2**30 bytes) or as a number.

    Raises:
        ValueError: `size` is malformed or negative.
    """
    if isinstance(size, int):
        if size < 0:
            raise ValueError(f"invalid size {size}: write 500MB, 1GiB or a number of bytes")
        return size
    match = _SIZE.fullmatch(size)
    if match is None:
        raise ValueError(f"invalid size {size!r}: write 500MB, 1GiB or a number of bytes")
    base = 1024 if match[3] else 1000
    return int(float(match[1]) * base ** " kMGT".upper().index(match[2].upper() or " "))


def expand_braces(pattern: str, *, only_ranges: bool = False) -> list[str]:
    r"""Expand a pattern as the shell does: `{a,b}`, `{000..146}`, `{0..10..2}` and `{a..e}`, also nested.

    The leftmost braces vary slowest. Numbers are padded with zeros to the width of the wider end if
    one of the ends starts with a zero. A backslash makes a brace or a comma plain. Braces around a
    single word stay.

    Args:
        pattern: The pattern.
        only_ranges: Expand `{000..146}` only, and keep other braces and backslashes, as shell
            commands need them.

    Raises:
        ValueError: Braces do not match, or the pattern expands to more than ten million names.
    """
    if only_ranges:
        texts = _RANGE_ONLY.split(pattern)
        ranges = [
            _numbers(low, high, None) for low, high in zip(texts[1::3], texts[2::3], strict=True)
        ]
        parts = [
            [texts[0]],
            *(
                part
                for pair in zip(ranges, ([text] for text in texts[3::3]), strict=True)
                for part in pair
            ),
        ]
        return _joined(pattern, parts)
    names = [re.sub(r"\\(.)", r"\1", name) for name in _alternatives(pattern)]
    return names or [""]


def _alternatives(text: str) -> list[str]:
    """Expand a text whose top-level parts are plain text and braces."""
    return _joined(
        text, [_options(part) if is_braces else [part] for is_braces, part in _parts(text)]
    )


def _joined(text: str, parts: list[list[str]]) -> list[str]:
    total = 1
    for part in parts:
        total *= len(part)
    if total > _LARGEST:
        raise ValueError(f"{text!r} expands to {total} names; at most {_LARGEST} are allowed")
    return ["".join(choice) for choice in product(*parts)]


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    at = start = 0
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text[at] == "}":
            raise ValueError(
                f"{text!r}: the brace at position {at} has no opening brace (write"
                f" \\}} for a plain one)"
            )
        elif text[at] == "{":
            end = _closing(text, at)
            if at > start:
                yield False, text[start:at]
            yield True, text[at + 1 : end]
            at = start = end + 1
        else:
            at += 1
    if start < len(text):
        yield False, text[start:]


def _closing(text: str, opening: int) -> int:
    depth, at = 0, opening
    while at < len(text):
        if text[at] == "\\":
            at += 1
        elif text[at] == "{":
            depth += 1
        elif text[at] == "}":
            depth -= 1
            if depth == 0:
                return at
        at += 1
    raise ValueError(
        f"{text!r}: the brace at position {opening} is not closed (write \\{{ for a plain one)"
    )


def _options(inside: str) -> list[str]:
    if match := _NUMBERS.fullmatch(inside):
        return _numbers(match[1], match[2], match[3])
    if match := _LETTERS.fullmatch(inside):
        codes = _range(ord(match[1]), ord(match[2]), match[3])
        return [chr(code) for code in codes]
    options = _split(inside)
    if len(options) == 1:
        return ["{" + alternative + "}" for alternative in _alternatives(inside)]
    return [name for option in options for name in (_alternatives(option) if option else [""])]


def _numbers(low: str, high: str, step: str | None) -> list[str]:
    padded = any(re.match(r"-?0\d", end) for end in (low, high))
    width = max(len(low), len(high)) if padded else 0
    return [f"{number:0{width}d}" for number in _range(int(low), int(high), step)]


def _range(low: int, high: int, step: str | None) -> range:
    stride = abs(int(step)) or 1 if step else 1
    if low <= high:
        numbers = range(low, high + 1, stride)
    else:
        numbers = range(low, high - 1, -stride)
    if len(numbers) > _LARGEST:
        raise ValueError(f"a range expands to {len(numbers)} names; at most {_LARGEST} are allowed")
    return numbers


def _split(inside: str) -> list[str]:
    options, depth, start, at = [], 0, 0, 0
    while at < len(inside):
        if inside[at] == "\\":
            at += 1
        elif inside[at] == "{":
            depth += 1
        elif inside[at] == "}":
            depth -= 1
        elif inside[at] == "," and depth == 0:
            options.append(inside[start:at])
            start = at + 1
        at += 1
    return [*options, inside[start:]]

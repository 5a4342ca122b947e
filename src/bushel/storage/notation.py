"""Notation of names and sizes: brace patterns such as `train-{000..146}.tar`, and sizes such as `1GB`."""

from __future__ import annotations

import re

from bushel._runtime.arrays import check_count

_NUMBERS = re.compile(r"(-?\d+)\.\.(-?\d+)(?:\.\.(-?\d+))?")
_LETTERS = re.compile(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d+))?")
_RANGE_ONLY = re.compile(r"(\{[0-9]+\.\.[0-9]+\})")
_TOKENS = re.compile(r"\\.|[{},]|[^\\{},]+|\\")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B?\s*", re.IGNORECASE)
_LARGEST = 10_000_000  # largest number of names that one pattern may expand to


def parse_bytes(size: int | str, variable: str | None = None) -> int:
    """Return a number of bytes that is written as `500MB`, `1GB` (10**9 bytes), `1GiB` (2**30 bytes) or as a number.

    `variable` is the name of the environment variable that has it, for the error.

    Raises:
        TypeError: `size` is neither text nor a whole number.
        ValueError: `size` is malformed or negative.
    """
    if not isinstance(size, str):
        return check_count("size", size, instead=" bytes, or text such as 500MB or 1GiB")
    match = _SIZE.fullmatch(size)
    if match is None:
        where = f"the environment variable {variable}: " if variable else ""
        raise ValueError(f"{where}invalid size {size!r}: write 500MB, 1GiB or a number of bytes")
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
        names = [""]
        for number, text in enumerate(_RANGE_ONLY.split(pattern)):
            options = _numbers(*text[1:-1].split("..")) if number % 2 else [text]
            names = _combined(pattern, names, options)
        return names
    tokens = _TOKENS.findall(pattern)[::-1]  # the last is the next
    names = _expanded(pattern, tokens, "}")
    if tokens:
        raise ValueError(
            f"{pattern!r}: the brace at position {_position(pattern, tokens)} "
            "has no opening brace (write \\} for a plain one)"
        )
    return names


def _expanded(pattern: str, tokens: list[str], ends: str) -> list[str]:
    """Expand the next tokens, up to one of `ends`, which stays."""
    names = [""]
    while tokens and tokens[-1] not in ends:
        token = tokens.pop()
        options = [re.sub(r"\\(.)", r"\1", token)]
        if token == "{":
            options = _alternatives(pattern, tokens)
        names = _combined(pattern, names, options)
    return names


def _alternatives(pattern: str, tokens: list[str]) -> list[str]:
    """Return the alternatives in a brace, given the tokens after it, which are taken up to its end."""
    position = _position(pattern, tokens) - 1
    options = _expanded(pattern, tokens, ",}")
    if tokens and tokens.pop() == "}":
        if match := _NUMBERS.fullmatch(options[0]):
            return _numbers(*match.groups())
        if match := _LETTERS.fullmatch(options[0]):
            return [*map(chr, _range(ord(match[1]), ord(match[2]), match[3]))]
        return ["{" + option + "}" for option in options]
    closed = False
    while not closed:
        options += _expanded(pattern, tokens, ",}")
        if not tokens:
            raise ValueError(
                f"{pattern!r}: the brace at position {position} "
                "is not closed (write \\{ for a plain one)"
            )
        closed = tokens.pop() == "}"
    return options


def _position(pattern: str, tokens: list[str]) -> int:
    return len(pattern) - len("".join(tokens))


def _combined(pattern: str, names: list[str], options: list[str]) -> list[str]:
    if len(names) * len(options) > _LARGEST:
        raise ValueError(f"{pattern!r} expands to more than {_LARGEST} names")
    return [name + option for name in names for option in options]


def _numbers(low: str, high: str, step: str | None = None) -> list[str]:
    padded = any(re.match(r"-?0\d", end) for end in (low, high))
    width = max(len(low), len(high)) if padded else 0
    return [f"{number:0{width}d}" for number in _range(int(low), int(high), step)]


def _range(low: int, high: int, step: str | None) -> range:
    stride = abs(int(step)) or 1 if step else 1
    numbers = range(low, high + 1, stride)
    if low > high:
        numbers = range(low, high - 1, -stride)
    if len(numbers) > _LARGEST:
        raise ValueError(f"a range expands to {len(numbers)} names; at most {_LARGEST} are allowed")
    return numbers

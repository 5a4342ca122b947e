"""Brace patterns and sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bushel.storage import expand_braces
from bushel.storage.notation import parse_bytes


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("a", ["a"]),
        ("{8..10}", ["8", "9", "10"]),
        ("{08..10}", ["08", "09", "10"]),
        ("{000..002}.{x,y}", ["000.x", "000.y", "001.x", "001.y", "002.x", "002.y"]),
        ("{0..10..5}", ["0", "5", "10"]),
        ("{3..1}", ["3", "2", "1"]),
        ("{a..c}z", ["az", "bz", "cz"]),
        ("{a,b{1..2},}", ["a", "b1", "b2", ""]),
        ("{a}", ["{a}"]),
        ("x-{08..11}.tar", ["x-08.tar", "x-09.tar", "x-10.tar", "x-11.tar"]),
        ("{a,b}/{1..2}", ["a/1", "a/2", "b/1", "b/2"]),
        ("{a,}x", ["ax", "x"]),
        ("{x{1..2},y}", ["x1", "x2", "y"]),
        (r"\{a,b\}", ["{a,b}"]),
        ("", [""]),
    ],
)
def test_braces(pattern: str, wanted: list[str]) -> None:
    assert expand_braces(pattern) == wanted


@pytest.mark.parametrize("pattern", ["{a", "a}", "{0..99999999}", "{0..9999}" * 2])
def test_wrong_braces(pattern: str) -> None:
    with pytest.raises(ValueError, match="brace|names"):
        expand_braces(pattern)


def test_only_ranges_are_expanded_in_commands() -> None:
    command = r"pipe:awk '{print}' x\ {a,b} {09..10} {0..1}"
    wanted = [command.replace("{09..10}", first).replace("{0..1}", second) for first in ("09", "10") for second in "01"]
    assert expand_braces(command, only_ranges=True) == wanted
    assert expand_braces("plain", only_ranges=True) == ["plain"]


@pytest.mark.parametrize("size", ["-1", "1XB", ""])
def test_wrong_sizes(size: str) -> None:
    with pytest.raises(ValueError, match=r"invalid size .*: write 500MB, 1GiB or a number of bytes"):
        parse_bytes(size)


@pytest.mark.parametrize(("size", "error"), [(-1, ValueError), (True, TypeError), (2.5, TypeError)])
def test_wrong_numbers(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"size=.*: expected a whole number from 0 bytes, or text such as 500MB or 1GiB"):
        parse_bytes(size)


def test_numbers_of_numpy() -> None:
    assert parse_bytes(np.int64(10)) == 10  # type: ignore[arg-type]

"""Ranges and content types."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.viewer.stored import UnsatisfiableRange, media_type, requested_range


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-", (0, 100)),
        ("bytes=10-19", (10, 20)),
        ("bytes=90-500", (90, 100)),
        ("bytes=-10", (90, 100)),
        ("bytes=-500", (0, 100)),
        ("bytes=5-4", None),
        ("bytes=0-1,5-6", None),
        ("items=0-1", None),
        ("bytes=-", None),
        ("nonsense", None),
    ],
)
def test_ranges(header: str | None, expected: tuple[int, int] | None) -> None:
    assert requested_range(header, 100) == expected


@pytest.mark.parametrize("header", ["bytes=100-", "bytes=-0", f"bytes={10**30}-"])
def test_ranges_without_bytes(header: str) -> None:
    with pytest.raises(UnsatisfiableRange):
        requested_range(header, 100)


@given(st.one_of(st.text(), st.from_regex(r"bytes=\d{0,25}-\d{0,25}", fullmatch=True)), st.integers(0, 1 << 40))
def test_any_header_gives_a_range_inside_the_value(header: str, size: int) -> None:
    try:
        found = requested_range(header, size)
    except UnsatisfiableRange:
        return
    assert found is None or 0 <= found[0] < found[1] <= size


@pytest.mark.parametrize(
    "head",
    [
        b"<svg xmlns='http://www.w3.org/2000/svg'>",
        b"<!doctype html>",
        b"<html>",
        b"%PDF-1.7",
        b"",
        b"MZ",
        b"{}",
        b"<?xml",
    ],
)
def test_what_can_run_is_never_shown_inline(head: bytes) -> None:
    assert media_type(head) is None


def test_media_types() -> None:
    assert media_type(b"\xff\xd8\xff\xe0") == "image/jpeg"
    assert media_type(b"RIFF\0\0\0\0WEBPVP8 ") == "image/webp"
    assert media_type(b"RIFF\0\0\0\0WAVEfmt ") == "audio/wav"
    assert media_type(b"\0\0\0\x20ftypisom") == "video/mp4"

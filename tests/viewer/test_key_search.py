"""Finding keys by text, against the obvious way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._index.table import Keys
from bushel.viewer import key_search
from bushel.viewer.key_search import keys_with


def lower(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape").lower()


@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
@given(
    keys=st.lists(st.text("abAB/é", max_size=6), max_size=30),
    text=st.text("abAB/é", max_size=4),
    prefix=st.booleans(),
)
def test_the_same_keys_as_one_by_one(chunk: int, keys: list[str], text: str, prefix: bool) -> None:
    before, key_search._CHUNK = key_search._CHUNK, chunk
    try:
        found = keys_with(Keys.of(keys), text, prefix=prefix).tolist()
    finally:
        key_search._CHUNK = before
    test = bytes.startswith if prefix else bytes.__contains__
    assert found == [row for row, key in enumerate(keys) if test(lower(key), lower(text))]

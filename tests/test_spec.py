from __future__ import annotations

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel.errors import SpecError
from bushel.spec import KEY, Field, format_spec, parse_spec, wider

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=9).filter(
    lambda name: name != KEY
)
WORDS = st.text(string.ascii_lowercase + string.digits + "_-", min_size=1, max_size=9)
PARAMETERS = st.text(string.ascii_letters + string.digits + "_.,-()", max_size=12)
CODECS = st.one_of(WORDS, st.builds("{}({})".format, WORDS, PARAMETERS))
TYPES = st.builds(lambda codec, sequence: codec + "[]" * sequence, CODECS, st.booleans())


def test_types_as_a_spec_spells_them() -> None:
    spec = parse_spec({"image": "jpg", "frames": "jpg[]", "array": "array(float32,64,128)", "arrays": "array(u1,2)[]"})
    assert list(spec.values()) == [
        Field("image", "jpg"),
        Field("frames", "jpg", sequence=True),
        Field("array", "array(float32,64,128)"),
        Field("arrays", "array(u1,2)", sequence=True),
    ]
    assert [field.type for field in spec.values()] == ["jpg", "jpg[]", "array(float32,64,128)", "array(u1,2)[]"]


@given(st.dictionaries(NAMES, TYPES, max_size=8))
def test_round_trip_in_order(types: dict[str, str]) -> None:
    fields = parse_spec(types)
    assert format_spec(fields) == types
    assert list(format_spec(fields)) == list(types)
    assert all(name == field.name for name, field in fields.items())


@pytest.mark.parametrize("name", ["", KEY, "a\0b", "caf\udce9", 3, None, b"bytes"])
def test_names_that_no_field_can_have(name: Any) -> None:
    with pytest.raises(SpecError, match="name of a field"):
        parse_spec({name: "jpg"})


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "[]",
        "jpg[",
        "jpg[][]",
        "jpg[3]",
        "JPG",
        "jpg ",
        " jpg",
        "jpg\n",
        "a(",
        "a)",
        "a(b)c",
        "a b",
        3,
        None,
        ["jpg"],
    ],
)
def test_malformed_types(kind: Any) -> None:
    with pytest.raises(SpecError, match="malformed type .*: write a text such as 'int'"):
        parse_spec({"image": kind})


@pytest.mark.parametrize("spec", [None, [("a", "jpg")], "jpg", 3])
def test_a_spec_is_a_mapping(spec: Any) -> None:
    with pytest.raises(SpecError, match="mapping"):
        parse_spec(spec)


@given(st.text(max_size=60))
def test_any_text_as_a_type_is_taken_back_or_refused(kind: str) -> None:
    try:
        fields = parse_spec({"a": kind})
    except SpecError:
        return
    assert format_spec(fields) == {"a": kind}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("int", "int", "int"),
        ("int", "uint", "int"),
        ("uint", "float", "float"),
        ("int", "utf8", "json"),
        ("json", "float", "json"),
        ("jpg", "png", "jpg"),
        ("json", "image", "json"),
        ("bool", "int", "json"),
        ("bool", "float", "json"),
        ("utf8", "bool", "json"),
        ("datetime64(ms)", "datetime64(us)", "datetime64(us)"),
        ("datetime64(s)", "datetime64(D)", "datetime64(s)"),
        ("timedelta64(us)", "timedelta64(ns)", "timedelta64(ns)"),
        ("timedelta64(us)", "datetime64(ns)", "timedelta64(us)"),
    ],
)
def test_a_type_that_holds_the_values_of_two(first: str, second: str, expected: str) -> None:
    assert wider(Field("x", first), Field("x", second)) == Field("x", expected)
    if expected not in (first, second):
        assert wider(Field("x", second), Field("x", first)) == Field("x", expected)

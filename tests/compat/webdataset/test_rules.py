import re
from typing import Any

import pytest

from bushel.compat.webdataset.jl import Continue, Rename, allsplitext, clsdecode, map_by_rules
from bushel.errors import CodecError


def double(value: Any) -> Any:
    return value * 2


def test_the_first_rule_that_matches_counts() -> None:
    sample = {"__key__": "a", ".left.jpg": "l", ".cls": 3, ".txt": "t"}
    rules = [(".jpg", str.upper), (".left.jpg", double), (".cls", double), ("", lambda x: x)]
    assert map_by_rules(sample, rules) == {"__key__": "a", ".left.jpg": "L", ".cls": 6, ".txt": "t"}


def test_a_field_without_a_rule_is_dropped_and_metadata_stay() -> None:
    assert map_by_rules({"__key__": "a", "_x": 1, ".cls": 3, ".txt": "t"}, [(".cls", double)]) == {
        "__key__": "a",
        "_x": 1,
        ".cls": 6,
    }


def test_the_empty_rule_matches_everything() -> None:
    sample = {"__key__": "a", ".b": 1, ".c.d": 2}
    assert map_by_rules(sample, [("", lambda x: x)]) == sample


def test_suffixes_match_in_any_case_and_fields_keep_theirs() -> None:
    assert map_by_rules({".IMG.JPG": 1, ".b": 2}, [(".jpg", double)]) == {".IMG.JPG": 2}


def test_regular_expressions_are_searched_for() -> None:
    rules = [(re.compile(r"^\.(left|right)\."), double)]
    assert map_by_rules({".Left.png": 1, ".x.left.png": 2, ".right.jpg": 3}, rules) == {".Left.png": 2, ".right.jpg": 6}


@pytest.mark.parametrize("rule", [re.compile(r"\.(jpg|png)$"), ".jpg"])
def test_rename_changes_the_matching_portion(rule: Any) -> None:
    found = map_by_rules({".left.jpg": 1, ".right.jpg": 2, ".JPG": 3}, [(Rename(rule, ".img"), double)])
    assert found == {".left.img": 2, ".right.img": 4, ".img": 6}


def test_two_fields_with_one_name_are_an_error() -> None:
    with pytest.raises(ValueError, match=r"sample 'k' become '.img': '.png' is the second"):
        map_by_rules({"__key__": "k", ".jpg": 1, ".png": 2}, [(Rename(re.compile(r"\.(jpg|png)$"), ".img"), double)])


def test_continue_tries_the_next_rules_with_the_same_value() -> None:
    rules: Any = [(Continue(".jpg", ".raw"), lambda x: x), (Rename(".jpg", ".img"), double), ("", str)]
    assert map_by_rules({".jpg": 1, ".cls": 5}, rules) == {".raw": 1, ".img": 2, ".cls": "5"}


def test_types_are_rules_too() -> None:
    assert map_by_rules({".a": 1, ".b": "x"}, [(int, double), (Continue(str), double)]) == {".a": 2, ".b": "xx"}


def test_rules_may_be_a_dict() -> None:
    assert map_by_rules({".a": 1, ".b": 2}, {".b": double, "": lambda x: x}) == {".a": 1, ".b": 4}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("a.left.jpg", ("a", ".left.jpg")),
        ("dir.x/a.b", ("dir.x/a", ".b")),
        ("dir/.foo", ("dir/", ".foo")),
        ("a.", ("a", ".")),
        ("é.JPG", ("é", ".JPG")),
        ("abc", (None, None)),
        ("dir/abc", (None, None)),
        (".foo", (None, None)),
    ],
)
def test_allsplitext(name: str, split: tuple[str | None, str | None]) -> None:
    assert allsplitext(name) == split


def test_classes_are_six_digits() -> None:
    assert [clsdecode(text) for text in (b"7", b" -999999\n", b"999999")] == [7, -999999, 999999]
    with pytest.raises(ValueError, match="1000000 is out of range"):
        clsdecode(b"1000000")
    with pytest.raises(CodecError, match="decimal text"):
        clsdecode(b"x")

"""The comparison of random calls: it sees differences, and pages describe those that it accepts."""

from __future__ import annotations

import importlib
import itertools
import random
import sys
from typing import Any

import pytest
from tests.compat.originals import python_of
from tests.paths import ROOT

CALLS = ROOT / "interop" / "calls"
sys.path.insert(0, str(CALLS))
compare_calls: Any = importlib.import_module("compare_calls")
difference: Any = importlib.import_module("difference")
documented: Any = importlib.import_module("documented")
grammar: Any = importlib.import_module("grammar")


def test_templates_are_filled() -> None:
    tables = {"a": ("1", "2"), "b": ("<a>", "x")}
    made = set(itertools.islice(grammar.statements(random.Random(0), {"f(<b>)": 3, "g(<a#>, <a#>)": 1}, tables), 5))
    assert made == {"f(1)", "f(2)", "f(x)", "g(1, 1)", "g(2, 2)"}
    again = grammar.statements(random.Random(0), {"h(<b*>)": 1}, tables)
    assert len(set(itertools.islice(again, 30))) == 30


def outcome(**what: Any) -> dict[str, Any]:
    return {"given": [], "printed": "", "files": {}, "removed": [], **what}


def test_what_is_alike() -> None:
    alike = compare_calls.alike
    assert alike(outcome(given=[1]), outcome(given=[1]))
    assert not alike(outcome(given=[1]), outcome(given=[2]))
    assert not alike(outcome(given=[1]), outcome(given=[1], printed="x"))
    assert not alike(outcome(), outcome(files={"a": "1 bytes"}))
    assert not alike(outcome(), outcome(raises=["ValueError"]))
    assert not alike(outcome(raises=["ValueError"]), outcome())
    own = outcome(raises=["OwnError", "FormatError", "ValueError", "Exception"])
    assert alike(outcome(raises=["ValueError", "Exception"], message="x"), own)
    assert not alike(outcome(raises=["KeyError", "LookupError"]), own)
    assert not alike(outcome(hangs=True), outcome())


def test_which_signatures_are_accepted() -> None:
    def signature(*parameters: Any) -> dict[str, Any]:
        return outcome(given=[["signature", list(parameters)]])

    one, two = ["a", "POSITIONAL_OR_KEYWORD", "needed"], ["b", "POSITIONAL_OR_KEYWORD", 3]
    more = ["c", "KEYWORD_ONLY", None]
    assert compare_calls.alike(signature(one, two), signature(one, two, more))
    assert not compare_calls.alike(signature(one, two), signature(two, one))
    assert not compare_calls.alike(signature(one, two), signature(one))
    assert not compare_calls.alike(signature(one), signature(one, ["d", "KEYWORD_ONLY", "needed"]))
    assert not compare_calls.alike(signature(two), signature(["b", "POSITIONAL_OR_KEYWORD", 4]))


def test_a_documented_difference_explains_itself_only() -> None:
    left = difference.Documented("a failed writer leaves a file", call="Writer", apart=("files",))
    original, dropin = outcome(raises=["OSError"], files={"a": "1 bytes"}), outcome(raises=["OSError"])
    assert left.explains("Writer()", original, dropin)
    assert not left.explains("Reader()", original, dropin)
    assert not left.explains("Writer()", original, outcome(raises=["KeyError"]))
    assert not left.explains("Writer()", original, outcome())
    order = difference.Documented("the order of keys", apart=("order",))
    one, other = (
        ["map", [["a", 1], ["b", ["map", [["c", 2], ["d", 3]]]]]],
        ["map", [["b", ["map", [["d", 3], ["c", 2]]]], ["a", 1]]],
    )
    assert order.explains("f()", outcome(given=[one]), outcome(given=[other]))
    assert not order.explains("f()", outcome(given=[one]), outcome(given=[["map", [["a", 1]]]]))


@pytest.mark.parametrize("name", compare_calls.ORIGINALS)
def test_pages_describe_every_accepted_difference(name: str) -> None:
    module: Any = importlib.import_module(f"{name}_calls")
    page = " ".join((ROOT / "docs" / module.SETUP.page).read_text("utf-8").split())
    assert [one.words for one in documented.DOCUMENTED[name] if " ".join(one.words.split()) not in page] == []


@pytest.mark.parametrize("name", compare_calls.ORIGINALS)
def test_every_table_is_used(name: str) -> None:
    module: Any = importlib.import_module(f"{name}_calls")
    texts = [*module.TEMPLATES, *(one for choices in module.TABLES.values() for one in choices)]
    used = {match[1] for text in texts for match in grammar.PLACE.finditer(text)}
    assert used == module.TABLES.keys()


@pytest.mark.interop
@pytest.mark.parametrize("name", compare_calls.ORIGINALS)
def test_calls_give_the_same(name: str) -> None:
    """At least 2,000 random calls of each original, with the documented differences as the only ones."""
    module: Any = importlib.import_module(f"{name}_calls")
    python_of(module.SETUP.environment)
    report = compare_calls.compare(name, compare_calls.CALLS, seed=0)
    assert len(report.compared) >= 2000
    assert [each.call for each in report.different] == []

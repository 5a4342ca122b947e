"""The source and the pages are in plain English: turns of phrase that readers stumble over do not come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.paths import ROOT

_ANY_CASE = (
    r"so-manieth|that is none|begin anew|made anew|who hears of it|so many|anew|who(?:m|so)?ever|in vain"
    r"|let(?:s|ting)? go|nevertheless|and so on|orientation says|shall|from which on|can be had|other ones than"
    r"|(?:is|are|was|were) no (?!longer|more|larger|smaller)\w+|those of"
    r"|(?<!\. )of which|be it|where (?:they lie|it lies)|whatever|but for|behind|told|tells|what (?:is|are)"
    r"|lies?(?! inside)|lain|(?<!a )(?<!many )pass(?:ed|es|ing)? over(?! all)|besides|on record|for ever|meanwhile"
    r"|of a rank|(?<!there )is another one|the begin of|ends? with the viewer|concluded from|taken? (?:it )?back"
    r"|waits twice for|no partner|without a partner|(?:comes|that comes) (?:once|twice) in"
    r"|are as without|how far a run|imply a container|as a part of a dataset is"
    r"|(?:begins?|read) so(?! far)|(?:is|are|was|were|be) taken for (?:a|an|one|data)"
)
_THIS_CASE = (
    r"Returns? what|(?:Yield|Raise) what|returns what|(?<!position )(?<!found )(?<!diff )(?:is|are) none"
    r"|(?<=[:.] )That of"
    r"|(?:(?<=[.:] )|(?<=\n))Of (?:the|an?|this|these|what|all|each|those)"
)
ODD = re.compile(rf"\b(?:(?i:{_ANY_CASE})|{_THIS_CASE})\b".replace(" ", r"[ \n]"))
_MARGIN = re.compile(r'^[ \t]*(?://+|#+|\*|f?"+)?[ \t]*', re.MULTILINE)
_SUFFIXES = (".py", ".pyi", ".cpp", ".hpp", ".js", ".html", ".md")


def _files(*folders: str) -> list[Path]:
    return [each for name in folders for each in sorted((ROOT / name).rglob("*")) if each.suffix in _SUFFIXES]


PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *_files("changes"),
]


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(PAGES, id="pages"),
        pytest.param(_files("src"), id="source"),
        pytest.param(_files("examples", "benchmarks"), id="examples-and-benchmarks"),
    ],
)
def test_no_odd_turns_of_phrase(paths: list[Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {odd!r}"
        for path in paths
        for number, odd in _odd_phrases(path.read_text("utf-8"))
    ]
    assert not found, "\n".join(found)


def _odd_phrases(text: str) -> Iterator[tuple[int, str]]:
    """Yield the odd phrases of a text, also those that a line break divides, with the numbers of their lines."""
    plain = _MARGIN.sub("", f"\n{text}")
    for odd in ODD.finditer(plain):
        yield plain.count("\n", 0, odd.start()), odd[0]

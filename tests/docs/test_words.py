"""The source and the pages are in plain English: turns of phrase that readers stumble over do not come back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.paths import ROOT

ODD = re.compile(  # "there is no file" is plain, "a folder is no file" is not
    r"so-manieth|\bthat is none\b|begin anew|made anew|who hears of it|\bso many\b|\banew\b|\bwhoever\b"
    r"|\bin vain\b|\blet go\b|\bnevertheless\b|\band so on\b|orientation says"
    r"|\bshall\b|\bfrom which on\b|\bcan be had\b|\bother ones than\b"
    r"|\b(?<!here )(is|are) no (?!longer|more|other|larger|smaller)\w+"
    r"|\b[Tt]hose of\b|\b(Return|Yield|Raise) what\b|(: |\. |\"\"\")That of\b"
    r"|\bof which (there|each|every|some|none|no|only)\b|\bbe it\b|\bwhatever\b|\b(begins?|read) so\b(?! far)"
    r"|\b(is|are|was|were|be) taken for (a|an|one|data)\b|\bbut for\b|\b(is|are) none of\b|\bbehind (it|them)\b"
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
SOURCES = [path for path in sorted((ROOT / "src").rglob("*")) if path.suffix in (".py", ".pyi", ".cpp", ".hpp")]


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(PAGES, id="pages"),
        pytest.param(SOURCES, id="source"),
    ],
)
def test_no_odd_turns_of_phrase(paths: list[Path]) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {odd[0]!r}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for odd in ODD.finditer(line)
    ]
    assert not found, "\n".join(found)

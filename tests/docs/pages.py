"""What pages of documentation show, taken out of them and run."""

from __future__ import annotations

import ast
import re
from typing import Any

from tests.paths import ROOT

RESULT = re.compile(r"  # → (.*)$")


def blocks(page: str, language: str) -> list[str]:
    """The blocks of this language, in the order of the page."""
    text = (ROOT / page).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def run(page: str, source: str, names: dict[str, Any]) -> int:
    """Run a block; where a line ends in `# → X`, the value of its expression must be X. Returns the number of these."""
    compared = 0
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        expected = RESULT.search(lines[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr) and expected:
            code = compile(ast.Expression(statement.value), page, "eval")
            assert repr(eval(code, names)) == expected[1]
            compared += 1
        else:
            exec(compile(ast.Module([statement], []), page, "exec"), names)
    return compared

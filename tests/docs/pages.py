"""What pages of documentation show, taken out of them and run."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator
from typing import Any

from click.testing import CliRunner
from tests.paths import ROOT

from bushel.cli.app import app

RESULT = re.compile(r"  # → (.*)$")
_BLOCK = re.compile(
    r"^(?P<skip><!-- not run: [^\n]+ -->\n)?```(?P<language>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL
)
_NUMBER = re.compile(r"\b[0-9a-f]{64}\b|\d[\d,.]*\d|\d")
_MEASURED = re.compile(r"[\d,.]+(?= ([kMG]?B|s|ms)\b)|[\d,.]+(?=/s)|(?<= )[\d,]{3,}")
"""Sizes of encoded images and times, which differ from machine to machine."""


def blocks(page: str, language: str) -> list[str]:
    """The blocks of this language, in the order of the page."""
    text = (ROOT / page).read_text("utf-8")
    return [found["text"] for found in _BLOCK.finditer(text) if found["language"] == language]


def shown(page: str) -> Iterator[tuple[str, str]]:
    """Yield language and text of all blocks of a page that are run, in order."""
    for found in _BLOCK.finditer((ROOT / page).read_text("utf-8")):
        if not found["skip"]:
            yield found["language"], found["text"]


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


def commands_of(source: str) -> list[str]:
    """Return the commands of a block of a shell: its lines without comments, joined where a line goes on."""
    lines = source.replace("\\\n", " ").replace(" && ", "\n").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def run_commands(source: str) -> str:
    """Run lines of `bushel`, and of scripts that these wrote, and return what they print."""
    printed = ""
    for line in commands_of(source):
        words = shlex.split(line, comments=True)
        if words[0].startswith("./"):
            printed += subprocess.run(words, check=True, capture_output=True, text=True).stdout
            continue
        assert words[0] == "bushel", line
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code == 0, (line, done.output)
        printed += done.output
    return printed


def run_session(text: str, codes: Collection[int] = (0,)) -> int:
    """Run the commands of a block `console`, and compare what they print, up to numbers. Returns how many were run.

    Numbers are left out because sizes of encoded images, and so offsets and checksums, differ between machines.

    Args:
        text: Lines of `$ COMMAND`, each followed by what it prints.
        codes: The exit codes that are expected.
    """
    commands = 0
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, expected = part.partition("\n")
        words = shlex.split(line)
        assert words[0] == "bushel", line
        done = CliRunner().invoke(app, words[1:])
        assert done.exit_code in codes, (line, done.output)
        assert _masked(done.output) == _masked(expected), done.output
        commands += 1
    return commands


def _masked(text: str) -> list[str]:
    return _NUMBER.sub("#", text).split()


def without_measures(text: str) -> list[str]:
    """Return the words of an output, without sizes of images, times, and the spaces that align them."""
    return _MEASURED.sub("#", text).split()


def run_whole(page: str, names: dict[str, Any] | None = None) -> int:
    """Run all blocks of a page in order, and compare their results with the page.

    A block `text` after commands is what these print, up to sizes of images and times. Returns the number of results
    and outputs that were compared.
    """
    names = {} if names is None else names
    compared, printed = 0, None
    for language, text in shown(page):
        if language == "python":
            compared += run(page, text, names)
        elif language == "sh":
            printed = run_commands(text)
        elif language == "text" and printed is not None:
            assert without_measures(printed) == without_measures(text), printed
            compared, printed = compared + 1, None
    return compared

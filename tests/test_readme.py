"""What the README shows is run, and what it says comes out is what comes out."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
RESULT = re.compile(r"  # → (.*)$")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def run(source: str, names: dict[str, Any]) -> int:
    """Run a block; where a line ends in `# → X`, the value of its expression must be X. Returns the number of these."""
    compared = 0
    lines = source.splitlines()
    for statement in ast.parse(source).body:
        expected = RESULT.search(lines[(statement.end_lineno or 1) - 1])
        if isinstance(statement, ast.Expr) and expected:
            code = compile(ast.Expression(statement.value), str(README), "eval")
            assert repr(eval(code, names)) == expected[1]
            compared += 1
        else:
            exec(compile(ast.Module([statement], []), str(README), "exec"), names)
    return compared


def test_the_tour_runs_and_says_what_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    assert sum(run(block, names) for block in blocks("python")) == 7
    assert names["batch"]["image"].shape == (4, 48, 64, 3)
    assert names["batch"]["label"].shape == (4,)
    assert names["batch"]["label"].dtype == "int64"
    [commands] = [block for block in blocks("sh") if block.startswith("bushel ")]
    bushel = shutil.which("bushel", path=str(Path(sys.executable).parent))
    assert bushel is not None
    for command in commands.splitlines():
        done = subprocess.run([bushel, *command.split()[1:]], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout


def test_the_three_shards_of_the_tour_are_plain_tar_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run(blocks("python")[0], {})
    shards = sorted(path.name for path in Path("train").iterdir() if path.name != ".bushel")
    assert len(shards) == 3
    assert all(name.endswith(".tar") for name in shards)


def test_links_lead_to_files() -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", README.read_text("utf-8"))
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []

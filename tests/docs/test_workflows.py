"""Workflows of GitHub call make targets that are there, with pinned actions and few permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.paths import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))


def steps(workflow: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            yield job, step


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_jobs_call_make_targets(path: Path) -> None:
    called = 0
    for job, step in steps(yaml.safe_load(path.read_text("utf-8"))):
        for command in re.findall(r"^make (.+)$", step.get("run", ""), re.MULTILINE):
            matrix = job.get("strategy", {}).get("matrix", {})
            for word in command.split():
                if "=" in word:
                    continue
                name = word.strip('"')
                if "$" not in name:
                    assert name in TARGETS
                elif name == "$TARGET":
                    assert {each["target"] for each in matrix["include"]} <= TARGETS
                else:
                    assert {name.replace("$WHICH", which) for which in matrix["which"]} <= TARGETS
            called += 1
    assert called


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_and_may_do_little(path: Path) -> None:
    text = path.read_text("utf-8")
    uses = re.findall(r"uses: (.+)$", text, re.MULTILINE)
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in uses)
    workflow = yaml.safe_load(text)
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        assert job.get("timeout-minutes")
        granted = {name for name, right in job.get("permissions", {}).items() if right == "write"}
        assert granted <= ({"id-token"} if path.stem == "release" else {"pages", "id-token", "contents"})
        assert not granted or path.stem in ("release", "docs")

"""Workflows of GitHub call make targets that are there, with pinned actions and few permissions; one skips no tests."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.paths import ROOT

yaml = pytest.importorskip("yaml")

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
MAKEFILES = [ROOT / "Makefile", ROOT / "make/extra.mk"]
TARGETS = {name for path in MAKEFILES for name in re.findall(r"^([a-z0-9-]+):", path.read_text("utf-8"), re.MULTILINE)}

ELSEWHERE = {"grain": "pip install --no-deps grain", "playwright": "make browser", "psutil": "make cluster"}
"""Packages that the targets of tests that need them install, or that ask for others than the extras, as Grain does."""
IMPORTED_AS = {
    "array_record": "array-record",
    "av": "av",
    "IPython": "ipython",
    "cv2": "opencv-python-headless",
    "pillow_heif": "pillow-heif",
    "pillow_jxl": "pillow-jxl-plugin",
    "upath": "universal-pathlib",
    "yaml": "pyyaml",
}


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
                    assert {target for each in matrix["include"] for target in each["target"].split()} <= TARGETS
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


def test_help_lists_a_dozen_targets_and_help_all_the_rest() -> None:
    def listed(target: str) -> set[str]:
        command = ["make", "--silent", "--no-print-directory", target]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        return {line.split()[1] for line in printed.splitlines()}

    assert len(listed("help")) <= 12
    assert listed("help") < listed("help-all") == TARGETS


def _installed(groups: dict[str, list[Any]]) -> list[str]:
    """Return the requirements of `make test` and `make extras`."""
    return [each for name in ("build", "dev", "extras") for each in groups[name] if isinstance(each, str)]


def test_a_workflow_installs_what_tests_import_if_it_is_there() -> None:
    """Tests skip without packages of `make extras`, which the job of the coverage calls."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    there = {re.split(r"[\[>]", each)[0] for each in _installed(groups)}
    texts = (path.read_text("utf-8") for path in (ROOT / "tests").rglob("*.py"))
    names = {name for text in texts for name in re.findall(r"importorskip\(\"([\w.]+)\"", text)}
    packages = {name.partition(".")[0] for name in names} - {"tests", "bushel", "PIL"} - ELSEWHERE.keys()
    assert {IMPORTED_AS.get(name, name) for name in packages} <= there
    jobs = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text("utf-8"))["jobs"]
    assert "make extras coverage" in [step.get("run") for step in jobs["coverage"]["steps"]]


def test_extras_are_all_extras_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    groups = project["dependency-groups"]
    there = {re.split(r"[\[>]", each)[0] for each in _installed(groups)}
    extras = project["project"]["optional-dependencies"]
    needs_gpu = extras.pop("nvidia")  # its packages do nothing on machines without a GPU, where its tests skip
    assert all(each.startswith(("nvidia-", "torch")) for each in needs_gpu)
    assert {re.split(r"[\[>]", each)[0] for extra in extras.values() for each in extra} <= there

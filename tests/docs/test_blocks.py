"""Every block of code and commands on every page is run by a test, or has the reason why not beside it.

A new page, or a new block on a page, fails here until `RUN` names the test that runs it.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest
from tests.docs.pages import commands_of, shown
from tests.paths import ROOT

RUNNABLE = ("python", "sh", "console")
DATA = ("text", "json")
"""Languages of blocks that are not run: formats, drawings and files."""

WIDEST = 78
"""Columns of a line in a block."""

INSTALLATION = ("make ", "sudo ", "pip ", ".venv/bin/")
"""How blocks of `sh` begin that install or test a checkout, as workflows and `make installed` do."""

PAGES_TEST, SESSIONS, TUTORIALS = (f"tests/docs/test_{name}.py" for name in ("pages", "sessions", "tutorials"))

RUN: dict[str, tuple[dict[str, int], list[str]]] = {
    "README.md": ({"python": 1}, ["tests/docs/test_readme.py::test_the_example_runs"]),
    "docs/audit.md": ({"python": 2}, [f"{SESSIONS}::test_audit"]),
    "docs/chats.md": ({"python": 3}, [f"{SESSIONS}::test_chats"]),
    "docs/cli.md": ({"console": 3}, [f"{SESSIONS}::test_cli"]),
    "docs/cloud.md": ({"python": 2, "sh": 3}, ["tests/cloud/test_page.py::test_the_page"]),
    "docs/codecs.md": ({"python": 1}, [f"{SESSIONS}::test_codecs"]),
    "docs/columns.md": ({"python": 3, "sh": 2}, [f"{PAGES_TEST}::test_columns"]),
    "docs/compat-ffrecord.md": ({"python": 1}, [f"{SESSIONS}::test_ffrecord"]),
    "docs/compat-gulpio2.md": ({"python": 1, "sh": 1}, [f"{SESSIONS}::test_gulpio2"]),
    "docs/compat-mxnet.md": ({"python": 2}, [f"{SESSIONS}::test_mxnet"]),
    "docs/compat-webdataset.md": ({"python": 1, "sh": 1}, [f"{SESSIONS}::test_webdataset"]),
    "docs/compat.md": ({"sh": 1}, [f"{SESSIONS}::test_drop_ins"]),
    "docs/extending.md": ({"python": 5}, [f"{PAGES_TEST}::test_extending"]),
    "docs/format-arrow.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-csv.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-folder.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-jsonl.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-megatron.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-npy.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-parquet.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-zip.md": ({"python": 2}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-tar.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-tfrecord.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-arrayrecord.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-lerobot.md": ({"python": 2}, [f"{PAGES_TEST}::test_robots"]),
    "docs/format-litdata.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/format-mds.md": ({"python": 1}, [f"{PAGES_TEST}::test_formats"]),
    "docs/frameworks.md": (
        {"python": 1, "sh": 4},
        [f"{TUTORIALS}::test_frameworks", "tests/examples/test_ranks.py::test_two_processes_are_killed_and_resume"],
    ),
    "docs/get-started.md": ({"python": 6, "sh": 3}, [f"{TUTORIALS}::test_get_started"]),
    "docs/hangs.md": ({"sh": 1}, ["tests/docs/test_hangs.py::test_the_cases_are_as_the_page_says"]),
    "docs/images.md": ({"python": 2}, [f"{PAGES_TEST}::test_images"]),
    "docs/index.md": ({"python": 3, "sh": 1}, [f"{PAGES_TEST}::test_index", f"{SESSIONS}::test_the_key_file"]),
    "docs/integrations.md": ({"python": 7}, [f"{PAGES_TEST}::test_integrations"]),
    "docs/integrity.md": (
        {"console": 2, "python": 3},
        [f"{PAGES_TEST}::test_integrity", f"{SESSIONS}::test_integrity"],
    ),
    "docs/joins.md": ({"python": 6}, [f"{PAGES_TEST}::test_joins"]),
    "docs/loading.md": ({"python": 9}, [f"{PAGES_TEST}::test_loading"]),
    "docs/loading-inside.md": ({"python": 1}, [f"{PAGES_TEST}::test_loading"]),
    "docs/loading-machines.md": ({"python": 1}, [f"{PAGES_TEST}::test_loading"]),
    "docs/loading-orders.md": ({"python": 4, "sh": 1}, [f"{PAGES_TEST}::test_loading"]),
    "docs/packing.md": ({"python": 5, "sh": 1}, [f"{PAGES_TEST}::test_packing"]),
    "docs/reading-at-scale.md": ({"python": 1}, ["tests/cluster/test_pages.py::test_ray_train"]),
    "docs/references.md": ({"python": 2, "sh": 1}, [f"{PAGES_TEST}::test_references"]),
    "docs/growth.md": ({"python": 5}, [f"{SESSIONS}::test_growth"]),
    "docs/removal.md": ({"console": 2, "python": 3, "sh": 1}, [f"{SESSIONS}::test_removal"]),
    "docs/scale-out.md": ({"python": 2, "sh": 2}, [f"{PAGES_TEST}::test_scale_out"]),
    "docs/seek-tables.md": ({"sh": 1}, [f"{SESSIONS}::test_seek_tables"]),
    "docs/ten-million-photos.md": ({"python": 1, "sh": 4}, ["tests/cluster/test_pages.py::test_ten_million_photos"]),
    "docs/cards.md": ({"python": 1, "sh": 1}, [f"{SESSIONS}::test_cards"]),
    "docs/tiled-jpeg.md": ({"python": 2, "sh": 1}, [f"{PAGES_TEST}::test_tiled_jpeg", f"{SESSIONS}::test_tiled_jpeg"]),
    "docs/tokens.md": ({"python": 6}, [f"{TUTORIALS}::test_tokens"]),
    "docs/video.md": ({"python": 1}, [f"{PAGES_TEST}::test_video"]),
    "docs/views.md": ({"python": 4, "sh": 1}, [f"{SESSIONS}::test_views"]),
    "docs/view.md": ({"python": 1}, [f"{PAGES_TEST}::test_view"]),
}
"""Page to the number of its blocks by language, and the tests that run them all."""

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def counted(page: str) -> dict[str, int]:
    """Return the number of blocks that are to be run, by language."""
    found = ((language, text) for language, text in shown(page) if language in RUNNABLE)
    return dict(
        Counter(
            language
            for language, text in found
            if language != "sh" or not commands_of(text)[0].startswith(INSTALLATION)
        )
    )


@pytest.mark.parametrize("page", PAGES)
def test_a_test_runs_the_blocks(page: str) -> None:
    expected, tests = RUN.get(page, ({}, []))
    assert counted(page) == expected, f"do {tests or 'any tests'} run the new blocks?"
    for test in tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text("utf-8")
        functions = {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
        assert name in functions
        assert Path(page).name in text


@pytest.mark.parametrize("page", PAGES)
def test_commands_and_code_are_marked_as_such(page: str) -> None:
    for found in FENCE.finditer((ROOT / page).read_text("utf-8")):
        language, text = found[1], found[2]
        assert language in ("", *RUNNABLE, *DATA), f"{page}: a block of {language}"
        if language not in RUNNABLE:
            assert not re.search(r"^(\$ |bushel |make |pip |import |from \w+ import )", text, re.MULTILINE), (
                f"{page}:\n{text}"
            )


@pytest.mark.parametrize("page", PAGES)
def test_code_fits_the_site(page: str) -> None:
    """A longer line is cut off beside the table of contents. Only test vectors, one per line, may be longer."""
    for found in FENCE.finditer((ROOT / page).read_text("utf-8")):
        long = [line for line in found[2].splitlines() if len(line) > WIDEST and not _is_vector(line)]
        assert not long, f"{page}: {long}"


def _is_vector(line: str) -> bool:
    return line.startswith("{") and line.endswith("}")


def test_reasons_are_given() -> None:
    for page in PAGES:
        for reason in re.findall(r"<!-- not run: ([^\n]*?) -->", (ROOT / page).read_text("utf-8")):
            assert len(reason) > 5 or reason == "…"  # which CONTRIBUTING.md has
            for place in re.findall(r"tests/[\w/.]+", reason):
                assert (ROOT / place).exists(), f"{page}: {reason}"

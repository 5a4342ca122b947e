"""Draw the plots of docs/benchmarks.md from the tables of the pages, so that plots and tables agree.

    python scripts/draw_benchmarks.py    # writes docs/benchmarks-*.svg

`tests/docs/test_plots.py` checks that the committed plots are up to date.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

__all__ = ["PLOTS", "Panel", "draw", "table_after"]

ROOT = Path(__file__).parent.parent
WIDTH, LEFT, BAR, GAP, MARGIN = 960, 380, 18, 18, 16
OURS, OTHERS, LIMIT = "#0969da", "#afb8c1", "#8250df"
EPYC = "2 processors of an AMD EPYC, November 2026"


@dataclass(frozen=True, slots=True)
class Panel:
    """One group of bars: a column of a table.

    Attributes:
        title: The measured quantity.
        page: The page with the table.
        after: Text of the page before the table; the next table is read.
        column: Number of the column, from 1.
        unit: Unit of the values.
        rows: First cells of the rows to show; empty for all.
        less: Whether less is better.
    """

    title: str
    page: str
    after: str
    column: int
    unit: str
    rows: Sequence[str] = ()
    less: bool = True


_PAGES = ("benchmarks-loading", "loading-inside", "benchmarks-reading", "benchmarks-cloud", "index")
LOADING, INSIDE, READING, CLOUD, INDEX = PAGES = [f"docs/{name}.md" for name in _PAGES]
LATENCY = "With latency (`--latency 5 50`"

PLOTS: Mapping[str, tuple[str, Sequence[Panel]]] = {
    "photos": (
        EPYC,
        [Panel("Photos: decode, crop, flip, batch; CPU time of an image", INSIDE, "# Measured", 2, "ms")],
    ),
    "tokens": (
        EPYC,
        [Panel("4,096 tokens of a shuffled batch; CPU time of a sample", LOADING, "## Loading of numbers", 3, "µs")],
    ),
    "records": (
        "a virtual machine with 2 processors, November 2026; granular, mxnet and array_record are in the table",
        [
            Panel(
                "Random reads of 200 bytes from memory, 256 a call; CPU time of a record",
                READING,
                "## Reads from memory",
                2,
                "µs",
                [
                    "*limit:* `numpy.take` of rows",
                    "*limit:* rows of a memmap",
                    "`ds.gather`, bag",
                    "`ds.gather`, tar",
                    "`ds.read(decode=False)`, bag",
                    "`ds.read(decode=False)`, tar",
                    "the same with CRC-32 checked, bag",
                    "bagz 0.3.8",
                    "lmdb 3.0.0",
                ],
            )
        ],
    ),
    "s3": (
        f"{EPYC}, which client, server and proxy share",
        [
            Panel("Random batches of 128 × 100 KB, 5 ms of latency", CLOUD, LATENCY, 1, "records/s", less=False),
            Panel("Random batches of 128 × 100 KB, 50 ms of latency", CLOUD, LATENCY, 3, "records/s", less=False),
            Panel("Epochs, 50 ms of latency", CLOUD, "## Epochs from S3", 4, "records/s", less=False),
        ],
    ),
    "opening": (
        "above: a virtual machine with 2 processors; below: " + EPYC,
        [
            Panel(
                "A million records, to the first one; for Bushel the slowest of five containers",
                READING,
                "## Opening 1,000,000 records",
                1,
                "ms",
            ),
            Panel(
                "100,000 shards of 10,000 samples, with the table of shards",
                INDEX,
                "`python benchmarks/opening.py --shards 100000`",
                1,
                "ms",
            ),
        ],
    ),
}
"""File of a plot to its note about the machine, and its panels."""

_OURS = re.compile(r"`?(bushel|Bushel|ds\.|Loader|load_state)|first batch|the same with CRC")
_LIMIT = re.compile(r"\*limit:\*|numpy\.take|rows of a memmap|obstore")


def table_after(page: str, text: str) -> list[tuple[str, list[str]]]:
    """Return the rows of the first table after a text: the first cell, and the others.

    Raises:
        ValueError: The page does not have the text once, or no table after it.
    """
    if page.count(text) != 1:
        raise ValueError(f"{text!r} is on the page {page.count(text)} times")
    found = re.search(r"^\|.*\n\|[-| :]+\n((?:\|.*\n)+)", page.partition(text)[2], re.MULTILINE)
    if found is None:
        raise ValueError(f"no table after {text!r}")
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in found[1].splitlines()]
    return [(first, rest) for first, *rest in rows if any(rest) and first]


def bars(panel: Panel, page: str) -> list[tuple[str, float, str]]:
    """Return (first cell, value, text) of the rows of a panel, the best one first.

    A cell with several values counts as the worst of them.
    """
    rows = dict(table_after(page, panel.after))
    chosen = panel.rows or list(rows)
    found = []
    for name in chosen:
        cell = rows[name][panel.column - 1]
        values = [(float(each.replace(",", "")), each) for each in re.findall(r"\d[\d,]*(?:\.\d+)?", cell)]
        value, text = (max if panel.less else min)(values)
        found.append((name, value, text.strip(",")))
    return sorted(found, key=lambda bar: bar[1], reverse=not panel.less)


def _label(name: str) -> str:
    plain = re.sub(r"[`*]", "", name).removeprefix("limit: ").partition(": tar,")[0]
    return plain if len(plain) <= 54 else plain[:53].rstrip(" ,") + "…"


def draw(note: str, panels: Sequence[Panel], pages: Mapping[str, str]) -> str:
    """Return a plot as SVG.

    Args:
        note: The note about the machine.
        panels: The groups of bars.
        pages: Path of each page to its text.
    """
    lines: list[str] = []
    top = MARGIN
    for panel in panels:
        better = "less is better" if panel.less else "more is better"
        title = f"{panel.title} ({better})"
        lines.append(f'<text x="{MARGIN}" y="{top + 14}" font-size="15" font-weight="600">{escape(title)}</text>')
        top += 26
        found = bars(panel, pages[panel.page])
        largest = max(value for _, value, _ in found)
        for name, value, text in found:
            width = (WIDTH - LEFT - 140) * value / largest
            fill = LIMIT if _LIMIT.search(name) else OURS if _OURS.match(name) else OTHERS
            lines += [
                f'<text x="{LEFT - 10}" y="{top + 14}" font-size="13" text-anchor="end">{escape(_label(name))}</text>',
                f'<rect x="{LEFT}" y="{top}" width="{max(width, 1):.1f}" height="{BAR}" rx="2" fill="{fill}"/>',
                f'<text x="{LEFT + width + 8:.1f}" y="{top + 14}" font-size="13">{escape(text)} {panel.unit}</text>',
            ]
            top += BAR + 4
        top += GAP
    kinds = {_LIMIT.search(name) is not None for panel in panels for name, _, _ in bars(panel, pages[panel.page])}
    legend = [("Bushel", OURS), ("others", OTHERS)]
    legend += [("plain array or client, no checks", LIMIT)] if True in kinds else []
    left = MARGIN
    for name, fill in legend:
        lines.append(f'<rect x="{left}" y="{top}" width="12" height="12" rx="2" fill="{fill}"/>')
        lines.append(f'<text x="{left + 18}" y="{top + 11}" font-size="12">{name}</text>')
        left += 40 + 7 * len(name)
    top += 24
    lines.append(f'<text x="{MARGIN}" y="{top + 11}" font-size="12">{escape(note[0].upper() + note[1:])}</text>')
    top += 12 + MARGIN
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="system-ui, sans-serif">',
        '<rect width="100%" height="100%" rx="6" fill="white"/>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


def drawings() -> dict[str, str]:
    """Return the name of each file in docs/ with its content."""
    pages = {page: (ROOT / page).read_text("utf-8") for page in PAGES}
    return {f"benchmarks-{name}.svg": draw(note, panels, pages) for name, (note, panels) in PLOTS.items()}


if __name__ == "__main__":
    for name, text in drawings().items():
        (ROOT / "docs" / name).write_text(text, encoding="utf-8")

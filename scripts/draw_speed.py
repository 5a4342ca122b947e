"""Draw the table of figures in docs/benchmarks.md as bars.

    python scripts/draw_speed.py    # writes docs/speed.svg

`tests/docs/test_readme.py` checks that the committed drawing is up to date.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

__all__ = ["draw", "read_rows"]

ROOT = Path(__file__).parent.parent
WIDTH, LEFT, BAR, GAP, MARGIN = 960, 220, 18, 14, 16
OURS, OTHERS = "#0969da", "#afb8c1"
_VALUE = re.compile(r"([\d.,]+) (\S+)$")


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the measured quantity, and (name, text, number) for each package."""

    title: str
    bars: tuple[tuple[str, str, float], ...]


def read_rows(page: str) -> list[Row]:
    """Return the rows of the table, given the text of docs/benchmarks.md."""
    table = page.partition("| | Bushel | others |")[2].partition("\n\n")[0]
    rows = []
    for line in table.splitlines()[2:]:
        title, ours, others = (cell.strip() for cell in line.strip("|").split("|"))
        title = re.sub(r" \(\[[^)]*\)\)", "", title)
        texts = [("Bushel", ours)]
        for each in re.split(r", (?=[a-zA-Z])", others):
            name = _VALUE.sub("", each).strip()
            texts.append((name, each.removeprefix(name).strip()))
        bars = []
        for name, text in texts:
            match = _VALUE.match(text)
            if match is None:
                raise ValueError(f"{text!r} is not a number with a unit")
            bars.append((name, text, float(match[1].replace(",", ""))))
        rows.append(Row(title, tuple(bars)))
    return rows


def draw(page: str) -> str:
    """Return the drawing as SVG, given the text of docs/benchmarks.md."""
    lines: list[str] = []
    top = MARGIN
    for row in read_rows(page):
        lines.append(f'<text x="{MARGIN}" y="{top + 14}" font-size="15" font-weight="600">{escape(row.title)}</text>')
        top += 24
        largest = max(number for _, _, number in row.bars)
        for name, text, number in row.bars:
            width = (WIDTH - LEFT - 110) * number / largest
            fill = OURS if name == "Bushel" else OTHERS
            lines += [
                f'<text x="{LEFT - 10}" y="{top + 14}" font-size="14" text-anchor="end">{escape(name)}</text>',
                f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" rx="2" fill="{fill}"/>',
                f'<text x="{LEFT + width + 8:.1f}" y="{top + 14}" font-size="14">{escape(text)}</text>',
            ]
            top += BAR + 4
        top += GAP
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top}" font-family="system-ui, sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    return "\n".join([*head, *lines, "</svg>", ""])


if __name__ == "__main__":
    (ROOT / "docs/speed.svg").write_text(draw((ROOT / "docs/benchmarks.md").read_text("utf-8")), encoding="utf-8")

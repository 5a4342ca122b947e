"""Draw the rooms of `src/bushel/` from the table in CONTRIBUTING.md.

    python scripts/draw_rooms.py    # writes docs/rooms.svg

`tests/docs/test_architecture.py` checks that the committed drawing is up to date.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

__all__ = ["draw", "read_floors"]

ROOT = Path(__file__).parent.parent
WIDTH, HEIGHT, MARGIN, GAP = 960, 66, 12, 8
PRIVATE, PUBLIC = "#eaeef2", "#ddf4ff"


def read_floors(page: str) -> Iterator[list[tuple[str, str]]]:
    """Yield the rooms of each floor with their descriptions, from the ground up."""
    table = page.partition("| rooms of `src/bushel/` |")[2].partition("\n\n")[0]
    for row in table.splitlines()[2:]:
        names, contents = (cell.strip() for cell in row.strip("|").split("|"))
        rooms = [name.strip(" `") for name in names.split(",")]
        yield list(zip(rooms, contents.replace("`", "").split("; "), strict=True))


def draw(page: str) -> str:
    """Return the drawing as SVG, given the text of CONTRIBUTING.md."""
    floors = list(read_floors(page))[::-1]
    height = MARGIN + len(floors) * (HEIGHT + GAP) + 28
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="system-ui, sans-serif">',
        '<rect width="100%" height="100%" fill="white"/>',
    ]
    for number, floor in enumerate(floors):
        width = (WIDTH - 2 * MARGIN + GAP) / len(floor) - GAP
        top = MARGIN + number * (HEIGHT + GAP)
        for place, (room, contents) in enumerate(floor):
            left = MARGIN + place * (width + GAP)
            fill = PRIVATE if room.startswith("_") else PUBLIC
            lines += [
                f'<rect x="{left:.1f}" y="{top}" width="{width:.1f}" height="{HEIGHT}" rx="4" fill="{fill}"/>',
                f'<text x="{left + 10:.1f}" y="{top + 20}" font-size="14" font-weight="600">{escape(room)}</text>',
            ]
            for line, text in enumerate(textwrap.wrap(contents, int(width / 6.6))):
                y = top + 38 + 15 * line
                lines.append(f'<text x="{left + 10:.1f}" y="{y}" font-size="12" fill="#57606a">{escape(text)}</text>')
    legend = "A room imports only from rooms below it. Grey: private."
    lines += [f'<text x="{MARGIN}" y="{height - 12}" font-size="12" fill="#57606a">{legend}</text>', "</svg>", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    (ROOT / "docs/rooms.svg").write_text(draw((ROOT / "CONTRIBUTING.md").read_text("utf-8")), "utf-8")

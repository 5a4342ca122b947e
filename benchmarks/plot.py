"""Draw results of the loader benchmarks as bars in an SVG: images per second and CPU milliseconds per image.

    python benchmarks/plot.py .bench/crops.json docs/images.svg

The JSON is the output of photos.py or crops.py. These also draw, with `--plot FILE`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

WIDTH, NAMES, BARS, GAP = 900, 230, 250, 85
ROW, HEAD, FOOT = 24, 74, 26
OWN, CEILING, OTHER, INK, FAINT = "#1f6feb", "#a5c8fa", "#b8c0cc", "#24292f", "#6e7781"

Rates = Mapping[str, Mapping[str, Any]]


def cases_of(results: Mapping[str, Any]) -> dict[str, Rates]:
    """Return title to loaders: photos.py measures one case, crops.py several."""
    one = all("cpu_ms" in value for value in results.values())
    return {"photos": results} if one else dict(results)


def draw(cases: Mapping[str, Rates], machine: str) -> str:
    """Return the SVG: a panel per case and a row per loader, least CPU time first."""
    parts: list[str] = []
    top = 0
    for title, rates in cases.items():
        parts += _panel(title, rates, top)
        top += HEAD + ROW * len(rates) + FOOT
    parts.append(_text(16, top + 4, machine, FAINT, size=11))
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {top + 20}" '
        f'font-family="system-ui, sans-serif" font-size="13">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def _panel(title: str, rates: Rates, top: int) -> Iterator[str]:
    columns = (
        ("images_per_second", "images/s (longer is better)", "{:,.0f}"),
        ("cpu_ms", "CPU ms per image", "{:.2f}"),
    )
    yield _text(16, top + 34, title, INK, size=17, weight="600")
    for number, (_, heading, _) in enumerate(columns):
        yield _text(NAMES + number * (BARS + GAP), top + 60, heading, FAINT)
    ordered = sorted(rates, key=lambda name: float(rates[name]["cpu_ms"]))
    for row, name in enumerate(ordered):
        y = top + HEAD + row * ROW
        own = name.startswith("bushel")
        yield _text(NAMES - 10, y + 13, name, INK, anchor="end", weight="600" if own else "400")
        for number, (key, _, form) in enumerate(columns):
            left, value = NAMES + number * (BARS + GAP), float(rates[name][key])
            length = BARS * value / max(float(rate[key]) for rate in rates.values())
            colour = OWN if own else CEILING if name.startswith("the kernel") else OTHER
            yield f'<rect x="{left}" y="{y + 1}" width="{length:.1f}" height="{ROW - 7}" rx="2" fill="{colour}"/>'
            yield _text(left + length + 6, y + 13, form.format(value), INK)


def _text(
    x: float, y: float, text: str, colour: str, *, anchor: str = "start", size: int = 13, weight: str = "400"
) -> str:
    style = f'fill="{colour}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(text)}</text>'


def write(path: Path, results: Mapping[str, Any], machine: Mapping[str, Any]) -> None:
    """Draw results into a file."""
    note = f"{machine['processor']}, {machine['processors']} processors, {str(machine['date'])[:10]}"
    path.write_text(draw(cases_of(results), note))


def main() -> None:
    """Draw with the options of the command line."""
    parser = argparse.ArgumentParser(description="Draw the results of photos.py or crops.py.")
    parser.add_argument("results", type=Path, help="a JSON file that photos.py or crops.py wrote")
    parser.add_argument("svg", type=Path)
    options = parser.parse_args()
    document = json.loads(options.results.read_text())
    write(options.svg, document["results"], document["machine"])


if __name__ == "__main__":
    main()

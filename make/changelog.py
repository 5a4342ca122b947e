"""Join the fragments in `changes/` into CHANGELOG.md: `python make/changelog.py 0.2.0 2027-01-31`.

Without a version, they become items of the unreleased changes, by section.

A fragment is a file `changes/NAME.SECTION.md` of a few lines in the style of CHANGELOG.md, such as
`changes/hub-urls.datasets.md`. Each change has a file of its own, so that two changes never conflict.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

SECTIONS = {
    "security": "Security",
    "datasets": "Datasets",
    "writing": "Writing",
    "training": "Training",
    "commands": "Command line",
    "extending": "Extending and the source",
}
_NAME = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<section>[a-z]+)\.md")
_UNRELEASED = "## Unreleased"


def fragments(folder: Path) -> dict[str, list[str]]:
    """Return the texts of the fragments by the titles of their sections.

    Raises:
        ValueError: A file is not named like a fragment, or is empty.
    """
    found: dict[str, list[str]] = {}
    for path in sorted(folder.iterdir()):
        if path.name == "README.md":
            continue
        match = _NAME.fullmatch(path.name)
        if match is None or match["section"] not in SECTIONS:
            raise ValueError(f"{path}: expected NAME.SECTION.md with a section of {', '.join(SECTIONS)}")
        text = path.read_text("utf-8").strip()
        if not text.startswith("- "):
            raise ValueError(f"{path}: expected an item that begins with '- '")
        found.setdefault(SECTIONS[match["section"]], []).append(text)
    return found


def release(changelog: str, found: dict[str, list[str]], version: str, date: str) -> str:
    """Return the changelog with a heading for a version, which gets the unreleased changes and the fragments."""
    joined = join(changelog, found)
    return joined.replace(f"{_UNRELEASED}\n", f"{_UNRELEASED}\n\n## {version} ({date})\n", 1)


def join(changelog: str, found: dict[str, list[str]]) -> str:
    """Return the changelog with the fragments among its unreleased changes."""
    before, mark, rest = changelog.partition(f"{_UNRELEASED}\n")
    if not mark:
        raise ValueError(f"the changelog has no heading {_UNRELEASED!r}")
    own, following, older = rest.partition("\n## ")
    for title, texts in found.items():
        heading = f"### {title}\n"
        items = "\n".join(texts)
        if heading in own:
            start = own.index(heading) + len(heading)
            end = own.find("\n### ", start)
            end = len(own) if end < 0 else end
            own = f"{own[:end].rstrip()}\n{items}\n{own[end:]}"
        else:
            own = f"{own.rstrip()}\n\n{heading}\n{items}\n"
    return f"{before}{mark}\n{own.strip()}\n{following}{older}"


def main() -> None:
    """Write CHANGELOG.md, and remove the fragments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", nargs="?")
    parser.add_argument("date", nargs="?", help="such as 2027-01-31")
    options = parser.parse_args()
    if (options.version is None) != (options.date is None):
        parser.error("a version needs a date")
    root = Path(__file__).parents[1]
    page, folder = root / "CHANGELOG.md", root / "changes"
    before, found = page.read_text("utf-8"), fragments(folder)
    named = options.version is not None
    after = release(before, found, options.version, options.date) if named else join(before, found)
    page.write_text(after, encoding="utf-8")
    for path in folder.iterdir():
        if path.name != "README.md":
            path.unlink()


if __name__ == "__main__":
    main()

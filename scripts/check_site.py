"""Check the built site: links and anchors lead somewhere, and every public name has an entry in the reference.

python scripts/check_site.py build/site
"""

from __future__ import annotations

import argparse
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

from assemble_site import public_modules

_BASE = "https://site/"


class Page(HTMLParser):
    """The anchors and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an anchor or a link."""
        found = dict(attrs)
        if found.get("id"):
            self.ids.add(str(found["id"]))
        if tag == "a" and found.get("href"):
            self.links.append(str(found["href"]))
        if tag == "img" and found.get("src"):
            self.links.append(str(found["src"]))


def dead_links(site: Path) -> list[str]:
    """Return the links within the site that lead nowhere, each with its page."""
    pages = {path: Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        here = urljoin(_BASE, path.relative_to(site).as_posix().removesuffix("index.html"))
        for link in page.links:
            target = urlsplit(urljoin(here, link))
            if f"{target.scheme}://{target.netloc}/" != _BASE:
                continue
            file = site / unquote(target.path).lstrip("/")
            file = file / "index.html" if file.is_dir() else file
            anchor = unquote(target.fragment)
            if not file.is_file():
                dead.append(f"{path.relative_to(site)}: {link}")
            elif anchor and file in pages and anchor not in pages[file].ids and anchor != "__skip":
                dead.append(f"{path.relative_to(site)}: {link} (no such anchor)")
    return dead


def missing_entries(site: Path) -> list[str]:
    """Return the public names that the reference does not show."""
    missing = []
    for module, public in public_modules().items():
        pages = (site / "reference").glob(f"{module}*/index.html")  # a list of its names, and a page for each
        ids = set().union(*(Page(page.read_text("utf-8")).ids for page in pages))
        names = [f"{module}.{name}" for group in public.groups.values() for name in group]
        names += [f"{module}.{name}" for name in public.members]
        missing += [name for name in names if name not in ids]
    return missing


def main() -> int:
    """Check the site, and print its problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    wrong = [f"dead link: {each}" for each in dead_links(site)]
    wrong += [f"no entry in the reference: {each}" for each in missing_entries(site)]
    wrong += [
        f"missing: {name}" for name in ("llms.txt", "llms-full.txt", "search.json") if not (site / name).is_file()
    ]
    print("\n".join(wrong) or f"{sum(1 for _ in site.rglob('*.html'))} pages, no dead link", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

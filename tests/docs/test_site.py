"""Every page is in the site's navigation, every link leads somewhere, every public name is documented."""

from __future__ import annotations

import posixpath
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.paths import ROOT

PAGES = [
    *("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "changes/README.md"),
    *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str, site: Any) -> None:
    text = (ROOT / page).read_text("utf-8")
    for link in site.links(text):
        if ":" in link:
            continue
        place, _, anchor = link.partition("#")
        target = ROOT / posixpath.normpath(posixpath.join(posixpath.dirname(page), place)) if place else ROOT / page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in site.anchors(target.read_text("utf-8")), f"{page}: {link}"


def test_every_page_is_in_one_section(site: Any) -> None:
    listed = [page for section in site.SECTIONS.values() for page in section]
    assert len(listed) == len(set(listed))
    site.navigation([])  # raises for a page that is in no section


def test_readers_meet_the_sections_in_this_order(site: Any) -> None:
    shown = site.navigation([{"bushel": "reference/bushel.md"}])
    assert [title for section in shown for title in section] == [
        *("Bushel", "Get started", "Guides", "Understand", "Reference", "Benchmarks", "For contributors")
    ]
    tabs = {title: entries for each in shown for title, entries in each.items()}
    groups = {tab: [name for entry in tabs[tab] for name in entry] for tab in ("Guides", "Reference")}
    assert groups["Guides"] == ["Load", "Pack", "Look", "Curate", "Scale"]
    assert groups["Reference"] == ["bushel", "Formats", "Drop-ins", "Command line"]


def test_every_page_is_in_the_overview() -> None:
    overview = (ROOT / "docs/README.md").read_text("utf-8")
    missing = [page for page in PAGES if page.startswith("docs/") and f"({page.removeprefix('docs/')})" not in overview]
    assert missing == ["docs/README.md", "docs/cli.md"] or missing == ["docs/README.md"]


def test_every_public_name_is_documented(site: Any) -> None:
    modules = site.public_modules()
    assert [f"{name}: {each}" for name, module in modules.items() for each in module.missing] == []
    assert "to_hf" in modules["bushel"].groups["Functions"]
    assert "FormatError" in modules["bushel.errors"].groups["Errors and warnings"]
    assert modules["bushel.integrations.torch_data"].groups["Classes"] == ["BatchDataset"]


def test_links_become_those_of_the_site(site: Any) -> None:
    text = "[a](../README.md) [b](index.md#x) [c](../CONTRIBUTING.md#rooms) [`d`](../src/d.py) ![e](rooms.svg)\n"
    assert site.rewrite(text, "docs/architecture.md") == (
        "[a](index.md) [b](the-index.md#x) [c](contributing.md#rooms) `d` ![e](rooms.svg)\n"
    )
    assert site.rewrite("[a](docs/view.md)\n", "README.md") == "[a](view.md)\n"
    code = "```sh\n[a](../README.md)\n```\n"
    assert site.rewrite(code, "docs/view.md") == code


def test_docstrings_find_the_entries_of_the_names_that_they_mention(site: Any) -> None:
    entries = site.entries_of(site.public_modules())
    assert entries["Writer"] == entries["bushel.Writer"] == "bushel.Writer"
    assert entries["Dataset.where"] == "bushel.Dataset.where"
    assert entries["bushel.open"] == "bushel.open"
    assert "open" not in entries  # which may be a parameter
    config = tomllib.loads(site.config_of([], entries, ""))["project"]
    [extension] = config["plugins"]["mkdocstrings"]["handlers"]["python"]["options"]["extensions"]
    assert list(extension.values()) == [{"names": entries, "titles": site.titles()}]


def test_pages_that_docstrings_name_become_links(site: Any) -> None:
    assert (
        site.with_titles("see docs/removal.md and `docs/view.md`")
        == "see [Remove samples](../removal.md) and `docs/view.md`"
    )
    assert site.titles()["docs/index.md"] == "[The index](../the-index.md)"


def test_a_site_that_a_workflow_builds_knows_its_address_and_its_repository(site: Any) -> None:
    config = tomllib.loads(site.config_of([], {}, "Acme/bushel"))["project"]
    assert config["site_url"] == "https://acme.github.io/bushel/"
    assert config["repo_url"] == "https://github.com/Acme/bushel"
    assert not {"site_url", "repo_url"} & tomllib.loads(site.config_of([], {}, ""))["project"].keys()


def test_the_home_has_cards_and_no_commands_of_a_checkout(site: Any) -> None:
    home = site.home_of(site.rewrite((ROOT / "README.md").read_text("utf-8"), "README.md"))
    assert home.index("pip install bushel") < home.index("import bushel") < home.index("I have photos")
    assert "make demo" not in home
    assert "<!-- of" not in home


def test_what_programs_read_has_a_line_for_each_page(site: Any) -> None:
    texts = {page: (ROOT / path).read_text("utf-8") for page, path in site.pages().items()}
    shown = site.navigation([])
    text = site.llms(shown, texts)
    assert text.startswith("# Bushel\n\n> Bushel opens training data in place")
    assert "- [Video](video/)" in text or "](video/)" in text
    assert "GulpIO2](compat-gulpio2/)" in text
    assert "```" not in text


def test_commands_are_in_the_reference(site: Any) -> None:
    text = site.reference_of_commands()
    assert "## bushel pack" in text
    assert "## bushel gulp2_sanity_check" in text
    assert Path(site.__file__).name == "assemble_site.py"

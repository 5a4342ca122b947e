"""Assemble the sources of the site in build/site-source: the pages of docs/, and a reference made from the package.

    python scripts/assemble_site.py      `make docs` runs it, and builds the site from what it writes

docs/ is plain Markdown, which reads well on GitHub and in an editor. Here links to files outside docs/ become links of
the site, every public name gets an entry of the reference (made from its docstring by mkdocstrings), and every command
one (what its --help prints). A page that is in no section, and a public name without documentation, are errors.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import os
import posixpath
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Get started": {
        "install.md": "Install",
        "get-started.md": "Ten minutes",
        "coming-from.md": "Come from another tool",
        "glossary.md": "The words",
    },
    "Guides / Load": {
        "loading.md": "Load batches for training",
        "loading-orders.md": "Orders, mixtures and windows",
        "loading-packs.md": "Pack documents into rows",
        "loading-machines.md": "Ranks and worker processes",
        "tokens.md": "Load tokens and other numbers",
        "chats.md": "Fine-tune on chats",
        "images.md": "Crop and transform images",
        "video.md": "Store and load video",
        "frameworks.md": "Use Lightning, Accelerate, DDP, JAX",
        "hangs.md": "Avoid hangs and slow programs",
        "audit.md": "Audit a loader",
        "integrations.md": "Use it with other packages",
    },
    "Guides / Pack": {
        "packing.md": "Pack data",
        "packing-images.md": "Pack images and arrays",
        "growth.md": "Data that grow",
        "cards.md": "Describe a dataset for others",
        "publishing.md": "Publish a dataset",
    },
    "Guides / Look": {"view.md": "Look at a dataset", "view-safety.md": "Safety and speed of the viewer"},
    "Guides / Curate": {
        "views.md": "Choose samples",
        "columns.md": "Select by values and balance classes",
        "joins.md": "Join photos, captions and embeddings",
        "integrity.md": "Find and repair damage",
        "damaged-datasets.md": "Open a damaged dataset",
        "removal.md": "Remove samples",
    },
    "Guides / Scale": {
        "cloud.md": "Use object stores",
        "cloud-network.md": "Credentials and network errors",
        "hub.md": "Open a dataset of the Hub",
        "scale-out.md": "Write on more than one machine",
        "reading-at-scale.md": "Read on many machines",
        "ten-million-photos.md": "Pack ten million photos",
    },
    "Understand": {
        "how-it-works.md": "How it works",
        "loading-inside.md": "How a loader works",
        "index.md": "The index",
        "block-files.md": "Block files",
        "order.md": "The order of an epoch",
        "tiled-jpeg.md": "Tiled JPEG",
        "seek-tables.md": "Seek tables",
        "codecs.md": "Codecs",
    },
    "Reference / Formats": {
        "formats.md": "All formats",
        "format-bag.md": "bag",
        "format-tar.md": "tar",
        "format-ffrecord.md": "ffrecord",
        "format-gulp.md": "gulp",
        "format-recordio.md": "recordio",
        "format-parquet.md": "parquet",
        "format-lerobot.md": "lerobot",
        "format-zip.md": "zip",
        "format-tfrecord.md": "tfrecord",
        "format-mds.md": "mds",
        "format-litdata.md": "litdata",
        "format-arrayrecord.md": "arrayrecord",
        "folders.md": "how a folder is understood",
        "format-folder.md": "folder",
        "format-megatron.md": "megatron",
        "format-npy.md": "npy",
        "format-jsonl.md": "jsonl",
        "format-csv.md": "csv",
        "format-arrow.md": "arrow",
        "references.md": "Lists of files",
    },
    "Reference / Drop-ins": {
        "compat.md": "Programs of the original packages",
        "compat-gulpio2.md": "GulpIO2",
        "compat-granular.md": "Granular",
        "compat-webdataset.md": "WebDataset",
        "compat-ffrecord.md": "FFRecord",
        "compat-mxnet.md": "MXNet",
        "promises.md": "What their documents promise",
    },
    "Reference / Command line": {"cli.md": "Use the command line"},
    "Benchmarks": {
        "benchmarks.md": "Benchmarks",
        "benchmarks-loading.md": "Loading",
        "images-measured.md": "Crops",
        "benchmarks-images.md": "Images and GPUs",
        "benchmarks-reading.md": "Opening and reading",
        "benchmarks-formats.md": "Formats read in place",
        "benchmarks-writing.md": "Writing",
        "benchmarks-cloud.md": "Object stores",
        "benchmarks-commands.md": "Repeat them",
        "reliability.md": "Reliability",
        "reliability-damage.md": "Damaged files",
        "reliability-read-only.md": "Damage in formats read in place",
    },
    "For contributors": {
        "extending.md": "Add my own codec, source or container",
        "architecture.md": "Architecture",
        "compatibility.md": "What stays the same",
    },
}
"""Sections of the site in the order in which readers need them, `TAB` or `TAB / GROUP`: page to its title."""

OVERVIEW = "README.md"
"""The list of all pages, for readers of docs/ without the site."""

OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "docs/README.md": "pages.md",
    "docs/index.md": "the-index.md",
}
"""Files outside docs/, or with a name that would be that of the home page, and their pages in the site."""

MODULES = (
    *("datasets", "runs", "integrity", "errors"),
    *("codecs", "loader", "sources", "transforms", "engines", "jpeg", "testing"),
)
BRIDGES = ("huggingface", "torch_data", "torchdata_nodes")

_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(```|~~~)")


_OF_A_CHECKOUT = re.compile(r"<!-- of a checkout -->\n.*?<!-- end of that -->\n", re.DOTALL)
"""What the README shows to those who have cloned the repository."""

CARDS = """\
<div class="grid cards" markdown>

- **I have photos** – [open the folder](folders.md), [crop and transform](images.md), [pack them](packing.md)
- **I have Parquet or JSON** – [Parquet](format-parquet.md), [lines of JSON](format-jsonl.md), [the Hub](hub.md)
- **I have video or sound** – [clips and frames](video.md), [windows](loading-orders.md#read-windows)
- **I have text** – [tokens](tokens.md), [rows](loading-packs.md), [mixtures](loading-orders.md#mix-datasets)
- **I have robots** – [LeRobot](format-lerobot.md), [neighbours in time](loading-orders.md#read-windows)
- **I have shards** – [WebDataset](format-tar.md), [TFRecord](format-tfrecord.md), [all formats](formats.md)

</div>
"""
"""Ways into the pages by what a reader has."""


def pages() -> dict[str, str]:
    """Return the sources of the site's pages: path in the site to path in the repository."""
    sources = [*(f"docs/{path.name}" for path in _docs()), *(path for path in OUTSIDE if not path.startswith("docs/"))]
    return {OUTSIDE.get(path, path.removeprefix("docs/")): path for path in sources}


def titles() -> dict[str, str]:
    """Return the titles of the pages that docstrings name, by their paths in the repository."""
    return {
        f"docs/{page}": f"[{title}](../{OUTSIDE.get(f'docs/{page}', page)})"
        for section in SECTIONS.values()
        for page, title in section.items()
    }


def _docs() -> list[Path]:
    return sorted((ROOT / "docs").glob("*.md"))


def outside_code(text: str) -> Iterator[tuple[bool, str]]:
    """Yield the lines of a page, each with whether it is outside blocks of code."""
    inside = False
    for line in text.splitlines(keepends=True):
        fence = _FENCE.match(line.lstrip()) is not None
        yield not (inside or fence), line
        inside ^= fence


def links(text: str) -> Iterator[str]:
    """Yield the targets of a page's links."""
    for is_text, line in outside_code(text):
        if is_text:
            for match in _LINK.finditer(re.sub(r"`[^`]*`", lambda code: "x" * len(code[0]), line)):
                yield match[3]


def rewrite(text: str, path: str) -> str:
    """Return a page with its links to files made links of the site.

    Args:
        text: The page.
        path: Its path in the repository.
    """
    there = {source: page for page, source in pages().items()}

    def replace(match: re.Match[str]) -> str:
        image, label, target = match.groups()
        if ":" in target or target.startswith("#"):
            return match[0]
        place, mark, anchor = target.partition("#")
        wanted = posixpath.normpath(posixpath.join(posixpath.dirname(path), place))
        if wanted in there:
            return f"{image}[{label}]({there[wanted]}{mark}{anchor})"
        if wanted.startswith("docs/"):  # a drawing
            return f"{image}[{label}]({wanted.removeprefix('docs/')}{mark}{anchor})"
        return label if "`" in label else f"`{wanted}`" if label == wanted else label  # a file that the site lacks

    return "".join(_LINK.sub(replace, line) if is_text else line for is_text, line in outside_code(text))


def home_of(readme: str) -> str:
    """Return the home of the site: the README without the commands of a checkout, so that users' code comes first."""
    above, title, below = _OF_A_CHECKOUT.sub("", readme).partition("## Where to go\n")
    return f"{above}{CARDS}\n{title}{below}"


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and the site make them."""
    found: dict[str, int] = {}
    made = set()
    for is_text, line in outside_code(text):
        if is_text and (match := re.match(r"#{1,6} +(.+?) *#*$", line.rstrip())):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).replace("`", "").replace("*", "")
            slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
            count = found[slug] = found.get(slug, -1) + 1
            made.add(f"{slug}-{count}" if count else slug)
    return made


@dataclass(frozen=True, slots=True)
class Public:
    """The public names of a module.

    Attributes:
        summary: The module's docstring.
        groups: Title of a group to its names.
        missing: Names, with methods of classes, that have no docstring.
        members: `Class.name` of methods and properties that classes have or inherit from other classes of Bushel.
        first_lines: Names to the first lines of their docstrings.
    """

    summary: str
    groups: Mapping[str, Sequence[str]]
    missing: Sequence[str]
    members: Sequence[str] = ()
    first_lines: Mapping[str, str] = field(default_factory=dict)


FUNCTIONS, CLASSES, ERRORS, VALUES = "Functions", "Classes", "Errors and warnings", "Types and values"


def public_modules() -> dict[str, Public]:
    """Return the modules with public names, by their dotted names."""
    found = {}
    for name in ("bushel", *(f"bushel.{each}" for each in MODULES)):
        found[name] = _imported(importlib.import_module(name))
    for name in BRIDGES:  # whose packages need not be installed
        path = ROOT / "src/bushel/integrations" / f"{name}.py"
        found[f"bushel.integrations.{name}"] = _parsed(ast.parse(path.read_text("utf-8")))
    return found


def _imported(module: ModuleType) -> Public:
    groups: dict[str, list[str]] = {FUNCTIONS: [], CLASSES: [], ERRORS: [], VALUES: []}
    missing = [] if module.__doc__ else [module.__name__]
    members = []
    for name in getattr(module, "__all__", []):
        value = getattr(module, name)
        if name.startswith("__") or inspect.ismodule(value):
            continue
        if inspect.isclass(value):
            groups[ERRORS if issubclass(value, Exception) else CLASSES].append(name)
            missing += [f"{name}.{each}" for each in _undocumented_members(value)]
            members += [f"{name}.{each}" for each in _members(value)]
        else:
            groups[FUNCTIONS if inspect.isroutine(value) else VALUES].append(name)
        if (inspect.isclass(value) or inspect.isroutine(value)) and not inspect.getdoc(value):
            missing.append(name)
    first = {name: _first_line(inspect.getdoc(getattr(module, name))) for names in groups.values() for name in names}
    return Public((module.__doc__ or "").strip(), groups, missing, members, first)


def _first_line(text: str | None) -> str:
    return (text or "").partition("\n\n")[0].replace("\n", " ")


def _members(value: type) -> list[str]:
    owners = [owner for owner in value.__mro__ if owner.__module__.partition(".")[0] == "bushel"]
    found = {
        name
        for owner in owners
        for name, member in vars(owner).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
    }
    return sorted(found)


def _undocumented_members(value: type) -> list[str]:
    return [
        name
        for name, member in vars(value).items()
        if not name.startswith("_")
        and (inspect.isfunction(member) or isinstance(member, property | classmethod | staticmethod))
        and not inspect.getdoc(getattr(value, name))
    ]


def _parsed(tree: ast.Module) -> Public:
    groups: dict[str, list[str]] = {FUNCTIONS: [], CLASSES: []}
    named: set[str] = set()
    missing = [] if ast.get_docstring(tree) else ["the module"]
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "__all__":
            named = set(ast.literal_eval(node.value))
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name in named:
            group = groups[CLASSES if isinstance(node, ast.ClassDef) else FUNCTIONS]
            group += [] if node.name in group else [node.name]  # one of several overloads
            members = [each for each in getattr(node, "body", []) if isinstance(each, ast.FunctionDef)]
            checked = [node, *members] if isinstance(node, ast.ClassDef) else [node]
            if any("overload" in ast.dump(each) for each in node.decorator_list):
                continue
            missing += [each.name for each in checked if not each.name.startswith("_") and not ast.get_docstring(each)]
    first = {
        node.name: _first_line(ast.get_docstring(node))
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
    }
    return Public(ast.get_docstring(tree) or "", groups, missing, (), first)


def with_titles(text: str) -> str:
    """Return a text of a docstring in which the pages that it names are links."""
    known = titles()
    return re.sub(r"(?<!`)docs/[\w-]+\.md", lambda name: known.get(name[0], name[0]), text)


EXAMPLES = """\
??? note "The data of the examples"
    They run after `import bushel`, `import numpy as np`, `from pathlib import Path` and
    `ds = bushel.open("train/")`, in a folder with `photos/` (6 photos in `cat/`, 6 in `dog/`, 64 x 48 pixels), `train/`
    (these photos, packed into tar), `photo.jpg` (500 x 400 pixels), `clips/` and `sounds/` (one of each in folders of
    two classes). `>>>` stands before what you type; the copy button leaves it out.
"""
"""The data of the examples, as tests/docs/example_data.py makes them."""


def reference_of(module: str, public: Public) -> dict[str, str]:
    """Return the pages of a module's public names, for mkdocstrings: a list of them, and one for each name.

    Names that only stand for types and numbers are on the page of the list.
    """
    parts = [f"# {module}\n\n{with_titles(public.summary)}\n"]
    pages = {}
    for title, names in public.groups.items():
        parts += [f"## {title}\n"] if names else []
        for name in names:
            if title == VALUES:
                parts.append(f"::: {module}.{name}\n")
                continue
            parts.append(f"- [`{name}`]({module}.{name}.md): {with_titles(public.first_lines.get(name, ''))}\n")
            pages[f"reference/{module}.{name}.md"] = f"# {name}\n\n::: {module}.{name}\n\n{EXAMPLES}"
    return {f"reference/{module}.md": "\n".join(parts), **pages}


def entries_of(modules: Mapping[str, Public]) -> dict[str, str]:
    """Map the names that docstrings use for public objects to their entries in the reference.

    Classes and methods are found by their short names, functions with their module only: a parameter may be called so.
    """
    found: dict[str, str] = {}
    for module, public in reversed(modules.items()):  # the first module that has a name wins
        for name in (each for names in public.groups.values() for each in names):
            found[f"{module}.{name}"] = f"{module}.{name}"
            if name[0].isupper():
                found[name] = f"{module}.{name}"
        for member in public.members:
            found[member] = f"{module}.{member}"
    return found


def reference_of_commands() -> str:
    """Return the page of the commands: what `--help` of each prints."""
    from click.testing import CliRunner

    from bushel.cli.app import app

    def help_of(*words: str) -> str:
        done = CliRunner().invoke(
            app, [*words, "--help"], prog_name="bushel", env={"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
        )
        if done.exit_code != 0:
            raise SystemExit(f"bushel {' '.join(words)} --help: {done.output}")
        return done.output.rstrip()

    parts = ["# Commands\n", "What `--help` prints. [Use the command line](../cli.md) explains more.\n"]
    parts += ["## bushel\n", f"```text\n{help_of()}\n```\n"]
    listed = re.findall(r"^  ([a-z][\w-]*)  +\S", help_of(), re.MULTILINE)
    for name in listed:
        parts += [f"## bushel {name}\n", f"```text\n{help_of(name)}\n```\n"]
    return "\n".join(parts)


def navigation(reference: Sequence[Any]) -> list[Any]:
    """Return the navigation: titles and pages, in tabs and groups; the reference begins with the given entries."""
    there = {path.name for path in _docs()}
    listed = [page for section in SECTIONS.values() for page in section]
    if unlisted := sorted(there - {OVERVIEW, *listed}):
        raise SystemExit(f"pages that are in no section of scripts/assemble_site.py: {', '.join(unlisted)}")
    shown: list[Any] = [{"Bushel": "index.md"}]
    for section, titles in SECTIONS.items():
        tab, _, group = section.partition(" / ")
        entries: list[Any] = [
            {title: OUTSIDE.get(f"docs/{page}", page)} for page, title in titles.items() if page in there
        ]
        if section == "For contributors":
            entries += [{"Contributing": "contributing.md"}, {"Security": "security.md"}, {"Changes": "changes.md"}]
            entries.append({"All pages": "pages.md"})
        if tab not in [title for each in shown for title in each]:
            shown.append({tab: []})
        if group == "Command line":
            entries.append({"All commands": "reference/commands.md"})
        shown[-1][tab] += [{group: entries}] if group else entries
    next(each["Reference"] for each in shown if "Reference" in each)[:0] = reference
    return shown


def llms(shown: Sequence[Any], texts: Mapping[str, str]) -> str:
    """Return llms.txt: what the site holds, for programs that read it."""
    home = texts["index.md"]
    summary = " ".join(home.partition("\n\n")[2].partition("\n\n")[0].split())
    lines = ["# Bushel\n", f"> {summary}\n"]
    for section in shown:
        [(title, entries)] = section.items()
        if isinstance(entries, str):
            continue
        lines.append(f"## {title}\n")
        for name, page in _listed(entries):
            if page not in texts:  # of the reference, in a test
                continue
            lines.append(f"- [{name}]({page.removesuffix('.md')}/): {_first_sentence(texts[page])}")
        lines.append("")
    return "\n".join(lines)


def _listed(entries: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield titles and pages of a section and its groups."""
    for entry in entries:
        [(name, page)] = entry.items()
        if isinstance(page, str):
            yield name, page
        else:
            yield from ((f"{name}: {title}", each) for title, each in _listed(page))


def _first_sentence(text: str) -> str:
    for block in "".join(line for is_text, line in outside_code(text) if is_text).split("\n\n")[1:]:
        plain = " ".join(_LINK.sub(r"\2", block).split())
        if plain and plain[0] not in "#|`:!?<-":
            return re.split(r"(?<=[.:])\s", plain)[0].rstrip(":")
    return ""


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_toml(name)} = {_toml(each)}" for name, each in value.items()) + " }"
    return "[\n" + "".join(f"  {_toml(each)},\n" for each in value) + "]"


DESCRIPTION = "Open training data in place, look at it, and feed it to PyTorch, JAX or NumPy."

CONFIG = """\
[project]
site_name = "Bushel"
site_description = "{description}"
docs_dir = "pages"
site_dir = "site"
use_directory_urls = true
extra_css = ["assets/copy.css"]
{addresses}nav = {navigation}

[project.extra.version]
provider = "mike"
default = "latest"

[project.theme]
language = "en"
custom_dir = "theme"
logo = "assets/mark.svg"
favicon = "assets/mark.svg"
features = ["content.code.copy", "content.tooltips", "navigation.footer", "navigation.indexes", "navigation.instant",
    "navigation.path", "navigation.sections", "navigation.tabs", "navigation.top", "search.highlight", "toc.follow"]

[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle.icon = "lucide/sun-moon"
toggle.name = "Switch to light mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle.icon = "lucide/sun"
toggle.name = "Switch to dark mode"

[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle.icon = "lucide/moon"
toggle.name = "Switch to system preference"

[project.markdown_extensions]
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
admonition = {{}}
toc.permalink = true
pymdownx.highlight = {{}}
pymdownx.superfences = {{}}
pymdownx.inlinehilite = {{}}

[project.plugins.mkdocstrings.handlers.python]
paths = ["{source}"]

[project.plugins.mkdocstrings.handlers.python.options]
docstring_style = "google"
docstring_options = {{ warn_unknown_params = false, warn_missing_types = false }}
show_source = false
show_root_heading = true
show_root_full_path = true
heading_level = 3
show_bases = false
inherited_members = true
merge_init_into_class = true
members_order = "source"
separate_signature = true
line_length = 72
signature_crossrefs = true
show_signature_annotations = true
docstring_section_style = "list"
filters = ["!^_"]
extensions = [{{ "{links}" = {{ names = {names}, titles = {titles} }} }}]
"""


COPY_STYLE = "code[data-md-copying] :is(.gp, .go, .gt) { display: none }\n"
"""The copy button copies the input of an example, without prompts and outputs."""


PREVIEW = """\
{% extends "base.html" %}
{% block extrahead %}
{% if page is defined and page.meta is defined and page.meta %}
<meta property="og:type" content="website">
<meta property="og:site_name" content="Bushel">
<meta property="og:title" content="{{ page.title | striptags }}">
<meta property="og:description" content="{{ page.meta.description }}">
<meta name="twitter:card" content="summary_large_image">
{% if config.site_url %}
<meta property="og:url" content="{{ page.canonical_url }}">
<meta property="og:image" content="{{ config.site_url }}view-grid.jpg">
{% endif %}
{% endif %}
{% endblock %}
"""
"""The head of every page has what chats and social networks show of a link: its title, a sentence and a picture."""


def config_of(shown: Sequence[Any], entries: Mapping[str, str], repository: str) -> str:
    """Return the configuration of the site.

    Args:
        shown: The navigation.
        entries: Names in docstrings to their entries in the reference.
        repository: `owner/name` on GitHub, which its workflows have in `GITHUB_REPOSITORY`. If it is empty, as in a
            clone that was never pushed, the site links to no repository and its previews have no picture.
    """
    owner, _, name = repository.partition("/")
    urls = {"site_url": f"https://{owner.lower()}.github.io/{name}/", "repo_url": f"https://github.com/{repository}"}
    return CONFIG.format(
        description=DESCRIPTION,
        addresses="".join(f"{key} = {_toml(url)}\n" for key, url in urls.items() if repository),
        navigation=_toml(shown),
        source=ROOT / "src",
        links=ROOT / "scripts/reference_links.py",
        names=_toml(entries),
        titles=_toml(titles()),
    )


def main() -> None:
    """Write the sources of the site."""
    modules = public_modules()
    if missing := [f"{name}: {each}" for name, module in modules.items() for each in module.missing]:
        raise SystemExit(f"public names without documentation: {', '.join(missing)}")
    target = ROOT / "build/site-source"
    shutil.rmtree(target, ignore_errors=True)
    (target / "pages/reference").mkdir(parents=True)
    texts = {page: rewrite((ROOT / path).read_text("utf-8"), path) for page, path in pages().items()}
    texts["index.md"] = home_of(texts["index.md"])
    reference: list[Any] = []
    for name, module in modules.items():
        named = reference_of(name, module)
        texts |= named
        reference.append({name: [{page.removeprefix(f"reference/{name}.")[:-3] or name: page} for page in named]})
    texts["reference/commands.md"] = reference_of_commands()
    shown = navigation(reference)
    for page, text in texts.items():
        about = _toml(_first_sentence(text).translate({ord("`"): None, ord('"'): "'"}) or DESCRIPTION)
        (target / "pages" / page).write_text(f"---\ndescription: {about}\n---\n{text}", encoding="utf-8")
    (target / "pages/assets").mkdir()
    shutil.copy(ROOT / "src/bushel/viewer/static/mark.svg", target / "pages/assets/mark.svg")
    (target / "pages/assets/copy.css").write_text(COPY_STYLE, encoding="utf-8")
    (target / "theme").mkdir()
    (target / "theme/main.html").write_text(PREVIEW, encoding="utf-8")
    (target / "pages/notebooks").mkdir()
    for pattern in ("*.svg", "*.jpg", "notebooks/*.ipynb"):
        for file in (ROOT / "docs").glob(pattern):
            shutil.copy(file, target / "pages" / file.relative_to(ROOT / "docs"))
    (target / "pages/llms.txt").write_text(llms(shown, texts), encoding="utf-8")
    full = "\n\n".join(texts[page] for page in texts if not page.startswith("reference/"))
    (target / "pages/llms-full.txt").write_text(full, encoding="utf-8")
    config = config_of(shown, entries_of(modules), os.environ.get("GITHUB_REPOSITORY", ""))
    (target / "zensical.toml").write_text(config, encoding="utf-8")
    print(f"{len(texts)} pages in {target}")


if __name__ == "__main__":
    main()

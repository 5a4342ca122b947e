"""`bushel.card`: a description of a dataset, as a data card in Markdown.

Its front matter is YAML that the Hugging Face Hub, and `bushel.open` of a repository, understand.
All facts are from the index and the lists beside it: no data file is read.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._dataset.open.completeness import manifest_path
from bushel._dataset.open.discovery import find
from bushel._dataset.open.open import open as open_dataset
from bushel._dataset.open.sources import expand_paths
from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.info import summarise, summary
from bushel._dataset.views.saved_views import saved_views
from bushel._runtime.messages import day, size
from bushel._runtime.public import command, public
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.integrity.removing import removals
from bushel.storage import AnyLocation, AnySource, as_path, write_whole

_READ_BY_THE_HUB = ("tar", "parquet", "jsonl", "csv", "arrow", "zip")
"""Containers whose files the Hub reads. The front matter lists no files of others."""

_CLASSES = 100  # classes that are listed; the others are counted
_ESCAPED = str.maketrans(
    {sign: f"\\{sign}" for sign in "\\`*_[]|#~"} | {"<": "&lt;", ">": "&gt;", "&": "&amp;"}
)
_SIZES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B")
"""10³, 10⁴ … 10¹⁰ samples, as the Hub names them."""


class About(Struct, frozen=True):
    """Facts about a dataset that no file contains: see `card`."""

    title: str
    description: str | None
    license: str | None
    url: str | None
    creators: Sequence[str]


class Split(Struct, frozen=True):
    """A dataset that a card describes, or one of several that belong together."""

    name: str  # its name; empty if there is only one
    source: Any  # the path that was opened
    dataset: Dataset


def front_matter(splits: Sequence[Split], about: About, folder: Path | None) -> str:
    """Return the front matter, with the lines of dashes around it. Its values are JSON, which is YAML, too.

    Paths of files are relative to `folder`, if it is known.
    """
    fields: dict[str, Any] = {"pretty_name": about.title}
    if about.license is not None:
        if "://" in about.license:
            fields |= {"license": "other", "license_link": about.license}
        else:
            fields |= {"license": about.license.lower()}
    fields["size_categories"] = [_size_category(sum(len(split.dataset) for split in splits))]
    fields["tags"] = ["bushel", *dict.fromkeys(split.dataset.info.container for split in splits)]
    files = [] if folder is None else [_files(split, folder) for split in splits]
    if files and all(files):
        names = [split.name or "train" for split in splits]
        files_of_splits = [
            {"split": name, "path": paths} for name, paths in zip(names, files, strict=True)
        ]
        fields["configs"] = [{"config_name": "default", "data_files": files_of_splits}]
    lines = (f"{name}: {json.dumps(value)}\n" for name, value in fields.items())
    return f"---\n{''.join(lines)}---\n"


def _size_category(samples: int) -> str:
    place = max(len(str(samples)) - 3, 0)  # how many of the sizes it has at least
    if place >= len(_SIZES):
        return f"n>{_SIZES[-1]}"
    return "<".join([*_SIZES[place - 1 : place], "n", _SIZES[place]])


def _files(split: Split, folder: Path) -> list[str]:
    """Return patterns of the files of a split, relative to the card; none if the Hub cannot read them from there."""
    if split.dataset.info.container not in _READ_BY_THE_HUB:
        return []
    names = []
    for shard in split.dataset.shards:
        path = shard.shard.path(0)
        if not isinstance(path, Path) or not path.resolve().is_relative_to(folder):
            return []
        names.append(path.resolve().relative_to(folder))
    patterns = dict.fromkeys((path.parent / f"*{path.suffix}").as_posix() for path in names)
    shortened: list[str] = []
    for pattern in patterns:
        named = [path.as_posix() for path in names if path.match(pattern)]
        existing = sorted(path.relative_to(folder).as_posix() for path in folder.glob(pattern))
        shortened += [pattern] if existing == sorted(named) else named
    return shortened


@public()
def card(
    source: AnySource,
    target: AnyLocation | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    license: str | None = None,
    url: str | None = None,
    creators: Sequence[str] = (),
    index: AnyLocation = "auto",
) -> str:
    """Describe a dataset for others: as a data card in Markdown (docs/cards.md).

    It is made from the index, so no data are read.

    Args:
        source: Anything that `bushel.open` takes; or a folder with a dataset in each folder, as
            `bushel.split` writes them, which are described together.
        target: The file to write, such as `README.md`; None: no file.
        title: The name of the dataset. Default: the name of its folder.
        description: A description for people.
        license: Its licence: an identifier of SPDX, such as `cc-by-4.0`, or a URL.
        url: Its page.
        creators: Names of those who made it.
        index: As for `bushel.open`.

    Returns:
        The card.

    Raises:
        OSError: A file cannot be read or written.

    Examples:
        >>> text = bushel.card("train/", title="Cats and dogs", license="cc-by-4.0")
        >>> text.splitlines()[:3]
        ['---', 'pretty_name: "Cats and dogs"', 'license: "cc-by-4.0"']
    """
    place = None if target is None else as_path(target)
    splits = _open_splits(source, index)
    name = title if title is not None else _title(source)
    about = About(name, description, license, url, creators)
    try:
        text = (
            f"{front_matter(splits, about, _folder(source, place))}\n{body(splits, about, index)}"
        )
    finally:
        for split in splits:
            split.dataset.close()
    if place is not None:
        write_whole(place, text.encode())
    return text


def _open_splits(source: Any, index: Any) -> list[Split]:
    """Open a dataset, or the datasets in a local folder as splits: each of its folders must have a manifest.

    Raises:
        FileNotFoundError, FormatError: As `bushel.open`.
    """
    try:
        return [Split("", source, open_dataset(source, index=index))]
    except (FormatError, SpecError):  # of a folder of splits, which asks for one
        parts = _parts(source)
        if not parts:
            raise
    return [Split(part.name, part, open_dataset(part)) for part in parts]


def _parts(source: Any) -> list[Path]:
    """Return the folders in a local folder that have a dataset with a manifest."""
    paths = expand_paths(source)
    if len(paths) != 1 or not isinstance(paths[0], Path) or not paths[0].is_dir():
        return []
    parts = []
    for folder in sorted(paths[0].iterdir()):
        if folder.is_dir() and not folder.name.startswith("."):
            with suppress(FormatError):
                listing = manifest_path(find([folder]).shards)
                if listing is not None and listing.exists():
                    parts += [folder]
    return parts


def _title(source: Any) -> str:
    paths = expand_paths(source)
    name = ""
    if len(paths) == 1:
        name = str(paths[0]).rstrip("/").rsplit("/", 1)[-1]
    if isinstance(paths[0], Path):
        return name.partition(".")[0] or Path.cwd().name
    return name or str(paths[0])


def _folder(source: Any, place: Any) -> Path | None:
    """Return the folder to which paths are relative: of a local target, else of the data; None for remote data."""
    if isinstance(place, Path):
        return place.parent.resolve()
    first = as_path(expand_paths(source)[0])
    if not isinstance(first, Path):
        return None
    return (first if first.is_dir() else first.parent).resolve()


def body(splits: Sequence[Split], about: About, index: Any) -> str:
    """Return the card without its front matter."""
    named = dict.fromkeys(name for split in splits for name in split.dataset.labels)
    specs = {tuple(split.dataset.spec.items()) for split in splits}
    different = splits if len(specs) > 1 else splits[:1]  # the first alone if all have the same
    parts = [
        _head(about),
        _contents(splits),
        *_titled(different, "Fields", _fields),
        *(_classes(splits, name) for name in named),
        *_titled(splits, "Columns", _columns),
        *_titled(splits, "Removed samples", lambda split: _removed(split.source, index)),
        *_titled(splits, "Saved views", _views),
        *_titled(splits, "Integrity", _integrity),
        f"Made on {day(time.time())} by `bushel card`.\n",
    ]
    return "\n".join(part for part in parts if part)


def _head(about: About) -> str:
    lines = [f"# {_text(about.title)}", ""]
    if about.description:
        lines += [about.description.strip(), ""]
    facts = []
    if about.license is not None:
        page = about.license
        if "://" not in page:
            page = f"https://spdx.org/licenses/{page}"
        facts.append(f"Licence: {_link(about.license, page)}")
    if about.url is not None:
        facts.append(f"Page: {_link(about.url, about.url)}")
    if about.creators:
        facts.append(f"Made by: {_text(', '.join(about.creators))}")
    return "\n".join([*lines, *(f"- {fact}" for fact in facts), *[""] * bool(facts)])


def _contents(splits: Sequence[Split]) -> str:
    several = len(splits) > 1
    rows = []
    for split in splits:
        info = split.dataset.info
        counts = [f"{number:,}" for number in (info.samples, info.removed, info.shards, info.files)]
        ends = [size(info.bytes), "yes" if info.complete else info.shortfall]
        rows.append([split.name] * several + [info.container, *counts, *ends])
    header = "container | samples | removed | shards | files | bytes | complete"
    return _section("Contents", _table("split | " * several + header, rows))


def _fields(split: Split) -> list[str]:
    rows = [
        [
            field.name,
            field.type,
            field.codecs,
            f"{field.samples:,}",
            f"{field.elements:,}",
            size(field.mean),
            size(field.max),
            size(field.bytes),
        ]
        for field in summarise(split.dataset.shards, split.dataset.spec)
    ]
    header = "field | type | stored as | samples | values | mean size | largest | bytes"
    note = ["These numbers include the removed samples.", ""] * bool(split.dataset.info.removed)
    return [*_table(header, rows), *note]


def _classes(splits: Sequence[Split], field: str) -> str:
    counts_of_splits = [_counts_of_classes(split.dataset, field) for split in splits]
    names = list(dict.fromkeys(chain(*counts_of_splits)))
    rows = []
    for number, name in enumerate(names[:_CLASSES]):
        counts = [counts_of_split.get(name, 0) for counts_of_split in counts_of_splits]
        rows.append([f"{number}", name, *("" if many is None else f"{many:,}" for many in counts)])
    header = ["number", "class", *(_text(split.name or "samples") for split in splits)]
    lines = _table(" | ".join(header), rows)
    if len(names) > _CLASSES:
        lines += [f"and {len(names) - _CLASSES:,} more classes", ""]
    if any(None in counts_of_split.values() for counts_of_split in counts_of_splits):
        columns = command("index", "--columns", field)
        lines += [f"No column in the index counts them: {columns} makes it.", ""]
    return _section(f"Classes of {_text(field)}", lines)


def _counts_of_classes(dataset: Dataset, field: str) -> dict[str, int | None]:
    """Return the number of samples of each class of a field; None for each without a column of numbers."""
    names = dataset.labels.get(field, ())
    if field in dataset.columns:
        values = np.ma.compressed(np.ma.asarray(dataset.column(field)))
        if values.dtype.kind in "iu":
            numbers = values[(values >= 0) & (values < len(names))].astype(np.int64)
            counts = np.bincount(numbers, minlength=len(names)).tolist()
            return dict(zip(names, counts, strict=True))
    return dict.fromkeys(names)


def _titled(splits: Sequence[Split], title: str, lines_of: Any) -> Iterator[str]:
    """Yield a section for each split that has lines for it."""
    for split in splits:
        if lines := lines_of(split):
            of_split = f" of {_text(split.name)}" if split.name else ""
            yield _section(title + of_split, lines)


def _columns(split: Split) -> list[str]:
    header = "column | kind | values | missing | different | mean | min | max | most frequent"
    columns = [summary(name, split.dataset.column(name)) for name in split.dataset.columns]
    return _table(header, [[*column.cells, column.frequent] for column in columns])


def _removed(source: Any, index: Any) -> list[str]:
    try:
        calls = removals(source, index=index)
    except UnsupportedError:  # a place where no list of removed samples can be
        return []
    rows = [
        [day(call.time), f"{call.samples:,}", f"{call.missing:,}", call.reason] for call in calls
    ]
    lines = _table("day | still stored | not stored any more | reason", rows)
    if any(call.samples for call in calls):
        note = "Samples that are still stored are in the files, where other tools read them."
        lines += [note, ""]
    return lines


def _views(split: Split) -> list[str]:
    states = "current", "stale"
    rows = [
        [view.name, view.made, f"{view.samples:,}", day(view.time), states[view.stale]]
        for view in saved_views(split.dataset)
    ]
    return _table("view | made by | samples | day | state", rows)


def _integrity(split: Split) -> list[str]:
    sums = "of every value"
    if not split.dataset.info.checksums:
        sums = "not of every field: `bushel index` records them"
    return [
        f"- CRC-32 in the index: {sums}",
        f"- Fingerprint: `{split.dataset.fingerprint}`",
        "",
        "This card was made from the index. `bushel verify` compares the data with it.",
        "",
    ]


def _section(title: str, lines: Iterable[str]) -> str:
    return "\n".join([f"## {title}", "", *lines])


def _table(header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table; none without rows. In `header`, ` | ` is between the names of its columns."""
    if not rows:
        return []
    ruler = " | ".join(["---"] * len(rows[0]))
    cells = (" | ".join(map(_text, row)) for row in rows)
    return [*(f"| {line} |" for line in (header, ruler, *cells)), ""]


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    one_line = "".join(sign if sign.isprintable() else " " for sign in str(text))
    return one_line.translate(_ESCAPED)


def _link(text: str, url: str) -> str:
    if not re.fullmatch(r"https?://[^ ()<>\"'\n]*", url):
        return _text(text)
    return f"[{_text(text)}]({url})"

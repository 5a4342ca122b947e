"""`bushel.card`: a description of a dataset, as a data card in Markdown.

Its front matter is YAML that the Hugging Face Hub, and `bushel.open` of a repository, understand.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.source_paths import expand_paths
from bushel._runtime.public import public
from bushel.storage import AnyLocation, AnySource, as_path, write_whole

from .facts import About, Facts, facts_of, open_splits
from .markdown import body

_READ_BY_THE_HUB = ("tar", "parquet", "jsonl", "csv", "arrow", "zip")
"""Containers whose files the Hub reads. The front matter lists no files of others."""

_SIZES = tuple(10**power for power in range(3, 11))
_SIZE_NAMES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B")


def front_matter(splits: Sequence[Facts], about: About, folder: Path | None) -> str:
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
    place = sum(samples >= limit for limit in _SIZES)
    if place == 0:
        return f"n<{_SIZE_NAMES[0]}"
    if place == len(_SIZES):
        return f"n>{_SIZE_NAMES[-1]}"
    return f"{_SIZE_NAMES[place - 1]}<n<{_SIZE_NAMES[place]}"


def _files(facts: Facts, folder: Path) -> list[str]:
    """Return patterns of the files of a split, relative to the card; none if the Hub cannot read them from there."""
    shards = facts.dataset.shards
    if facts.dataset.info.container not in _READ_BY_THE_HUB:
        return []
    names = []
    for shard in shards:
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
    license_column: str | None = None,
    source_column: str | None = None,
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
        license_column: The column that has the licence of each sample. Default: one that is called
            so.
        source_column: The column that has the source of each sample, such as a URL. Default: one
            that is called so.
        index: As for `bushel.open`.

    Returns:
        The card.

    Raises:
        KeyError: The column does not exist.
        OSError: A file cannot be read or written.

    Examples:
        >>> text = bushel.card("train/", title="Cats and dogs", license="cc-by-4.0")
        >>> text.splitlines()[:3]
        ['---', 'pretty_name: "Cats and dogs"', 'license: "cc-by-4.0"']
    """
    place = None if target is None else Path(str(target)).absolute()
    splits = open_splits(source, index)
    about = About(
        title if title is not None else _title(source),
        description,
        license,
        url,
        tuple(creators),
        license_column,
        source_column,
    )
    try:
        facts = [facts_of(split, about, index) for split in splits]
        text = f"{front_matter(facts, about, _folder(source, place))}\n{body(facts, about)}"
    finally:
        for split in splits:
            split.dataset.close()
    if place is not None:
        write_whole(place, text.encode())
    return text


def _title(source: Any) -> str:
    paths = expand_paths(source)
    name = ""
    if len(paths) == 1:
        name = str(paths[0]).rstrip("/").rsplit("/", 1)[-1]
    if isinstance(paths[0], Path):
        return name.partition(".")[0] or Path.cwd().name
    return name or str(paths[0])


def _folder(source: Any, place: Path | None) -> Path | None:
    """Return the folder to which paths are relative: of the target, else of the data; None for remote data."""
    if place is not None:
        return place.parent.resolve()
    first = as_path(expand_paths(source)[0])
    if not isinstance(first, Path):
        return None
    return (first if first.is_dir() else first.parent).resolve()

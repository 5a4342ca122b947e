"""The front matter of a data card: YAML that the Hugging Face Hub, and `bushel.open` of a repository, understand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .facts import About, Facts

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

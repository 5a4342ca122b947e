"""The front matter of a data card: YAML that the Hugging Face Hub, and `bushel.open` of a repository, understand."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bushel.cards.facts import About, Facts

_READ_BY_THE_HUB = ("tar", "parquet", "jsonl", "csv", "arrow", "zip")
"""Containers whose files the Hub reads. The front matter lists no files of others."""

_SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000)
_SIZE_NAMES = ("1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B")
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*")
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))


def front_matter(splits: Sequence[Facts], about: About, folder: Path | None) -> str:
    """Return the front matter, with the lines of dashes around it.

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
    return "---\n" + "".join(_yaml(fields, 0)) + "---\n"


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


def _yaml(value: Any, depth: int) -> list[str]:
    """Return the lines of mappings, lists and texts."""
    before = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for name, member in value.items():
            if isinstance(member, dict | list):
                lines += [
                    f"{before}{name}:\n",
                    *_yaml(member, depth + (not isinstance(member, list))),
                ]
            else:
                lines.append(f"{before}{name}: {_scalar(member)}\n")
        return lines
    for member in value:
        if isinstance(member, dict):
            first, *rest = _yaml(member, depth + 1)
            lines += [f"{before}- {first.lstrip()}", *rest]
        else:
            lines.append(f"{before}- {_scalar(member)}\n")
    return lines


def _scalar(text: str) -> str:
    """Return a text in YAML: as it is, or quoted as in JSON, which is YAML, too."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text)

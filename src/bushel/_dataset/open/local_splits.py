"""The splits of a local folder, `train/` and `val/` or `train.csv` and `test.csv`: which there are, and one of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bushel._index.table import FOLDER
from bushel._recognise.splits import role_of, split_in, split_named, splits_in
from bushel._runtime.public import did_you_mean
from bushel.containers import candidates, is_data_file, is_data_if_named
from bushel.errors import SpecError

_CARD = 1 << 20  # bytes of README.md that are read
ALL = "all"
"""The name by which a caller asks for all splits together."""


def splits_at(source: object) -> dict[str, list[str]]:
    """Return the splits of a local folder: the paths of each. Empty if there are fewer than two, or other data, too.

    Only the names in the folder are looked at, and those in `data/` if that is all it has. If
    README.md lists configurations, its rules hold instead (`repository`).
    """
    if not isinstance(source, str | os.PathLike) or not may_have_splits(source):
        return {}
    root = os.fspath(source)
    folders, files = list[str](), list[str]()
    with os.scandir(root) as entries:
        for entry in entries:
            name = entry.name
            if name.startswith(".") or _is_junk(name):
                continue
            folder = entry.is_dir()
            if not folder and not _is_data(name):
                continue
            if split_in(name, folder=folder) is None and name != "data":
                return {}
            (folders if folder else files).append(name)
    if folders == ["data"] and not files:
        return {} if _has_configurations(root) else splits_at(os.path.join(root, "data"))
    splits = splits_in(folders, files)
    if splits and _has_configurations(root):
        return {}
    return {split: [os.path.join(root, name) for name in names] for split, names in splits.items()}


def splits_below_fields(source: object) -> dict[str, list[str]]:
    """Return the splits of a local folder of YOLO's kind, `images/train/`, `labels/train/`, `images/val/`.

    Returns:
        The beginning of the keys of each split; empty if the folder has another layout.
    """
    if not isinstance(source, str | os.PathLike) or not may_have_splits(source):
        return {}
    folders = dict[str, str]()
    with os.scandir(os.fspath(source)) as entries:
        for entry in entries:
            if entry.name[0] == "." or _is_junk(entry.name):
                continue
            if entry.is_dir() and role_of(entry.name):
                folders[entry.name] = entry.path
            elif entry.is_dir() or _is_data(entry.name):
                return {}
    if len(folders) < 2:
        return {}
    from bushel._recognise.layout import roles_of

    images = [folder for folder, field in roles_of(folders).items() if field == "image"]
    if not images:
        return {}
    with os.scandir(folders[images[0]]) as entries:
        inner = {
            entry.name: entry.is_dir()
            for entry in entries
            if not _is_junk(entry.name) and entry.name[0] != "."
        }
    if not all(inner.values()):
        return {}
    return {split: [f"{name}/" for name in names] for split, names in splits_in(inner, ()).items()}


def _has_configurations(root: str) -> bool:
    """Return whether README.md says which files belong to which split, as on the Hugging Face Hub."""
    from bushel._dataset.open.data_files import front_matter

    try:
        with open(os.path.join(root, "README.md"), encoding="utf-8", errors="replace") as file:
            text = front_matter(file.read(_CARD))
    except OSError:
        return False
    return text is not None and "configs" in text


def may_have_splits(source: str | os.PathLike[str]) -> bool:
    """Return whether a path is a local folder of files as they were found: not one with a manifest and its shards."""
    if not os.path.isdir(source):
        return False
    if not os.path.exists(os.path.join(source, FOLDER, "manifest.json")):
        return True
    return not any(name.isdecimal() or is_data_file(name) for name in os.listdir(source))


def _is_junk(name: str) -> bool:
    from bushel._recognise.junk import junk_kind

    return bool(junk_kind(f"{name}/x") or junk_kind(name))


def _is_data(name: str) -> bool:
    from bushel._recognise.layout import media_of, suffix_of
    from bushel.containers.folder_metadata import METADATA

    if name in METADATA:
        return False
    if is_data_file(name) or media_of(suffix_of(name)) is not None:
        return True
    return is_data_if_named(name) and split_in(name, folder=False) is not None


def files_of_split(source: Any, splits: Mapping[str, list[str]], split: str) -> Any:
    """Return the files to open for one split of a folder, or for all of them.

    Args:
        source: The folder.
        splits: Its splits.
        split: The name of one, or `all`.

    Raises:
        SpecError: The folder has no split of this name.
    """
    if split == ALL and ALL not in splits:
        paths = [path for files in splits.values() for path in files]
        datasets = all(os.path.isfile(path) or candidates(os.listdir(path)) for path in paths)
        return [Path(path) for path in paths] if datasets else [Path(source)]
    paths = splits[chosen_split(source, splits, split)]
    return Path(paths[0]) if len(paths) == 1 else [Path(path) for path in paths]


def chosen_split(source: Any, splits: Mapping[str, list[str]], split: str) -> str:
    """Return the split that a caller names, as the folder spells it.

    Raises:
        SpecError: The folder has no split of this name.
    """
    chosen = split_named(splits, split)
    if chosen is None:
        meant = did_you_mean(split, list(splits))
        raise SpecError(
            f"{source} has no split {split!r} (split=): it has"
            f" {', '.join(splits)}{'; ' + meant if meant else ''}"
        )
    return chosen


def refuse_splits(source: object) -> None:
    """Check that a path is not a folder of several splits, which nobody wants as one dataset without saying so.

    Raises:
        SpecError: It is. The message names the splits, and what to write.
    """
    if not isinstance(source, str | os.PathLike) or not may_have_splits(source):
        return
    if splits := splits_at(source) or splits_below_fields(source):
        first = next(iter(splits))
        raise SpecError(
            f"{source} has several splits: {', '.join(splits)}. Name one: split={first!r}, or"
            f" join them: split={ALL!r}"
        )

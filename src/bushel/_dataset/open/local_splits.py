"""The splits of a folder, `train/` and `val/` or `train.csv` and `test.csv`: which there are, and one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bushel._index.table import FOLDER, is_url
from bushel._recognise.splits import numbered_in, role_of, split_in, split_named, splits_in
from bushel._runtime.public import did_you_mean
from bushel.containers import candidates, is_data_file, is_data_if_named
from bushel.errors import SpecError
from bushel.storage import AnyPath, as_path, is_object, read_whole
from bushel.storage.names import leads_to_folder

if TYPE_CHECKING:
    from .remote_discovery import ListedPath

_CARD = 1 << 20  # bytes of README.md that are read
_SHOWN = 10  # names of splits in an error
ALL = "all"
"""The name by which a caller asks for all splits together."""


def splits_at(source: object) -> dict[str, list[str]]:
    """Return the splits of a local folder: the paths of each. Empty if there are fewer than two, or other data, too.

    Only the names in the folder are looked at, and those in its only folder, such as `data/`. If
    README.md lists configurations, its rules hold instead (`repository`).
    """
    if not isinstance(source, str | os.PathLike) or not may_have_splits(source):
        return {}
    root = os.fspath(source)
    splits, only = _splits_among(_entries(root))
    if not (splits or only) or _has_configurations(root):
        return {}
    if only:
        return splits_at(os.path.join(root, only))
    return {split: [os.path.join(root, name) for name in names] for split, names in splits.items()}


def splits_of(source: object) -> dict[str, list[str]]:
    """Return the splits of a folder: a local one, or one of an object store, which is listed."""
    if splits := splits_at(source):
        return splits
    folder = _listed_folder(source)
    return {} if folder is None else splits_in_store(folder)


def _listed_folder(source: object) -> ListedPath | None:
    """Return a folder of an object store, which is not of the Hub; None for any other source."""
    if isinstance(source, str) and (not is_url(source) or set(source) & {*"*?["}):
        return None
    path = as_path(source) if isinstance(source, str | os.PathLike) else source
    if not is_object(path) or not path.listable or str(path).startswith("hf://"):
        return None
    from .remote_discovery import ListedPath

    return ListedPath(path)


def splits_in_store(folder: ListedPath) -> dict[str, list[str]]:
    """Return the splits of a folder in an object store, as `splits_at` does: the URLs of each."""
    entries = folder.names()
    names = [name for name, _ in entries]
    if FOLDER in names and any(name.isdecimal() or is_data_file(name) for name in names):
        return {}
    splits, only = _splits_among(entries)
    if not (splits or only):
        return {}
    if "README.md" in names and _lists_configurations(read_whole(folder / "README.md")):
        return {}
    paths = {entry.name: entry for entry in folder.iterdir()}
    if only:
        return splits_in_store(type(folder)(paths[only]))
    return {split: [str(paths[name]) for name in listed] for split, listed in splits.items()}


def _splits_among(entries: Iterable[tuple[str, bool]]) -> tuple[dict[str, list[str]], str]:
    """Return the splits of a folder, given its names and which are folders; and the folder that has all data."""
    folders, files = list[str](), list[str]()
    for name, is_folder in entries:
        if name.startswith(".") or _is_junk(name) or not (is_folder or _is_data(name)):
            continue
        if is_folder:
            folders.append(name)
        elif _is_media(name):  # a photo is not a split, even if it is called train.jpg
            return {}, ""
        else:
            files.append(name)
        named = split_in(name, folder=is_folder) or numbered_in(name)
        if not named and (files or len(folders) > 1):
            return {}, ""
    if len(folders) == 1 and not files:
        return {}, folders[0]
    return splits_in(folders, files), ""


def splits_below_fields(source: object) -> dict[str, list[str]]:
    """Return the splits of a folder of YOLO's kind, `images/train/`, `labels/train/`, `images/val/`.

    Returns:
        The beginning of the keys of each split; empty if the folder has another layout.
    """
    if isinstance(source, str | os.PathLike) and may_have_splits(source):
        root = os.fspath(source)
        return _below_fields(_entries(root), lambda name: _entries(os.path.join(root, name)))
    folder = _listed_folder(source)
    return {} if folder is None else splits_below_fields_in_store(folder)


def splits_below_fields_in_store(folder: ListedPath) -> dict[str, list[str]]:
    """Return the splits of a folder in an object store, as `splits_below_fields` does."""
    return _below_fields(folder.names(), lambda name: type(folder)(folder / name).names())


def _entries(folder: str) -> Iterator[tuple[str, bool]]:
    """Yield the names in a local folder, and which are folders."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, leads_to_folder(entry)


def _below_fields(
    entries: Iterable[tuple[str, bool]], look_into: Callable[[str], Iterable[tuple[str, bool]]]
) -> dict[str, list[str]]:
    """Return the splits in the folder of images, if the folders at the top are fields."""
    folders = list[str]()
    for name, is_folder in entries:
        if name.startswith(".") or _is_junk(name) or not (is_folder or _is_data(name)):
            continue
        if not is_folder or not role_of(name):
            return {}
        folders.append(name)
    if len(folders) < 2:
        return {}
    from bushel._recognise.layout import roles_of

    images = [folder for folder, field in roles_of(folders).items() if field == "image"]
    if not images:
        return {}
    inner = [
        entry for entry in look_into(images[0]) if entry[0][0] != "." and not _is_junk(entry[0])
    ]
    if not all(is_folder for _, is_folder in inner):
        return {}
    splits = splits_in([name for name, _ in inner], ())
    return {split: [f"{name}/" for name in names] for split, names in splits.items()}


def _has_configurations(root: str) -> bool:
    """Return whether README.md says which files belong to which split, as on the Hugging Face Hub."""
    try:
        with open(os.path.join(root, "README.md"), "rb") as file:
            return _lists_configurations(file.read(_CARD))
    except OSError:
        return False


def _lists_configurations(card: bytes) -> bool:
    from .data_files import front_matter

    text = front_matter(bytes(card[:_CARD]).decode("utf-8", "replace"))
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


def _is_media(name: str) -> bool:
    from bushel._recognise.layout import media_of, suffix_of

    return media_of(suffix_of(name)) is not None


def _is_data(name: str) -> bool:
    from bushel.containers.folder_metadata import METADATA

    if name in METADATA:
        return False
    if is_data_file(name) or _is_media(name):
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
        datasets = all(map(_is_dataset, map(as_path, paths)))
        if datasets:
            return [as_path(path) for path in paths]
        return [as_path(source)]
    paths = splits[chosen_split(source, splits, split)]
    if len(paths) == 1:
        return as_path(paths[0])
    return [as_path(path) for path in paths]


def _is_dataset(path: AnyPath) -> bool:
    """Return whether a split is a file, or a folder of files of a container; not of photos."""
    if isinstance(path, Path):
        return path.is_file() or bool(candidates(os.listdir(path)))
    names = (entry.name for entry in path.iterdir())
    return is_data_file(path.name) or bool(candidates(names))


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
            f" {', '.join(splits) or 'none'}{'; ' + meant if meant else ''}"
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
        raise several_splits(source, splits)


def several_splits(source: object, splits: Mapping[str, list[str]]) -> SpecError:
    """Return the error of a folder of several splits where the caller names none."""
    names = ", ".join(list(splits)[:_SHOWN]) + " and others" * (len(splits) > _SHOWN)
    return SpecError(
        f"{source} has several splits: {names}. Name one: split={next(iter(splits))!r},"
        f" or join them: split={ALL!r}"
    )

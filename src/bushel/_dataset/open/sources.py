"""The files that a source, `config=` and `split=` name: patterns, streams, and the splits of a folder.

A folder has splits if all data in it are in folders or files that are named like splits: `train/` and
`val/`, `train.csv` and `test.csv`. They may also be below folders of fields, `images/train/`, or in an
archive: then the dataset is opened whole, and its keys tell the samples of a split.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from bushel._index.shard import FOLDER, Shard, is_url
from bushel._recognise.names import (
    junk_kind,
    numbered_in,
    one_of,
    roles_of,
    several,
    split_in,
    splits_beside,
    splits_in,
)
from bushel._runtime.public import did_you_mean
from bushel.containers import (
    candidates,
    is_data_file,
    is_data_if_named,
    is_forward_only,
    needs_index,
)
from bushel.containers.facts import TABLES
from bushel.errors import FormatError, SpecError, UnsupportedError, naming
from bushel.storage import AnyPath, absolute, as_path, is_object, names_in, read_whole
from bushel.storage.files import leads_to_folder

from .completeness import interrupted_write

if TYPE_CHECKING:
    from bushel.containers.features import Feature

    from .remote_discovery import ListedPath

Folder: TypeAlias = "str | ListedPath"
"""A local folder, or one of a store that is listed once."""

_CARD = 1 << 20  # bytes of README.md that are read
_README = "README.md"
_MOST_OTHERS = 10  # folders beside splits that may be without data, such as `annotations`
_PATTERN = frozenset("{*?[")
ALL = "all"  # the name by which a caller asks for all splits together


class NamedFiles(Struct, frozen=True):
    """What a source, `config=` and `split=` name."""

    source: Any  # the paths to open; or the source as it is
    features: Mapping[str, Feature] = {}  # of fields, as their repository describes them
    inside: str | None = None  # the split whose samples are chosen by their keys
    splits: Mapping[str, list[str]] = {}  # the paths of each split, if these are to open


class Splits(Struct, frozen=True):
    """The splits of a folder, in their order. It has at most one of the two kinds."""

    paths: Mapping[str, list[str]] = {}  # the paths of each split
    below_fields: Mapping[str, list[str]] = {}  # the folder of each split in the folders of fields

    @property
    def names(self) -> list[str]:
        """The names of the splits; perhaps none."""
        return [*self.paths, *self.below_fields]


def named_files(
    source: Any, config: str | None = None, split: str | None = None, *, usual: str | None = None
) -> NamedFiles:
    """Return the files of a configuration and a split; a source that names no dataset of the Hub, as it is.

    Args:
        source: A path, a URL, or a list of these.
        config: Name of the configuration.
        split: Name of the split, or `all`.
        usual: The split of a folder of several ones if the caller names none.

    Raises:
        SpecError, FileNotFoundError, FormatError, TypeError: See `repository.split_of`.
    """
    chosen = usual if split is None else split
    if config is None and chosen is not None:
        splits = splits_of(source)
        is_file = isinstance(source, str | os.PathLike) and os.path.isfile(source)
        if is_file or splits.below_fields:
            return NamedFiles([as_path(source)], inside=None if chosen == ALL else chosen)
        if splits.paths:
            paths = _paths_of_split(source, splits.paths, chosen)
            are_all = isinstance(paths, list) and len(paths) > 1 and chosen == ALL
            return NamedFiles(paths, splits=splits.paths if are_all else {})
    is_on_hub = isinstance(source, str) and source.startswith("hf://")
    if config is None and split is None and not is_on_hub:
        return NamedFiles(source)
    from .repository import split_of

    return NamedFiles(*split_of(source, config, split))


def files_named(source: Any, config: str | None = None, split: str | None = None) -> Any:
    """Return the source of `named_files`; of a folder of several splits, all of them if none is named.

    Raises:
        SpecError, FileNotFoundError, FormatError, TypeError: See `named_files`; or the split is
            inside the source.
    """
    files = named_files(source, config, split, usual=ALL)
    if files.inside is not None:
        raise SpecError(
            f"{source} has its splits inside: leave out split= here, or open one of them"
        )
    return files.source


def refuse_splits(source: object, listed: ListedPath | None = None) -> None:
    """Check that a path is not a folder of several splits, which nobody wants as one dataset without saying so.

    A folder of a store is checked if it is `listed`. The SpecError names the splits, and what to write.
    """
    folder: Folder | None = listed or _local_folder(source)
    if folder is not None and (names := splits_in_folder(folder).names):
        raise several(source, "split", names, f", or join them: split={ALL!r}")


def splits_of(source: object) -> Splits:
    """Return the splits of a folder, a local one or one of a store, which is listed; none of any other source."""
    folder = _local_folder(source) or _listed_folder(source)
    return Splits() if folder is None else splits_in_folder(folder)


def _local_folder(source: object) -> str | None:
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        return os.fspath(source)
    return None


def _listed_folder(source: object) -> ListedPath | None:
    """Return a folder of an object store, which is not of the Hub; None for any other source."""
    if isinstance(source, str) and (not is_url(source) or set(source) & {*"*?["}):
        return None
    path = as_path(source) if isinstance(source, str | os.PathLike) else source
    if not is_object(path) or not path.listable or str(path).startswith("hf://"):
        return None
    from .remote_discovery import ListedPath

    return ListedPath(path)


def splits_in_folder(folder: Folder) -> Splits:
    """Return the splits of a folder, a local one or one of a store.

    Only names in the folder are looked at, in its only folder, such as `data/`, and in a few beside splits.
    If README.md lists configurations, its rules hold instead (`repository`). A folder with a manifest
    and its shards is one dataset.
    """
    folders, files, tables = list[str](), list[str](), list[str]()
    beside = list[str]()  # folders that are not named like splits
    if _has_shards(folder):
        return Splits()
    for name, is_folder in _data_in(folder):
        if not is_folder and name.lower().endswith(TABLES):
            tables.append(name)
            continue
        (folders if is_folder else files).append(name)
        if split_in(name, folder=is_folder) or numbered_in(name):
            # a photo is not a split, even if it is called train.jpg
            if not is_folder and _is_media(name):
                return Splits()
        elif not is_folder or len(beside) == _MOST_OTHERS:
            return Splits()
        else:
            beside.append(name)
    splits = splits_beside(set(folders).difference(beside), files, tables)
    if splits and any(_holds_data(_inside(folder, name)) for name in beside):
        splits = {}
    files += tables
    is_only = len(folders) == 1 and not files
    if (splits or is_only) and not _has_configurations(folder):
        if is_only:
            inner = splits_in_folder(_inside(folder, folders[0]))
            below = {
                split: [f"{folders[0]}/{name}" for name in names]
                for split, names in inner.below_fields.items()
            }
            return Splits(inner.paths, below)
        return Splits(
            {split: [str(_inside(folder, name)) for name in splits[split]] for split in splits}
        )
    images = [name for name, field in roles_of(folders).items() if field == "image" and not files]
    if not images:
        return Splits()
    inside = list(_data_in(_inside(folder, images[0])))
    if not all(is_folder for _, is_folder in inside):
        return Splits()
    return Splits(below_fields=splits_in([name for name, _ in inside], ()))


def _has_shards(folder: Folder) -> bool:
    """Return whether a folder has a manifest and its shards, and not only files as they were found."""
    if isinstance(folder, str) and not os.path.exists(f"{folder}/{FOLDER}/manifest.json"):
        return False  # without a list of its files
    names = names_in(as_path(folder))
    return FOLDER in names and any(name.isdecimal() or is_data_file(name) for name in names)


def _inside(folder: Folder, name: str) -> Folder:
    """Return a folder or file inside a folder."""
    if isinstance(folder, str):
        return os.path.join(folder, name)
    return type(folder)(folder / name)


def _entries(folder: Folder) -> Iterator[tuple[str, bool]]:
    """Yield the names in a folder, and which are folders."""
    if not isinstance(folder, str):
        yield from folder.names()
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, leads_to_folder(entry)


def _data_in(folder: Folder) -> Iterator[tuple[str, bool]]:
    """Yield the names in a folder that may be data, and which are folders."""
    for name, is_folder in _entries(folder):
        is_junk = name.startswith(".") or junk_kind(f"{name}/x") or junk_kind(name)
        if not is_junk and (is_folder or _is_data(name)):
            yield name, is_folder


def _holds_data(folder: Folder) -> bool:
    """Return whether a folder beside splits holds more than tables and lists, as COCO's `annotations` does."""
    names = _data_in(folder)
    return any(is_folder or not name.lower().endswith(TABLES) for name, is_folder in names)


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


def _has_configurations(folder: Folder) -> bool:
    """Return whether README.md says which files belong to which split, as on the Hugging Face Hub."""
    if _README not in dict(_entries(folder)):
        return False
    from .data_files import front_matter

    card = read_whole(as_path(str(folder)) / _README)
    text = front_matter(bytes(card[:_CARD]).decode("utf-8", "replace"))
    return text is not None and "configs" in text


def _paths_of_split(source: Any, splits: Mapping[str, list[str]], split: str) -> Any:
    """Return the files to open for one split of a folder, or for all of them.

    Raises:
        SpecError: The folder has no split of this name.
    """
    if split == ALL and ALL not in splits:
        from bushel.containers.folder import has_removal_list

        paths = [as_path(path) for files in splits.values() for path in files]
        # the folder as a whole would leave out files of containers, and has no list of removed samples
        if any(map(_is_owned, paths)) or any(map(has_removal_list, paths)):
            return paths
        return [as_path(source)]
    paths = [as_path(path) for path in splits[one_of(source, "split", splits, split)]]
    return paths[0] if len(paths) == 1 else paths


def _is_owned(path: AnyPath) -> bool:
    """Return whether a split is a file, or a folder of files of a container; not of photos."""
    from bushel.containers.folder_metadata import METADATA

    if is_data_file(path.name) or is_data_if_named(path.name):
        return True
    owners = candidates(name for name in names_in(path) if name not in METADATA)
    try:
        return any(container.shards(path) is not None for container in owners)
    except FormatError:  # of its files, which are of no other container
        return True


def is_stream(source: object) -> bool:
    """Return whether a source can only be read forward. Its name or type decides; nothing is opened.

    Compressed archives of the kinds that can be indexed are read at random if all of them have an
    index. A folder is not a stream, under any name.
    """
    if isinstance(source, list | tuple):
        return any(map(is_stream, source))
    if not _is_path(source):
        return hasattr(source, "read")
    is_piped = isinstance(source, str) and (source == "-" or source.startswith("pipe:"))
    if is_piped or _local_folder(source) is not None:
        return is_piped
    return is_forward_only(str(source)) or lacks_index(source)


def _is_path(source: object) -> bool:
    return isinstance(source, str | os.PathLike) or hasattr(source, "open")


def lacks_index(source: object) -> bool:
    """Return whether a path or pattern names files that are read at random only with an index, and one has none."""
    if isinstance(source, list | tuple):
        return any(map(lacks_index, source))
    if not _is_path(source) or not needs_index(str(source)):
        return False
    try:
        paths = expand_paths(source)
    except FileNotFoundError:
        return True
    return not all(Shard.of(path).sidecar.exists() for path in paths)


def expand_paths(source: object, *, look: bool = True) -> list[AnyPath]:
    """Return the paths that a path, a glob, a brace pattern or a list of these stands for.

    Text is taken as a pattern only if no file has exactly this name. With `look`, a URL of a bucket
    that is not a pattern is looked for; else `discover` does that.

    Raises:
        FileNotFoundError: A file or folder does not exist, or nothing matches the pattern.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        paths = [path for entry in source for path in expand_paths(entry)]
        if not paths:
            raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
        return paths
    path = as_path(source)
    if isinstance(path, Path):
        return _paths_at(source, path, look=look)
    with naming(source):  # a server of another scheme, by fsspec
        return _paths_at(source, path, look=look)


def _paths_at(source: object, path: AnyPath, *, look: bool) -> list[AnyPath]:
    is_pattern = not _PATTERN.isdisjoint(str(path))
    if is_object(path):
        from .remote_discovery import expand_url

        if not path.listable:  # an HTTP server answers any request for a folder, even with a page
            return list(expand_url(str(path)))
        # a commit is listed once
        if (not look and not is_pattern and not path.immutable) or path.exists():
            return [path]
        if is_pattern:
            return list(expand_url(str(path)))
    elif path.exists():
        return [path]
    elif isinstance(source, str) and isinstance(path, Path) and is_pattern:
        return list(_expand_local(os.path.expanduser(source)))
    raise missing(path)


def paths_to_open(source: Any, spec: Mapping[str, str] | None, *, in_memory: bool) -> list[AnyPath]:
    """Return the paths that a source stands for, which stay the same when the current folder changes.

    Raises:
        UnsupportedError: It can only be read forward; with an index that is kept `in_memory`, what
            needs one can be read at random.
    """
    if is_stream(source) and not (in_memory and lacks_index(source)):
        raise forward_only(source, spec, lacks_index(source))
    return [absolute(path) for path in expand_paths(source, look=False)]


def _expand_local(pattern: str) -> Iterator[Path]:
    import glob

    from bushel.storage import expand_braces

    for name in expand_braces(pattern) if "{" in pattern else [pattern]:
        matches = sorted(glob.glob(name))  # of a name without magic, itself if it exists
        if not matches:
            what = "file matches" if glob.has_magic(name) else "such file or folder:"
            raise FileNotFoundError(f"no {what} {name}")
        yield from map(Path, matches)


def forward_only(
    source: object, spec: Mapping[str, str] | None, compressed: bool
) -> UnsupportedError:
    """Return the error about a source that can only be read from front to back."""
    shown = f"{source!r}" if spec is None else f"{source!r}, spec={dict(spec)!r}"
    advice = "unpack it into a file and open that for random access"
    if compressed:
        advice = (
            "run `bushel index` on it once, which expands it "
            "to find where reading can begin, and open it then"
        )
    return UnsupportedError(
        f"{source!r} can only be read from front to back: "
        f"use bushel.open_stream({shown}), or {advice}"
    )


def missing(path: AnyPath) -> FileNotFoundError:
    """Return the error about a path that does not exist. It says which name may be meant."""
    advice = _parts_of_file(path) or interrupted_write(path)
    more = f", but {advice}" if advice else _similar(path)
    return FileNotFoundError(f"no such file or folder: {path}{more}")


def _similar(path: AnyPath) -> str:
    """Return a question that names files and folders with similar names, or nothing."""
    if not isinstance(path, Path):
        return ""
    if path.is_symlink():
        return f": it is a symbolic link to {os.readlink(path)}, which does not exist"
    try:
        names = os.listdir(path.parent)
    except OSError:
        nearest = next(parent for parent in path.parents if parent.exists())
        return f": {nearest.absolute()} has no {path.relative_to(nearest).parts[0]}"
    meant = did_you_mean(path.name, [name for name in names if not name.startswith(".")])
    return f": {meant}" if meant else ""


def _parts_of_file(path: AnyPath) -> str | None:
    """Return advice to open the folder of parts if this file was packed in parts, else None."""
    if not isinstance(path, Path) or not path.suffix:
        return None
    pattern = path.with_name(f"{path.stem}-part-*{path.suffix}")
    if not any(path.parent.glob(pattern.name.replace("*", "[0-9]*"))):
        return None
    return f"it was packed in parts: open '{pattern}'"

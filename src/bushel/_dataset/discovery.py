"""Discovery: from a path or pattern to the container and the files of a dataset, and whether they are all there."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bushel._dataset.folders import is_half_replaced, is_part, run_folder, shard_of_entry
from bushel._index.sidecar import FOLDER, Completeness, load_completeness, load_manifest
from bushel.containers import (
    Container,
    candidates,
    container_names,
    get_container,
    installed_candidates,
    is_data_file,
    is_forward_only,
    last_candidates,
    needs_index,
)
from bushel.containers.base import Shard
from bushel.errors import CorruptError, FormatError, IncompleteWarning
from bushel.storage import AnyPath, as_path, is_object

if TYPE_CHECKING:
    from bushel._index.shard_list import FolderState

__all__ = [
    "HOW_TO_COMPLETE",
    "Found",
    "Incomplete",
    "expand_paths",
    "find",
    "find_incomplete",
    "folder_state",
    "holds_parts",
    "incomplete_at",
    "incomplete_finder",
    "interrupted_write",
    "is_staged",
    "is_stream",
    "lacks_index",
    "load_state",
    "marker_path",
    "telling_of_interrupted_writes",
    "warn_incomplete",
]

_PATTERN = frozenset("{*?[")
_LISTINGS = 32
"""Number of paths in object stores that are listed at the same time."""
_MANY = 1000
"""If there are at least this many files, only the manifest of their folder is read."""

_LARGE_MANIFEST = 64 << 10
"""Size in bytes of a manifest that may list more than a thousand shards."""

HOW_TO_COMPLETE = "continue the run that wrote it with mode='resume', or start it again with mode='overwrite'"
"""Advice about an incomplete dataset."""


_FINISH = "run the same call again, which writes the missing parts, or, if none is missing, `bushel finish {path}`"


@dataclass(frozen=True, slots=True)
class Found:
    """The files of a dataset, before any of them is read.

    Attributes:
        container: Name of the container.
        shards: The shards in order.
    """

    container: str
    shards: list[Shard]


def is_stream(source: object) -> bool:
    """Return whether a source can only be read forward. Its name or type decides; nothing is opened.

    Compressed archives of the kinds that can be indexed are read at random if all of them have an index.
    """
    if isinstance(source, str):
        return source.startswith("pipe:") or source == "-" or is_forward_only(source) or lacks_index(source)
    if isinstance(source, list | tuple):
        return any(is_stream(one) for one in source)
    if hasattr(source, "open") or isinstance(source, os.PathLike):
        return is_forward_only(str(source)) or lacks_index(source)
    return hasattr(source, "read")


def lacks_index(source: object) -> bool:
    """Return whether a path or pattern names files that are read at random only with an index, and one has none."""
    if isinstance(source, list | tuple):
        return any(map(lacks_index, source))
    if not isinstance(source, str | os.PathLike) and not hasattr(source, "open"):
        return False
    if not needs_index(str(source)):
        return False
    try:
        paths = expand_paths(source)
    except FileNotFoundError:
        return True
    return not all(Shard(path.parent, path.name, (path.name,)).sidecar.exists() for path in paths)


def expand_paths(source: object) -> list[AnyPath]:
    """Return the paths that a path, a glob, a brace pattern or a list of these stands for.

    Text is taken as a pattern only if no file has exactly this name.

    Raises:
        FileNotFoundError: A file or folder does not exist, or nothing matches the pattern.
    """
    if isinstance(source, Sequence) and not isinstance(source, str | bytes):
        paths = [path for one in source for path in expand_paths(one)]
        if not paths:
            raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
        return paths
    path = as_path(source)
    if isinstance(path, Path):
        if path.exists():
            return [path]
        if isinstance(source, str) and not _PATTERN.isdisjoint(source):
            return list(_expand_local(os.path.expanduser(source)))
    elif is_object(path):
        from bushel._dataset.remote_discovery import expand_url

        if not path.listable:  # an HTTP server answers any request for a folder, even with a page
            return list(expand_url(str(path)))
        if path.exists():
            return [path]
        if not _PATTERN.isdisjoint(str(path)):
            return list(expand_url(str(path)))
    elif path.exists():
        return [path]
    advice = _parts_of_file(path) or interrupted_write(path)
    raise FileNotFoundError(f"there is no file or folder {path}" + (f", but {advice}" if advice else _similar(path)))


def _similar(path: AnyPath) -> str:
    """Return a question that names files and folders with similar names, or nothing."""
    if not isinstance(path, Path):
        return ""
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        there = next(each for each in path.parents if each.exists())
        return f": in {there.absolute()}, there is no {path.relative_to(there).parts[0]}"
    from bushel._runtime.near_names import did_you_mean

    meant = did_you_mean(path.name, [name for name in names if not name.startswith(".")])
    return f": {meant}" if meant else ""


def _parts_of_file(path: AnyPath) -> str | None:
    """Return advice to open the parts if this file was packed in parts, else None."""
    if not isinstance(path, Path) or not path.suffix:
        return None
    pattern = path.with_name(f"{path.stem}-part-*{path.suffix}")
    there = path.parent.is_dir() and any(path.parent.glob(pattern.name.replace("*", "[0-9]*")))
    return f"it was packed in parts: open '{pattern}'" if there else None


def _expand_local(pattern: str) -> Iterator[Path]:
    import glob

    from bushel.storage import expand_braces

    for name in expand_braces(pattern) if "{" in pattern else [pattern]:
        if glob.has_magic(name):
            matches = sorted(glob.glob(name))
            if not matches:
                raise FileNotFoundError(f"no file matches {name}")
            yield from map(Path, matches)
        elif os.path.exists(name):
            yield Path(name)
        else:
            raise FileNotFoundError(f"there is no file or folder {name}")


def find(paths: Iterable[AnyPath], container: str | None = None) -> Found:
    """Return the container of files or folders, and the shards that they form.

    Args:
        paths: Files or folders.
        container: Name of the container that they must have; by default, any.

    Raises:
        FormatError: They have no container, or several.
    """
    name = container
    shards: list[Shard] = []
    for path, found, own in _find_each(list(paths), container):
        if container is not None and found != container:
            raise FormatError(
                f"this is a dataset in the container {found!r}, not {container!r}",
                file=str(path),
                hint=f"leave out container=, or pass container={found!r}",
            )
        if name is not None and found != name:
            raise FormatError(
                f"this is {found} and the others are {name}: one dataset has one container",
                file=str(path),
                hint="open them one by one and join them with bushel.concat",
            )
        name = found
        shards += own
    if name is None:
        raise FileNotFoundError("the list of paths is empty: name at least one file or folder")
    return Found(name, shards)


def _find_each(paths: Sequence[AnyPath], container: str | None) -> Iterator[tuple[AnyPath, str, list[Shard]]]:
    """Yield each path with its container and shards. The container of the first path is tried first for the others."""
    if not paths:
        return
    first, *others = paths
    name, shards = _find_at(first, container)
    yield first, name, shards
    if not any(map(is_object, others)):
        for path in others:
            yield path, *_find_at(path, name)
        return
    from bushel._runtime.parallel import parallel_map

    each = parallel_map(
        lambda path: _find_at(path, name), others, workers=_LISTINGS, limit=len(others), name="bushel-find"
    )
    for path, found in zip(others, each, strict=True):
        yield path, *found


def _find_at(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    """Return the container and the shards at a path. `container` is tried first if given."""
    if isinstance(path, Path) or not is_object(path):
        return _sniff(path, container)
    from bushel._dataset.remote_discovery import ListedPath, listed_in_manifest

    if not path.listable and not is_data_file(path.name):
        return listed_in_manifest(path)
    name, shards = _sniff(listed := ListedPath(path), container)
    return name, [replace(shard, root=path) if shard.root is listed else shard for shard in shards]


def _sniff(path: AnyPath, container: str | None) -> tuple[str, list[Shard]]:
    found = [] if container is None else _ask([get_container(container)], path)
    found = found or _ask(candidates(_names(path)), path) or _parts(path, container)
    if not found and container is not None:
        raise FormatError(f"there is no {container} dataset here", file=str(path))
    found = found or _ask(installed_candidates(_names(path)), path) or _ask(last_candidates(), path)
    if len(found) > 1:
        names = " and ".join(name for name, _ in found)
        raise FormatError(f"this folder holds {names} files", file=str(path), hint="name one with container=")
    if not found:
        raise FormatError(
            f"this {'folder' if path.is_dir() else 'file'} does not belong to any container that Bushel reads "
            f"({', '.join(container_names())})",
            file=str(path),
            hint="`bushel pack` makes a dataset of a folder of plain files",
        )
    return found[0]


def holds_parts(path: AnyPath) -> bool:
    """Return whether a folder holds the datasets `part-00000` and so on."""
    try:
        return bool(_parts(path, None))
    except FormatError:  # folders of other files have these names
        return False


def _parts(path: AnyPath, container: str | None) -> list[tuple[str, list[Shard]]]:
    """Return the datasets `part-00000` and so on in a folder, which `bushel.pack(..., parts=)` wrote, as one."""
    parts = [each for each in path.iterdir() if is_part(each.name)] if path.is_dir() else []
    parts.sort(key=lambda part: int(part.name[5:]))
    if len(parts) > (_MANY if isinstance(path, Path) else 1) and (listed := _listed_parts(path, parts, container)):
        return [listed]
    parts = [part for part in parts if not _is_empty(part)]  # it is missing: the run ended before its first shard
    if not parts:
        return []
    found = find(parts, container)
    return [(found.container, found.shards)]


def _listed_parts(path: AnyPath, parts: Sequence[AnyPath], container: str | None) -> tuple[str, list[Shard]] | None:
    """Return the shards of parts as the manifest of their folder lists them; None if it does not list all parts."""
    try:
        manifest = load_manifest(marker_path(path, ""))
    except (OSError, FormatError):  # `verify` reports a damaged manifest
        return None
    if manifest is None or not manifest.complete or container not in (None, manifest.container):
        return None
    there = {part.name: part for part in parts}
    shards = []
    for entry in manifest.shards:
        part, _, name = entry.name.partition("/")
        if part in there:
            shards.append(shard_of_entry(there[part], name, entry))
    return (manifest.container, shards) if {shard.root.name for shard in shards} == there.keys() else None


def _is_empty(part: AnyPath) -> bool:
    """Return whether a local folder contains nothing but what writers leave beside a dataset."""
    if not isinstance(part, Path) or not part.is_dir():
        return False
    with os.scandir(part) as entries:
        return all(entry.name == FOLDER for entry in entries)


def _ask(candidates: Iterable[Container], path: AnyPath) -> list[tuple[str, list[Shard]]]:
    return [(each.name, shards) for each in candidates if (shards := each.shards(path)) is not None]


def _names(path: AnyPath) -> Iterable[str]:
    """Return the name of a file, or the names in a folder."""
    return (entry.name for entry in path.iterdir()) if path.is_dir() else (path.name,)


@contextmanager
def telling_of_interrupted_writes(paths: Iterable[AnyPath]) -> Iterator[None]:
    """Let errors about datasets that cannot be opened say so if it is because their writer was interrupted."""
    try:
        yield
    except FormatError as error:
        advice = next(filter(None, map(interrupted_write, paths)), None)
        if advice is None or isinstance(error, CorruptError):
            raise
        raise FormatError(error.message, file=error.file, offset=error.offset, hint=advice) from error


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A dataset whose writer has not finished.

    Attributes:
        path: Path of the dataset, or of its part that is incomplete.
        expected: Number of samples that it should have, if known.
        missing_parts: Names of the parts that do not exist, if it was packed in parts.
        advice: How to complete it.
    """

    path: str
    expected: int | None = None
    missing_parts: tuple[str, ...] = ()
    advice: str = HOW_TO_COMPLETE

    def describe(self, samples: int) -> str:
        """Return the state in words: `40 of 100 samples are there`."""
        if self.missing_parts:
            shown = ", ".join(self.missing_parts[:3]) + ", …" * (len(self.missing_parts) > 3)
            return f"{samples:,} samples are there, and the parts {shown} are missing"
        return (
            f"{samples:,} of {self.expected:,} samples are there" if self.expected else f"{samples:,} samples are there"
        )


def marker_path(root: AnyPath, name: str) -> AnyPath:
    """Return the path of the manifest of an incomplete dataset.

    Args:
        root: Folder that is or contains the dataset.
        name: Name of the dataset's one file, or empty if the dataset is the folder.
    """
    return root / f"{FOLDER}/{name}.manifest.json" if name else root / f"{FOLDER}/manifest.json"


def incomplete_at(path: AnyPath, *, folder: bool) -> Incomplete | None:
    """Return the state of the dataset at this path if it is incomplete, else None.

    A dataset without a manifest is complete, unless a writer has left unfinished files in its staging folder, or has
    died while it replaced one of two files.

    Args:
        path: Path of the dataset.
        folder: Whether the dataset is a folder.
    """
    root, name = (path, "") if folder else (path.parent, path.name)
    state = load_state(root, name)
    if state is not None and not state.complete:
        return Incomplete(str(path), state.expected)
    unfinished = isinstance(root, Path) and (is_staged(root, name) or (bool(name) and is_half_replaced(root / name)))
    return Incomplete(str(path)) if unfinished else None


def folder_state(paths: Sequence[AnyPath]) -> FolderState | None:
    """Return the state of a local folder with a large manifest; None of anything else."""
    if len(paths) != 1 or not isinstance(paths[0], Path):
        return None
    try:
        folder, manifest = os.stat(paths[0]), os.stat(os.path.join(paths[0], FOLDER, "manifest.json"))
    except OSError:
        return None
    if manifest.st_size < _LARGE_MANIFEST:
        return None
    from bushel._index.shard_list import FolderState

    return FolderState(folder.st_mtime_ns, manifest.st_mtime_ns, manifest.st_size)


def load_state(root: AnyPath, name: str) -> Completeness | None:
    """Load the manifest at `marker_path`. Return None if it is missing or damaged."""
    try:
        return load_completeness(marker_path(root, name))
    except (OSError, FormatError):  # `verify` reports a damaged manifest
        return None


def is_staged(folder: Path, name: str) -> bool:
    """Return whether a writer has left unfinished files of a dataset: see `marker_path`."""
    staging = os.path.join(folder, FOLDER, "staging", name)
    return os.path.isdir(staging) and (bool(name) or bool(os.listdir(staging)))


def interrupted_write(path: AnyPath) -> str | None:
    """Return advice if a write to this path was interrupted before any shard was complete, else None."""
    if not isinstance(path, Path):
        return None
    folder, name = (path, "") if path.is_dir() else (path.parent, path.name)
    run = run_folder(path, single=bool(name))
    in_parts = (run / "plan.json").exists() and not (run / "result.json").exists()
    if is_staged(folder, name) or in_parts or (folder / FOLDER / f"{name or 'dataset'}.pack.json").exists():
        return f"a write of it was interrupted: {HOW_TO_COMPLETE}"
    return None


def find_incomplete(paths: Sequence[AnyPath], shards: Sequence[Shard]) -> Incomplete | None:
    """Return the state of the first incomplete one of some datasets.

    Args:
        paths: The datasets; several files may be the shards of one dataset.
        shards: Their shards.
    """
    roots = {str(shard.root): shard.root for shard in shards}
    if len(paths) == 1 and str(paths[0]) not in roots and all(is_part(root.name) for root in roots.values()):
        return _incomplete_parts(paths[0], list(roots.values()))
    files = len(paths) == 1 or (len(paths) < _MANY and isinstance(paths[0], Path))
    for path in paths:
        folder = str(path) in roots
        if (folder or files) and (found := incomplete_at(path, folder=folder)) is not None:
            return found
    for root in [] if len(paths) == 1 else list(roots.values()):
        state = load_state(root, "")
        if state is not None and not state.complete:
            return Incomplete(str(root), state.expected)
    return None


def _incomplete_parts(path: AnyPath, parts: Sequence[AnyPath]) -> Incomplete | None:
    """Return the state of a folder of parts if one is incomplete or missing, or if they have not been joined yet."""
    for part in parts if len(parts) <= _MANY else ():
        if (found := incomplete_at(part, folder=True)) is not None:
            return found
    try:
        manifest = load_manifest(marker_path(path, ""))
    except (OSError, FormatError):  # `verify` reports a damaged manifest
        manifest = None
    if manifest is None:  # of an older Bushel
        return None
    if not manifest.complete:
        return Incomplete(str(path), manifest.expected, advice=_FINISH.format(path=path))
    there = {part.name for part in parts}
    missing = {name: None for name in (entry.name.partition("/")[0] for entry in manifest.shards) if name not in there}
    return Incomplete(str(path), None, tuple(missing)) if missing else None


def incomplete_finder(paths: Sequence[AnyPath], shards: Sequence[Shard]) -> Callable[[], Incomplete | None]:
    """Start `find_incomplete`, for remote paths in another thread, and return a function that waits for its result."""
    if not paths or not is_object(paths[0]):
        return lambda: find_incomplete(paths, shards)
    from bushel._runtime.parallel import Result, Threads

    threads = Threads(1, "bushel-manifest")
    result: Result[Incomplete | None] = Result()

    def look() -> None:
        try:
            result.set(find_incomplete(paths, shards))
        except BaseException as error:
            result.fail(error)

    def wait() -> Incomplete | None:
        try:
            return result.get()
        finally:
            threads.close()

    threads.submit(look)
    return wait


def warn_incomplete(found: Incomplete, samples: int) -> None:
    """Warn the caller of `bushel.open` that the dataset is incomplete."""
    warnings.warn(
        f"{found.path} is incomplete: {found.describe(samples)}. To complete it, {found.advice}; "
        "open it with partial=True to use it as it is.",
        IncompleteWarning,
        stacklevel=3,
    )

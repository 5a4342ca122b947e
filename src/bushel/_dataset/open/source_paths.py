"""The paths that a source stands for: patterns are expanded, and streams are recognised."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bushel._index.shard import Shard
from bushel._runtime.public import did_you_mean
from bushel.containers import is_forward_only, needs_index
from bushel.errors import UnsupportedError, naming
from bushel.storage import AnyPath, as_path, is_object

from .completeness import interrupted_write

_PATTERN = frozenset("{*?[")


def is_stream(source: object) -> bool:
    """Return whether a source can only be read forward. Its name or type decides; nothing is opened.

    Compressed archives of the kinds that can be indexed are read at random if all of them have an
    index.
    """
    if isinstance(source, list | tuple):
        return any(map(is_stream, source))
    if not _is_path(source):
        return hasattr(source, "read")
    is_piped = isinstance(source, str) and (source == "-" or source.startswith("pipe:"))
    return is_piped or is_forward_only(str(source)) or lacks_index(source)


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
    with naming(source):  # a server of another scheme, by fsspec
        return _paths_at(source, as_path(source), look=look)


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
    return FileNotFoundError(
        f"no such file or folder: {path}" + (f", but {advice}" if advice else _similar(path))
    )


def _similar(path: AnyPath) -> str:
    """Return a question that names files and folders with similar names, or nothing."""
    if not isinstance(path, Path):
        return ""
    if path.is_symlink():
        return f": it is a symbolic link to {os.readlink(path)}, which does not exist"
    try:
        names = [entry.name for entry in os.scandir(path.parent)]
    except OSError:
        nearest = next(parent for parent in path.parents if parent.exists())
        return f": {nearest.absolute()} has no {path.relative_to(nearest).parts[0]}"
    meant = did_you_mean(path.name, [name for name in names if not name.startswith(".")])
    if meant:
        return f": {meant}"
    return ""


def _parts_of_file(path: AnyPath) -> str | None:
    """Return advice to open the folder of parts if this file was packed in parts, else None."""
    if not isinstance(path, Path) or not path.suffix:
        return None
    pattern = path.with_name(f"{path.stem}-part-*{path.suffix}")
    if not any(path.parent.glob(pattern.name.replace("*", "[0-9]*"))):
        return None
    return f"it was packed in parts: open '{pattern}'"

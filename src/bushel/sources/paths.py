"""Files that the caller names: patterns and lists of paths, and paths as values of samples."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.source_paths import expand_paths
from bushel.codecs import codec_of_extension
from bushel.errors import FormatError
from bushel.sources.base import Sample
from bushel.sources.media import IMAGES, SOUNDS, VIDEOS
from bushel.storage import as_path, read_whole

_KINDS = {
    suffix: kind
    for kind, suffixes in (("images", IMAGES), ("videos", VIDEOS), ("sounds", SOUNDS))
    for suffix in suffixes
}
_SIGNS = "*?[{"


def are_paths(values: object) -> bool:
    """Return whether a list holds paths and nothing else."""
    return (
        isinstance(values, Sequence)
        and len(values) > 0
        and all(isinstance(path, str | os.PathLike) for path in values)
    )


def media_kind(source: Any) -> str | None:
    """Return the kind of the files that a pattern, a path or a list of paths names: `images`, `videos` or `sounds`.

    Returns:
        The kind by the suffixes; None if a path is a folder or has another suffix.

    Raises:
        FormatError: The files of a list are of several kinds.
    """
    is_single = isinstance(source, str | os.PathLike)
    names = [os.fspath(path) for path in ([source] if is_single else source)]
    kinds = Counter(_KINDS.get(os.path.splitext(name)[1].lower(), "other files") for name in names)
    if is_single and next(iter(kinds)) != "other files" and as_path(source).is_dir():
        return None
    if len(kinds) > 1:
        counts = ", ".join(f"{number:,} {kind}" for kind, number in kinds.most_common())
        raise FormatError(
            f"a list of files must be of one kind, but this one has {counts}",
            hint=(
                "pack dicts, whose values can be paths: [{'image': Path('a.jpg'), 'text':"
                " Path('a.txt')}]"
            ),
        )
    if "other files" in kinds:
        return None
    return next(iter(kinds))


def folder_of(source: Any) -> tuple[str, list[str]]:
    """Return the folder that holds the files of a pattern or a list, and their names in it, in order.

    The folder of a pattern is what comes before its first wildcard; the folder of a list is the
    innermost one that holds all of the files.

    Raises:
        FileNotFoundError: A file does not exist, or nothing matches the pattern.
    """
    paths = [str(path) for path in expand_paths(source)]
    if (
        isinstance(source, str)
        and any(sign in source for sign in _SIGNS)
        and not as_path(source).exists()
    ):
        fixed = os.path.expanduser(source)
        fixed = fixed[: min(fixed.index(sign) for sign in _SIGNS if sign in fixed)]
        folder = posixpath.dirname(fixed)
    else:
        folders = [posixpath.dirname(path).split("/") for path in paths]
        folder = "/".join(os.path.commonprefix(folders))  # of lists, it compares their items
        if not folder and paths[0].startswith("/"):
            folder = "/"
    start = len(folder) + 1 if folder and not folder.endswith("/") else len(folder)
    return folder or ".", [path[start:] for path in paths]


def codec_of_path(path: os.PathLike[str]) -> str:
    """Return the codec of the bytes of a file, by its suffix."""
    return codec_of_extension(Path(path).suffix[1:])


def with_files(sample: Sample) -> Sample:
    """Return a sample in which paths are replaced by the bytes of their files, also in lists.

    Raises:
        FileNotFoundError: A file does not exist.
    """
    if not isinstance(sample, Mapping) or not any(map(holds_paths, sample.values())):
        return sample
    return {name: _with_file(value) for name, value in sample.items()}


def holds_paths(value: object) -> bool:
    """Return whether a value is a path object, or a list that begins with one."""
    return isinstance(value, os.PathLike) or (
        isinstance(value, list | tuple) and bool(value) and isinstance(value[0], os.PathLike)
    )


def _with_file(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return read_whole(as_path(value))
    if holds_paths(value):
        return [_with_file(member) for member in value]
    return value


def rows_of(columns: Mapping[str, Any]) -> list[Sample]:
    """Return columns as dicts. Some columns are lists of paths. Raise ValueError if the columns differ in length."""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) != 1:
        raise ValueError(
            f"the columns of a source must have the same length, but these have {lengths}"
        )
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

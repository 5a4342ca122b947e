"""The error about a path that does not exist, with a name that may be meant."""

from __future__ import annotations

import os
from pathlib import Path

from bushel._dataset.open.completeness import interrupted_write
from bushel._runtime.public import did_you_mean
from bushel.storage import AnyPath


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
    return f": {meant}" if meant else ""


def _parts_of_file(path: AnyPath) -> str | None:
    """Return advice to open the folder of parts if this file was packed in parts, else None."""
    if not isinstance(path, Path) or not path.suffix:
        return None
    pattern = path.with_name(f"{path.stem}-part-*{path.suffix}")
    packed = path.parent.is_dir() and any(path.parent.glob(pattern.name.replace("*", "[0-9]*")))
    return f"it was packed in parts: open '{pattern}'" if packed else None

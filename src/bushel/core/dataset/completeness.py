"""Whether a dataset is complete: what its manifest and the leftovers of an interrupted write tell."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from bushel.containers.base import Shard
from bushel.core.index.sidecar import FOLDER, Completeness, load_completeness
from bushel.errors import FormatError, IncompleteWarning
from bushel.storage import AnyPath, is_object

__all__ = [
    "HOW_TO_COMPLETE",
    "Incomplete",
    "find_incomplete",
    "incomplete_at",
    "incomplete_finder",
    "interrupted_write",
    "load_state",
    "marker_path",
    "warn_incomplete",
]

_MANY = 1000
"""Number of files from which on only the manifest of their folder is read."""

HOW_TO_COMPLETE = "continue the run that wrote it with mode='resume', or start it again with mode='overwrite'"
"""Advice about an incomplete dataset."""


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A dataset whose writer has not finished.

    Attributes:
        path: Path of the dataset, or of the one of its parts that is incomplete.
        expected: Number of samples that it should have, if known.
        missing_parts: Names of the parts that do not exist, if it was packed in parts.
    """

    path: str
    expected: int | None = None
    missing_parts: tuple[str, ...] = ()

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
    return root / FOLDER / (f"{name}.manifest.json" if name else "manifest.json")


def incomplete_at(path: AnyPath, *, folder: bool) -> Incomplete | None:
    """Return the state of the dataset at this path if it is incomplete, else None.

    A dataset without a manifest is complete, unless a writer has left unfinished files in its staging folder.

    Args:
        path: Path of the dataset.
        folder: Whether the dataset is a folder.
    """
    root, name = (path, "") if folder else (path.parent, path.name)
    if isinstance(root, Path) and not (root / FOLDER).is_dir():
        return None
    state = load_state(root, name)
    if state is not None and not state.complete:
        return Incomplete(str(path), state.expected)
    return Incomplete(str(path)) if isinstance(root, Path) and _is_staged(root, name) else None


def load_state(root: AnyPath, name: str) -> Completeness | None:
    """Return what the manifest at `marker_path` tells, or None if it is missing or damaged."""
    try:
        return load_completeness(marker_path(root, name))
    except (OSError, FormatError):  # `verify` reports a damaged manifest
        return None


def _is_staged(folder: Path, name: str) -> bool:
    staging = folder / FOLDER / "staging"
    if name:
        return (staging / name).is_dir()
    return staging.is_dir() and any(staging.iterdir())


def interrupted_write(path: AnyPath) -> str | None:
    """Return advice if a write to this path was interrupted before any shard was complete, else None."""
    if not isinstance(path, Path):
        return None
    folder, name = (path, "") if path.is_dir() else (path.parent, path.name)
    if _is_staged(folder, name) or (folder / FOLDER / f"{name or 'dataset'}.pack.json").exists():
        return f"a write of it was interrupted before a shard was complete: {HOW_TO_COMPLETE}"
    return None


def find_incomplete(paths: Sequence[AnyPath], shards: Sequence[Shard]) -> Incomplete | None:
    """Return the state of the first incomplete one of some datasets.

    Args:
        paths: The datasets; several files may be the shards of one dataset.
        shards: Their shards.
    """
    roots = {str(shard.root) for shard in shards}
    files = len(paths) == 1 or (len(paths) < _MANY and isinstance(paths[0], Path))
    for path in paths:
        folder = str(path) in roots
        if (folder or files) and (found := incomplete_at(path, folder=folder)) is not None:
            return found
    for root in {} if len(paths) == 1 else {str(shard.root): shard.root for shard in shards}.values():
        state = load_state(root, "")
        if state is not None and not state.complete:
            return Incomplete(str(root), state.expected)
    return None


def incomplete_finder(paths: Sequence[AnyPath], shards: Sequence[Shard]) -> Callable[[], Incomplete | None]:
    """Start `find_incomplete`, for remote paths in another thread, and return a function that waits for its result."""
    if not paths or not is_object(paths[0]):
        return lambda: find_incomplete(paths, shards)
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, "bushel-manifest")
    result = pool.submit(find_incomplete, paths, shards)
    pool.shutdown(wait=False)
    return result.result


def warn_incomplete(found: Incomplete, samples: int) -> None:
    """Warn the caller of `bushel.open` that the dataset is incomplete."""
    warnings.warn(
        f"{found.path} is incomplete: {found.describe(samples)}. To complete it, {HOW_TO_COMPLETE}; "
        "open it with partial=True to use it as it is.",
        IncompleteWarning,
        stacklevel=3,
    )

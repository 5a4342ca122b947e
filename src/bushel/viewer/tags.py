"""Tags that people give to samples: named selections, which a file keeps if one is named."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import I64, Bools
from bushel.storage.publish import update

_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,80}")
_VERSION = 1


def checked_name(name: str) -> str:
    """Return the name of a tag without spaces around it.

    Raises:
        ValueError: It is empty, too long, or has control characters.
    """
    name = name.strip()
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name[:100]!r} is not the name of a tag: expected 1 to 80 characters")
    return name


@dataclass
class Tags:
    """The tags of a dataset. Threads may share it."""

    dataset: Dataset
    version: int = 0  # number of changes so far
    # keys or positions in the file that this dataset does not have, by tag; they stay in the file
    lost: dict[str, list[Any]] = field(default_factory=dict)
    _chosen: dict[str, Bools] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def counts(self) -> dict[str, int]:
        """Return the number of samples of each tag."""
        with self._lock:
            return {
                name: int(np.count_nonzero(chosen)) for name, chosen in sorted(self._chosen.items())
            }

    def of(self, positions: Sequence[int]) -> list[list[str]]:
        """Return the tags of samples."""
        with self._lock:
            rows = np.asarray(positions, np.int64)
            tagged = {name: chosen[rows] for name, chosen in sorted(self._chosen.items())}
        return [
            [name for name, chosen in tagged.items() if chosen[number]]
            for number in range(len(positions))
        ]

    def positions(self, name: str) -> I64:
        """Return the samples of a tag, ascending; none for an unknown one."""
        with self._lock:
            return np.flatnonzero(self._chosen.get(name, ()))

    def untagged(self) -> I64:
        """Return the samples without any tag, ascending."""
        with self._lock:
            chosen = np.zeros(len(self.dataset), np.bool_)
            for marked in self._chosen.values():
                chosen |= marked
        return np.flatnonzero(~chosen)

    def change(self, name: str, positions: np.ndarray | range, *, add: bool) -> None:
        """Add a tag to samples, or remove it.

        Args:
            name: The tag. One that no sample has is forgotten.
            positions: The samples.
            add: Whether to add it or to remove it.

        Raises:
            IndexError: A position is out of range.
        """
        rows = np.asarray(positions, np.int64)
        if len(rows) and not (rows.min() >= 0 and rows.max() < len(self.dataset)):
            raise IndexError(
                f"a position is out of range: the dataset has {len(self.dataset)} samples"
            )
        with self._lock:
            chosen = self._chosen.get(name)
            if chosen is None:
                chosen = self._chosen[name] = np.zeros(len(self.dataset), np.bool_)
            chosen[rows] = add
            if not chosen.any():
                del self._chosen[name]
            self.version += 1

    def restore(self, kept: Mapping[str, Iterable[Any]]) -> None:
        """Set the tags to the contents of a file: names to keys, or to positions of samples without keys."""
        everything = range(len(self.dataset))
        for name, members in kept.items():
            positions, lost = [], []
            for member in members:
                position_of = self.dataset.position if isinstance(member, str) else everything.index
                try:
                    positions.append(position_of(member))
                except (KeyError, ValueError):
                    lost.append(member)
            if lost:
                self.lost[name] = lost
            if positions:
                self.change(checked_name(name), np.array(positions, np.int64), add=True)

    def members(self) -> dict[str, list[Any]]:
        """Return the tags as a file keeps them."""
        members: dict[str, list[Any]] = {}
        for name in self.counts():
            members[name] = self.positions(name).tolist()
            if self.dataset.info.keyed:
                members[name] = [self.dataset.keys[position] for position in members[name]]
        for name, lost in self.lost.items():
            members[name] = [*members.get(name, []), *lost]
        return members


class _Saved(msgspec.Struct):
    """The contents of the file that keeps tags."""

    version: Literal[1] = msgspec.field(name="bushel-tags")
    datasets: dict[str, dict[str, list[str | int]]]


class TagFile:
    """The file that keeps the tags of all datasets of a viewer, by the paths of the datasets. The file need not exist.

    Raises:
        ValueError: The file is not one that a viewer has written.
        OSError: It cannot be read.
    """

    def __init__(self, path: Path, tags: Mapping[str, Tags]) -> None:
        self._path, self._tags = path, tags
        self._lock = threading.Lock()
        # what the file had when it was last read or written
        self._saved: dict[str, dict[str, list[Any]]] = {}
        if path.exists():
            self._saved = self._parsed(path.read_bytes())
            for name, members in self._saved.items():
                if name in tags:
                    tags[name].restore(members)

    def _parsed(self, data: bytes) -> dict[str, dict[str, list[Any]]]:
        try:
            return msgspec.convert(json.loads(data), _Saved).datasets
        except ValueError as error:
            raise ValueError(
                f"{self._path}: expected tags that bushel view has written: {error}"
            ) from error

    def save(self) -> None:
        """Make the changes since the last call in the file, atomically. Changes of others since then stay.

        Raises:
            OSError: The file cannot be written.
        """
        with self._lock:
            now = {name: tags.members() for name, tags in self._tags.items()}
            update(self._path, lambda data: self._merged(data, now))
            self._saved |= now

    def _merged(self, data: bytes | None, now: Mapping[str, Mapping[str, list[Any]]]) -> bytes:
        """Return the file with the tags given since the last save, and without those removed."""
        datasets = {} if data is None else self._parsed(data)
        for dataset, tags in now.items():
            saved, stored = self._saved.get(dataset, {}), datasets.get(dataset, {})
            merged = {
                name: _changed(stored.get(name, []), saved.get(name, []), tags.get(name, []))
                for name in {**stored, **tags}
            }
            datasets[dataset] = {name: members for name, members in merged.items() if members}
        tagged = {name: tags for name, tags in datasets.items() if tags}
        return (json.dumps({"bushel-tags": _VERSION, "datasets": tagged}, indent=1) + "\n").encode()


def _changed(stored: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    """Return the members of a tag in the file, with this viewer's changes."""
    taken = set(before).difference(after)
    left = [member for member in stored if member not in taken]
    added = set(after).difference(before, left)
    return [*left, *(member for member in after if member in added)]

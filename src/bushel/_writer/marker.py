"""The manifest that marks a dataset as incomplete, from its first shard until its writer has finished."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import UNSET, UnsetType

from bushel._discovery.completeness import manifest_path, marker_path
from bushel._index.saving import save_manifest
from bushel._index.sidecar import FOLDER, Manifest, find_manifest
from bushel._reader.listed import write_manifest
from bushel._reader.shards import OpenShard
from bushel.storage import AnyPath, remove, sync_folder

__all__ = ["Marker"]


class Marker:
    """Writes and removes the manifest of an incomplete dataset.

    Args:
        root: Folder that is or contains the dataset.
        name: Name of the dataset's one file, or empty.
        sync: Whether to wait for the disk.

    Attributes:
        written: Whether the manifest exists.
        expected: Number of samples of the complete dataset, if known.
        before: Number of samples before those that are being appended, if some are.
    """

    def __init__(self, root: AnyPath, name: str, *, sync: bool) -> None:
        self._root, self._name, self._sync = root, name, sync
        self._path = marker_path(root, name)
        self.written = False
        self.expected: int | None = None
        self.before: int | None = None

    def is_there(self) -> bool:
        """Return whether the manifest of an earlier, unfinished writer exists."""
        state = find_manifest(self._path)
        return state is not None and not state.complete

    def load(self) -> bool:
        """Look for the manifest that an earlier writer has left. Return whether it exists."""
        state = find_manifest(self._path)
        if state is not None and not state.complete:
            self.written, self.expected = True, state.expected
            self.before = None if state.before is UNSET else state.before
            if self._sync and isinstance(self._path, Path):  # its writer may have been killed before it did that
                sync_folder(self._path.parent)
        return self.written

    def begin(self, container: str) -> None:
        """Write the manifest, without shards, unless it exists: before a shard is published that is not the last."""
        if not self.written:
            self.written = True
            manifest = Manifest(container, {}, {}, [], complete=False, expected=self.expected, before=self._before)
            save_manifest(manifest, self._path, sync=self._sync)

    def update(self, shards: Sequence[OpenShard]) -> None:
        """Write the manifest with the shards so far."""
        self.written = True
        write_manifest(shards, self._path, expected=self.expected, before=self._before, sync=self._sync)

    @property
    def _before(self) -> int | UnsetType:
        return UNSET if self.before is None else self.before

    def finish(self, shards: Sequence[OpenShard]) -> None:
        """Replace the manifest by the manifest of the complete dataset; a dataset of one file has none."""
        if not self._name:
            write_manifest(shards, sync=self._sync)
        left = self.written or isinstance(self._path, Path)  # also by a run that has left nothing else
        if left and (self._name or self._path != manifest_path([opened.shard for opened in shards])):
            remove(self._path)
        if isinstance(self._root, Path):
            sidecars = self._root / FOLDER
            for folder in (sidecars / "staging", sidecars):
                with suppress(OSError):  # it contains other files, or does not exist
                    folder.rmdir()
            if self._sync:  # or else a power cut could bring back this manifest, or staged files
                sync_folder(sidecars if sidecars.exists() else self._root)

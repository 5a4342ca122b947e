"""Replace a local dataset atomically: the new one is staged beside it, and swapped with it when it is complete.

The staging folder of `data/train` is `data/.bushel/overwrite/train`. It contains the new dataset, `train`, and the
files that lie beside it, under their final relative names. To publish it, a marker file is written; it makes the swap
repeatable. Then the new `train` is exchanged with the old one by one system call (`core.system`), and the files beside
it follow. A process that dies before the marker leaves the old dataset; the next writer removes the staging folder. A
process that dies after the marker leaves the old or the new dataset; the next writer completes the swap. Until then,
the index of a new file is read from the staging folder. Only a `.rec` file with its `.idx` cannot be replaced in one
step: between the two, the `.idx` is missing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bushel.containers import containers
from bushel.core.dataset.folders import OVERWRITE_MARKER, overwrite_folder
from bushel.core.index.sidecar import FOLDER
from bushel.core.system import exchange_names
from bushel.errors import FormatError, StateError
from bushel.storage import make_folder, read_whole, sync_folder, write_whole
from bushel.storage.workplaces import Claim

__all__ = ["Overwrite", "recover_overwrite"]

_OWN_FILES = (OVERWRITE_MARKER, "writer", "errors.jsonl")


def recover_overwrite(target: Path, mode: str) -> None:
    """Complete or undo an interrupted overwrite of this target, if there is one.

    Args:
        target: Path of the dataset.
        mode: Mode of the writer that is opened.

    Raises:
        FileExistsError: Another process is overwriting the target.
        StateError: The mode is `resume`, and the interrupted overwrite was not complete.
    """
    folder = overwrite_folder(target)
    if not folder.is_dir():
        return
    claim = Claim(folder)
    try:
        if (folder / OVERWRITE_MARKER).exists():
            _swap(folder, sync=True)
        elif mode == "resume":
            raise StateError(f"an overwrite of {target} was interrupted, and cannot be resumed: use mode='overwrite'")
        _remove(folder)
    finally:
        claim.release()


class Overwrite:
    """A dataset that is written to a staging folder, to replace another one.

    Args:
        target: Path of the dataset to replace. It need not exist.
        sync: Whether to wait until the swap is on disk.

    Attributes:
        folder: The staging folder.
        staged: Path of the new dataset in it.

    Raises:
        FileExistsError: Another process is overwriting the target, or the target contains other files than a dataset.
    """

    def __init__(self, target: Path, *, sync: bool) -> None:
        real = Path(os.path.realpath(target))
        self._sync = sync
        self.folder = overwrite_folder(target)
        self.staged = self.folder / real.name
        self._old_files = _check_replaceable(real, target)
        staging = real.parent / FOLDER / "staging" / real.name  # of an unfinished write of one file
        if staging.is_dir():
            Claim(staging).release()
            self._old_files.append(f"{FOLDER}/staging/{real.name}")
        self._old_files += [f"{FOLDER}/{real.name}.pack.json", f"{FOLDER}/{real.name}.manifest.json"]
        self._claim = Claim(self.folder)
        self._ended = False

    def publish(self) -> None:
        """Swap the new dataset, which must be complete, with the old one, and remove the old one.

        Raises:
            OSError: The swap failed. The old dataset is still there.
        """
        stat = self.staged.stat()
        beside = [] if self.staged.is_dir() else list(_files_beside(self.folder))
        marker = {"device": stat.st_dev, "inode": stat.st_ino, "old": self._old_files, "new": beside}
        self._ended = True
        write_whole(self.folder / OVERWRITE_MARKER, json.dumps(marker).encode(), sync=self._sync)
        if self._sync:  # after a power cut in the middle of the swap, the marker must be there
            for above in (self.folder.parent, self.folder.parent.parent, self.folder.parent.parent.parent):
                sync_folder(above)
        _swap(self.folder, sync=self._sync)
        _remove(self.folder)
        if self._sync:
            sidecars = self.folder.parent.parent
            sync_folder(sidecars if sidecars.exists() else sidecars.parent)
        self._claim.release()

    def discard(self) -> None:
        """Remove the staging folder, unless `publish` was called. The old dataset stays."""
        if self._ended:
            return
        self._ended = True
        _remove(self.folder)
        self._claim.release()


def _check_replaceable(real: Path, target: Path) -> list[str]:
    """Return the names of the files beside the old dataset that belong to it, relative to its parent folder.

    Raises:
        FileExistsError: The target is not a dataset, or contains other files, which would be lost.
    """
    if not real.exists():
        return []
    if os.path.ismount(real):
        raise FileExistsError(f"{target} is a mount point, which cannot be replaced: write to a folder in it")
    if real.is_dir():
        if (other := next(_other_files(real), None)) is not None:
            raise FileExistsError(
                f"{target} contains {other}, which is not part of a dataset, and mode='overwrite' replaces the whole "
                "folder: move that file away, or write to another path"
            )
        return []
    shards = [shard for container in containers() for shard in container.shards(real) or ()]
    if not shards:
        raise FileExistsError(f"{target} is a file, but not a dataset: delete it, or write to another path")
    files = [name for shard in shards for name in shard.files if name != real.name]
    return [*files, *(f"{shard.sidecars}/{shard.sidecar.name}" for shard in shards)]


def _other_files(folder: Path) -> Iterator[str]:
    """Yield the files in a folder that are not part of a dataset."""
    own = {"label2idx.json"}
    for container in containers():
        try:
            own.update(name for shard in container.shards(folder) or () for name in shard.files)
        except FormatError:  # a damaged dataset may have files that cannot be listed
            return
    for base, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != FOLDER]
        for name in files:
            relative = os.path.relpath(os.path.join(base, name), folder)
            if relative not in own:
                yield relative


def _files_beside(folder: Path) -> Iterator[str]:
    """Yield the files beside the staged file that belong to it, relative to the staging folder."""
    for base, folders, files in os.walk(folder):
        if Path(base) == folder / FOLDER:
            folders.clear()
        for name in files:
            relative = os.path.relpath(os.path.join(base, name), folder)
            if relative not in (*_OWN_FILES, folder.name):
                yield relative


def _swap(folder: Path, *, sync: bool) -> None:
    """Give the staged dataset its final name. May be repeated after a kill at any moment."""
    parent, staged = folder.parent.parent.parent, folder / folder.name
    target = parent / folder.name
    marker = json.loads(read_whole(folder / OVERWRITE_MARKER))
    try:
        stat = target.stat()
        swapped = (stat.st_dev, stat.st_ino) == (marker["device"], marker["inode"])
    except FileNotFoundError:
        swapped = False
    old, new = set(marker["old"]), marker["new"]
    if not swapped:
        for name in old & set(new):  # the new file must not be read with the tables of the old one
            if not name.startswith(f"{FOLDER}/"):  # an index that does not fit its file is not used
                (parent / name).unlink(missing_ok=True)
        _exchange(staged, target, folder / "old")
    for name in new:
        if (folder / name).exists():
            make_folder((parent / name).parent, sync=sync)
            os.replace(folder / name, parent / name)
    for name in old - set(new):
        if (parent / name).is_dir():
            shutil.rmtree(parent / name, ignore_errors=True)
        else:
            (parent / name).unlink(missing_ok=True)
    for changed in {parent, *((parent / name).parent for name in new)} if sync else ():
        sync_folder(changed)


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Rename `new` to `target`, which may exist, and move the old `target` away."""
    if not target.exists():
        os.rename(new, target)
        return
    if exchange_names(new, target):
        return
    if not new.is_dir() and not target.is_dir():
        os.replace(new, target)
        return
    os.rename(target, old)  # a kill between these two calls leaves no target, until the next writer completes the swap
    os.rename(new, target)


def _remove(folder: Path) -> None:
    """Remove a staging folder; the marker last, so that a kill meanwhile does not lose what it says."""
    for entry in list(folder.iterdir()):
        if entry.name in _OWN_FILES:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    sidecars = folder.parent.parent
    for empty in (sidecars / "staging", folder.parent, sidecars):
        try:
            empty.rmdir()
        except OSError:  # missing, or not empty
            continue

"""Replace a local dataset atomically: the new one is staged beside it, and swapped with it when it is complete.

The staging folder of `data/train` is `data/.bushel/overwrite/train`. It contains the new dataset, `train`, and the
files that lie beside it, under their final relative names. To publish it, a marker file is written; it makes the swap
repeatable. Then the new `train` is exchanged with the old one by one system call (`_runtime.system`), and the files
beside it follow. A process that is killed before the marker leaves the old dataset; the next writer removes the staging
folder. A process that is killed after the marker leaves the old or the new dataset; the next writer completes the swap.
Until then, the index of a new file is read from the staging folder. Only a `.rec` file with its `.idx` cannot be
replaced in one step: between the two, the `.idx` is missing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from bushel._dataset.open.claiming import claim_target
from bushel._dataset.open.folders import OVERWRITE_MARKER, is_part, overwrite_folder
from bushel._index.sidecar import FOLDER
from bushel._runtime.system import exchange_names
from bushel._writer.options import WriterOptions
from bushel._writer.target import Target
from bushel.containers import container_by_suffix, get_writable, writable_containers
from bushel.errors import FormatError, StateError
from bushel.storage import AnyPath, make_folder, read_whole, sync_folder, write_whole
from bushel.storage.claims import Claim
from bushel.storage.names import inside, refuse_link, remove_tree, try_remove_tree

_CLAIM = "writer"
"""Name of the claim of the staging folder. It excludes who claims the new folder of a dataset right after the swap."""
_OWN_FILES = (OVERWRITE_MARKER, _CLAIM, "errors.jsonl")


class _Marker(msgspec.Struct, frozen=True):
    """The content of the marker: the new dataset by device and inode, and files beside the old and the new one."""

    device: int
    inode: int
    old: list[str]
    new: list[str]


def claim_for_writing(path: AnyPath, options: WriterOptions) -> Claim:
    """Claim the target of a writer, and complete or undo an interrupted overwrite of it.

    Raises:
        InUseError: Another writer is open for it.
        StateError: The mode is `resume`, and the interrupted overwrite was not complete.
        ValueError: The container is unknown.
    """
    container = container_by_suffix(path.name) if options.container is None else get_writable(options.container)
    single = container is not None and Target.of(path, container).single
    while True:
        claim = claim_target(path, single=single, follow=options.mode == "overwrite", sync=options.sync)
        try:
            replaced = isinstance(path, Path) and _recover(path, options.mode)
        except BaseException:
            claim.release()
            raise
        if not replaced:
            return claim
        claim.release()  # of the folder that was replaced


def _recover(target: Path, mode: str) -> bool:
    """Complete or undo an interrupted overwrite of this target. Return whether one was found."""
    folder = overwrite_folder(target)
    if not folder.is_dir():
        return False
    refuse_link(folder)
    claim = Claim(folder / _CLAIM, target)
    try:
        if (folder / OVERWRITE_MARKER).exists():
            _swap(folder, sync=True)
        elif mode == "resume":
            raise StateError(f"an overwrite of {target} was interrupted, and cannot be resumed: use mode='overwrite'")
        _remove(folder)
    finally:
        claim.release()
    return True


class Overwrite:
    """A dataset that is written to a staging folder, to replace another one.

    The caller has claimed the target, which need not exist. With `sync`, `publish` waits until the swap is on disk.

    Raises:
        FileExistsError: The target contains other files than a dataset.
    """

    def __init__(self, target: Path, *, sync: bool) -> None:
        real = Path(os.path.realpath(target))
        self._sync = sync
        self.folder = overwrite_folder(target)
        self.staged = self.folder / real.name
        self._old_files = _check_replaceable(real, target)
        staging = real.parent / FOLDER / "staging" / real.name  # of an unfinished write of one file
        if staging.is_dir():
            self._old_files.append(f"{FOLDER}/staging/{real.name}")
        self._old_files += [f"{FOLDER}/{real.name}.pack.json", f"{FOLDER}/{real.name}.manifest.json"]
        self._claim = Claim(self.folder / _CLAIM, target)
        self._ended = False

    def publish(self) -> None:
        """Swap the new dataset, which must be complete, with the old one, and remove the old one.

        Raises:
            OSError: The swap failed. The old dataset is still there.
        """
        stat = self.staged.stat()
        beside = [] if self.staged.is_dir() else list(_files_beside(self.folder))
        marker = _Marker(stat.st_dev, stat.st_ino, self._old_files, beside)
        self._ended = True
        write_whole(self.folder / OVERWRITE_MARKER, json.dumps(msgspec.to_builtins(marker)).encode(), sync=self._sync)
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
    shards = [shard for container in writable_containers() for shard in container.shards(real) or ()]
    if not shards:
        raise FileExistsError(f"{target} is a file, but not a dataset: delete it, or write to another path")
    files = [name for shard in shards for name in shard.files if name != real.name]
    return [*files, *(f"{shard.sidecars}/{shard.sidecar.name}" for shard in shards)]


def _other_files(folder: Path) -> Iterator[str]:
    """Yield the files in a folder that are not part of a dataset in it, or of the parts of one."""
    own: set[str] = set()
    for place in (folder, *(each for each in folder.iterdir() if is_part(each.name) and each.is_dir())):
        above = "" if place == folder else f"{place.name}/"
        own.add(f"{above}label2idx.json")
        for container in writable_containers():
            try:
                own.update(above + name for shard in container.shards(place) or () for name in shard.files)
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
    marker = _load_marker(folder)
    old = {name: inside(parent, name, any_text=True) for name in marker.old}
    new = {name: inside(parent, name, any_text=True) for name in marker.new}
    try:
        stat = target.stat()
        swapped = (stat.st_dev, stat.st_ino) == (marker.device, marker.inode)
    except FileNotFoundError:
        swapped = False
    if not swapped:
        for name in old.keys() & new.keys():  # the new file must not be read with the tables of the old one
            if not name.startswith(f"{FOLDER}/"):  # an index that does not fit its file is not used
                old[name].unlink(missing_ok=True)
        _exchange(staged, target, folder / "old")
    for name, final in new.items():
        own = inside(folder, name, any_text=True)
        if own.exists():
            make_folder(final.parent, sync=sync)
            os.replace(own, final)
    for name in old.keys() - new.keys():
        if name.startswith(f"{FOLDER}/staging/"):
            remove_tree(old[name])
        elif not old[name].is_dir():
            old[name].unlink(missing_ok=True)
    for changed in {parent, *(final.parent for final in new.values())} if sync else ():
        sync_folder(changed)


def _load_marker(folder: Path) -> _Marker:
    path = folder / OVERWRITE_MARKER
    try:
        return msgspec.convert(json.loads(read_whole(path)), _Marker)  # names may have surrogates
    except (ValueError, RecursionError) as error:
        raise FormatError(
            f"not the marker of an overwrite: {error}", file=str(path), hint=f"delete the folder {folder}"
        ) from error


def _exchange(new: Path, target: Path, old: Path) -> None:
    """Rename `new` to `target`, and move an existing `target` away."""
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
    """Remove a staging folder; the marker last, so that a kill meanwhile does not lose it."""
    for entry in list(folder.iterdir()):
        if entry.name in _OWN_FILES:
            continue
        if entry.is_dir() and not entry.is_symlink():
            try_remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)
    try_remove_tree(folder)
    sidecars = folder.parent.parent
    for empty in (sidecars / "staging", folder.parent, sidecars):
        try:
            empty.rmdir()
        except OSError:  # missing, or not empty
            continue

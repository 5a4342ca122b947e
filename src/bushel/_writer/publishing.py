"""Publish finished shards and datasets: files get their final names, or are uploaded, and old datasets are replaced.

A local dataset is replaced atomically: the new one is staged beside it, and swapped with it when it
is complete. The staging folder of `data/train` is `data/.bushel/overwrite/train`. It contains the
new dataset, `train`, and the files that are beside it, under their final relative names.
`storage.publish` gives all of them their names together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.completeness import (
    is_part,
    overwrite_folder,
    recover_files,
    unfinished_shards,
)
from bushel._dataset.open.locking import lock_of, lock_target
from bushel._dataset.open.removal_lists import keep_beside, lists_in, own_list
from bushel._dataset.read.shards import OpenShard
from bushel._index.removal_list import RemovalList, encode_removal_list
from bushel._index.saving import save_index
from bushel._index.shard import FOLDER, FileStamp, Shard
from bushel._index.sidecar import load_index
from bushel.containers import container_by_suffix, get_writable, writable_containers
from bushel.errors import FormatError, StateError
from bushel.storage import (
    COMMIT_LIST,
    AnyPath,
    Lock,
    Publication,
    Staging,
    below,
    recover,
    try_remove_tree,
    write_whole,
)

from .target import Mode, Target, WriterOptions, check_not_one_of_bags


class FinishedShard(Struct, frozen=True):
    """A complete shard whose files are still staged."""

    # the final shard, except for the stamps of remote files, which the storage assigns
    staged: OpenShard
    staging: Staging  # the staged files

    def publish(self, lists: Sequence[str] = ()) -> OpenShard:
        """Rename or upload the files to their final names.

        Args:
            lists: Names of staged files of the whole dataset, which a local shard takes along.

        Raises:
            OSError: That failed. The files are still staged.
        """
        opened, staging = self.staged, self.staging
        sidecar = opened.shard.sidecar_name
        ordered = _order_to_publish(opened.shard)
        if staging.local:
            staging.commit([*ordered, *lists], index=sidecar)
            return opened
        uploaded = dict(zip(ordered, staging.upload(ordered), strict=True))
        stamps = tuple(
            FileStamp(entry.name, *uploaded[entry.name], entry.crc32)
            for entry in opened.index.files
        )
        index = replace(opened.index, files=stamps)
        save_index(index, staging.path_of(sidecar), sync=False)
        staging.upload([sidecar], replace=True)
        staging.discard()
        return OpenShard.of(opened.container, opened.shard, index, stored=True, checked=True)


def continued_shards(target: Target, mode: Mode) -> list[OpenShard]:
    """Return the shards of the dataset at a target, after what a killed writer left is completed or undone.

    The caller has the lock. `overwrite` continues none.

    Raises:
        FileExistsError: The target is a folder instead of a file or the reverse, has parts, or holds
            a dataset of another container.
    """
    root = target.root
    target.check_kind()
    target.check_no_parts(mode)
    for folder in unfinished_shards(root, target.file):
        if isinstance(root, Path):
            recover(root, folder)
        elif mode == "resume":
            _upload_again(root, folder)
        else:
            try_remove_tree(folder)
    return [] if mode == "overwrite" else target.existing_shards()


def _upload_again(root: AnyPath, folder: Path) -> None:
    """Upload a shard that a killed writer has staged on this machine, or remove it if it is not complete.

    Its index is written last.
    """
    sidecar = next(folder.glob(f"**/{FOLDER}/*.safetensors"), None)
    if sidecar is None:
        try_remove_tree(folder)
        return
    index, name = load_index(sidecar), folder.name.replace("%2F", "/")
    sidecars = sidecar.parent.relative_to(folder).as_posix()
    shard = Shard(
        root,
        "" if name == "dataset" else name,
        tuple(stamp.name for stamp in index.files),
        sidecars,
    )
    FinishedShard(
        OpenShard.of(index.container, shard, index, stored=True), Staging(root, name)
    ).publish()


def _order_to_publish(shard: Shard) -> list[str]:
    """Return the files of a complete shard in the order in which they get their final names.

    A shard with the name of one of its files is found by it, so a new one gets that file last: a
    recordio would be read without its keys if it had its `.rec` before its `.idx`. Where samples
    were appended, that file comes first: the old table of keys fits a longer file.
    """
    names = list(shard.files)
    if shard.name in names[:-1] and not below(shard.root, shard.name, any_text=True).exists():
        names.sort(key=lambda name: name == shard.name)
    return names


def lock_for_writing(path: AnyPath, options: WriterOptions) -> Lock:
    """Lock the target of a writer, and complete or undo an interrupted overwrite of it.

    Raises:
        InUseError: Another writer is open for it.
        StateError: The mode is `resume`, and the interrupted overwrite was not complete.
        FileExistsError: The target is one of several bags.
        ValueError: The container is unknown.
    """
    if options.mode != "create":
        check_not_one_of_bags(path)
    if options.container is None:
        container = container_by_suffix(path.name)
    else:
        container = get_writable(options.container)
    single = container is not None and Target.of(path, container).single

    def undo() -> None:
        if options.mode == "resume":
            raise StateError(
                f"an overwrite of {path} was interrupted, "
                "and cannot be resumed: use mode='overwrite'"
            )

    while True:
        lock = lock_target(path, single=single, sync=options.sync)
        try:
            if not (isinstance(path, Path) and recover_target(path, undo)):
                return lock
        except BaseException:
            lock.release()
            raise
        lock.release()  # of the folder that was replaced


def recover_target(path: Path, undo: Callable[[], object] = lambda: None) -> bool:
    """Complete or undo an interrupted overwrite of a target, whose lock the caller has.

    Returns:
        Whether there was one.

    Raises:
        FormatError: The list of its moves is damaged or forged.
    """
    recover_files(path)
    folder = overwrite_folder(path)
    return recover(folder.parents[2], folder, undo=undo)


class Overwrite:
    """A dataset that is written to a staging folder, to replace another one.

    Args:
        old: The target with the other one, which need not exist.
        lock: The lock of the target, which the caller has.
        sync: Whether to wait until the new one is on disk.
        forget: Whether to drop the lists of removed samples.

    Raises:
        FileExistsError: The target contains other files than a dataset, or is a link to a file
            where the new dataset is a folder, or the reverse.
    """

    def __init__(self, old: Target, lock: Lock, *, sync: bool, forget: bool) -> None:
        target = cast("Path", old.path)
        real, folder = Path(os.path.realpath(target)), overwrite_folder(target)
        if target.is_symlink():  # a link is followed, and must not become one to another kind
            old.check_kind()
        self._old = _check_replaceable(real, target)
        self._publication = Publication(real.parent, folder, sync=sync)
        self.staged = folder / real.name
        self._lock, self._real, self._forget, self._single = lock, real, forget, old.single
        # the lists of removed samples that `publish` takes along
        self.lists = lists_in(real)
        if old.single:
            self.lists = [below(real.parent, own_list(real.name), any_text=True)]

    def publish(self, lists: Mapping[str, RemovalList]) -> None:
        """Swap the new dataset, which must be complete, with the old one, and remove the old one.

        Args:
            lists: The lists of removed samples that changed, by their paths.

        Raises:
            OSError: The swap failed. The old dataset is still there.
        """
        name, beside = self.staged.name, list[str]()
        own = own_list(name)
        left = [
            f"{FOLDER}/staging/{name}",
            f"{FOLDER}/{name}.pack.json",
            f"{FOLDER}/{name}.manifest.json",
        ]
        if self._single:
            beside += _files_beside(self._publication.folder)
            for changed in lists.values():
                write_whole(self._publication.path_of(own), encode_removal_list(changed))
                beside.append(own)
            if self._forget:
                left.append(own)
        else:  # who finds the new folder must find its lock, too
            self._lock.follow(lock_of(self.staged), lock_of(self._real))
            keep_beside(self._real, self.staged, lists, forget=self._forget)
        # an old `.idx` must not be read with the new `.rec`
        clear = [old for old in self._old if old in beside and not old.startswith(f"{FOLDER}/")]
        self._publication.commit([name, *beside], clear=clear, drop=[*self._old, *left])

    @property
    def final_root(self) -> Path:
        """The folder that contains the files of the dataset in the end."""
        return self._real.parent if self._single else self._real

    def discard(self) -> None:
        """Remove the staging folder, unless `publish` was called. The old dataset stays."""
        self._publication.discard()


def _check_replaceable(real: Path, target: Path) -> list[str]:
    """Return the names of the files beside the old dataset that belong to it, relative to its parent folder.

    Raises:
        FileExistsError: The target is not a dataset, or contains other files, which would be lost.
    """
    if not real.exists():
        return []
    if os.path.ismount(real):
        raise FileExistsError(
            f"{target} is a mount point, which cannot be replaced: write to a folder in it"
        )
    if real.is_dir():
        if (other := next(_other_files(real), None)) is not None:
            raise FileExistsError(
                f"{target} contains {other}, which is not part of a dataset, and mode='overwrite' "
                "replaces the whole folder: move that file away, or write to another path"
            )
        return []
    shards = [
        shard for container in writable_containers() for shard in container.shards(real) or ()
    ]
    if not shards:
        raise FileExistsError(
            f"{target} is a file, but not a dataset: delete it, or write to another path"
        )
    files = [name for shard in shards for name in shard.files if name != real.name]
    return [*files, *(shard.sidecar_name for shard in shards)]


def _other_files(folder: Path) -> Iterator[str]:
    """Yield the files in a folder that are not part of a dataset in it, or of the parts of one."""
    of_dataset: set[str] = set()
    for place in (
        folder,
        *(entry for entry in folder.iterdir() if is_part(entry.name) and entry.is_dir()),
    ):
        above = "" if place == folder else f"{place.name}/"
        of_dataset.add(f"{above}label2idx.json")
        for container in writable_containers():
            try:
                of_dataset.update(
                    above + name for shard in container.shards(place) or () for name in shard.files
                )
            except FormatError:  # a damaged dataset may have files that cannot be listed
                return
    for path in folder.rglob("*"):
        name = path.relative_to(folder)
        if not (FOLDER in name.parts or path.is_dir() or name.as_posix() in of_dataset):
            yield name.as_posix()


def _files_beside(folder: Path) -> Iterator[str]:
    """Yield the files beside the staged file that belong to it, relative to the staging folder."""
    for base, folders, files in os.walk(folder):
        if Path(base) == folder / FOLDER:
            folders.clear()
        for name in files:
            relative = os.path.relpath(os.path.join(base, name), folder)
            if relative not in (COMMIT_LIST, "errors.jsonl", folder.name):
                yield relative

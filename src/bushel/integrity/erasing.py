"""Erase removed samples: the shards that hold them are written again without them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.open.caller_fields import POLICIES
from bushel._dataset.open.completeness import listed_names, manifest_path, overwrite_folder
from bushel._dataset.open.discovery import find
from bushel._dataset.open.locking import lock_of, locked_sources
from bushel._dataset.open.removal_lists import PlacedList, lists_beside
from bushel._dataset.open.shards import open_shards
from bushel._dataset.open.sources import expand_paths
from bushel._dataset.open.tables import index_place, indexed_in
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.remaining import digests_of, removed_in
from bushel._dataset.read.shards import OpenShard
from bushel._index.contents import Contents
from bushel._index.identity import manifest_entry
from bushel._index.removal_list import EMPTY, stored_sizes
from bushel._index.saving import save_index, save_manifest
from bushel._index.shard import FOLDER, Shard
from bushel._index.sidecar import Manifest, find_manifest
from bushel._runtime.arrays import I64, batches_of, offsets_of
from bushel._runtime.public import command, public
from bushel._writer.shard_writer import ShardInProgress, ShardPlan
from bushel._writer.target import check_not_one_of_bags, check_same_fields
from bushel.containers import ReadOptions, WriteOptions, get_container, get_writable
from bushel.containers.registry import read_only_ending
from bushel.errors import FormatError, UnsupportedError, naming
from bushel.spec import KEY, format_spec
from bushel.storage import (
    AnyLocation,
    AnyPath,
    AnySource,
    Lock,
    Publication,
    inside,
    recover,
    remove,
    sync_nearest,
)

_BATCH = 16 << 20  # stored bytes of samples that are read together
# in the `.bushel` of a folder that is replaced
_NOT_COPIED = ("writers", "staging", "overwrite", "keys.safetensors")


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class Erasure:
    """The result of `bushel.erase`.

    Attributes:
        samples: Number of samples that the files do not hold any more.
        shards: Number of shards that were written again.
        bytes: Number of bytes by which their files became smaller.
        left: Names of files that still hold the bytes: hard links to the old files.

    Examples:
        >>> removed = bushel.remove("train/", keys=["dog/2"], reason="opt-out")
        >>> done = bushel.erase("train/")
        >>> done.samples, done.shards, done.left
        (1, 1, ())
    """

    samples: int
    shards: int
    bytes: int
    left: tuple[str, ...] = ()


@public()
def erase(source: AnySource, *, call: str | None = None, index: AnyLocation = "auto") -> Erasure:
    """Write the shards that hold removed samples again without them. This cannot be undone.

    Each new shard takes the place of the old one in one step; readers that have that open continue
    with it. All other samples keep their bytes, keys and order (docs/removal.md). If the process is
    killed, call it again.

    Args:
        source: Anything that `bushel.open` takes, in local folders.
        call: The id of the call that removed the samples, as `removals` gives it; None for all of
            them.
        index: As for `remove`.

    Raises:
        KeyError: The call does not exist.
        UnsupportedError: The samples are in an object store, or in a container that is only read.
            The error names the command that writes the dataset without them.
        FormatError: A sample that stays is damaged.
        InUseError: A writer is open for the dataset.
        OSError: A file cannot be written, or the disk has too little space for a new shard, which
            is written beside the old one.

    Examples:
        >>> done = bushel.remove("train/", keys=["cat/0"], reason="opt-out")
        >>> bushel.erase("train/", call=done.call).samples
        1
        >>> bushel.verify("train/").samples
        11
    """
    paths = expand_paths(source)
    places = [] if index in POLICIES else [index_place(index)]
    with locked_sources([*paths, *places]):
        complete_rewrites(find(paths).shards)
        opened = _opened(paths, places)
        gone = removed_in(opened, _chosen(lists_beside([one.shard for one in opened]), call))
        starts = offsets_of(one.samples for one in opened)
        numbers = np.searchsorted(starts, gone, side="right") - 1
        rewrites, manifests = [], list(_manifests(opened))
        for number in np.unique(numbers).tolist():
            _check(opened[number], str(paths[0]))
            rows = np.arange(opened[number].samples)
            stay = np.delete(rows, gone[numbers == number] - starts[number])
            target = target_of(opened[number].shard)
            rewrites.append(ShardRewrite(opened[number], stay, manifests, target))
        files = [path for rewrite in rewrites for path in rewrite.opened.shard.paths]
        left = [str(path) for path in files if path.stat().st_nlink > 1]
        before = sum(rewrite.size for rewrite in rewrites)
        for rewrite in rewrites:
            rewrite.run()
        for path, shards in _manifests(_opened(paths, places)):
            manifest = find_manifest(path)
            if manifest is not None and (now := _with_tables(manifest, shards)) != manifest:
                save_manifest(now, path)
        after = sum(path.stat().st_size for path in files)
    return Erasure(len(gone), len(rewrites), before - after, tuple(left))


def _opened(paths: Sequence[AnyPath], places: Sequence[AnyPath]) -> list[OpenShard]:
    """Return the shards at paths, with their index in another place if there is one."""
    found = find(paths)
    shards = found.shards
    for place in places:
        shards = indexed_in(shards, place)
    return open_shards(found.container, shards, ReadOptions(checksums=True))


def _chosen(lists: Sequence[PlacedList], call: str | None) -> Sequence[PlacedList]:
    """Return lists with only this call; None for all calls. Raise KeyError if no list has it."""
    if call is None:
        return lists
    found = [
        PlacedList(placed.path, EMPTY.with_call(one, placed.removed.names_of(call)), placed.file)
        for placed in lists
        for one in placed.removed.calls
        if one.id == call
    ]
    if not found:
        raise KeyError(
            f"no call {call!r} is in force: `bushel remove --list` prints those that are"
        )
    return found


def _check(opened: OpenShard, source: str) -> None:
    """Raise UnsupportedError if a shard cannot be written again."""
    container = get_container(opened.container)
    if not opened.shard.name:
        check_not_one_of_bags(opened.shard.root)
    instead = (
        f"{command('convert', source, 'NEW.tar')} writes the dataset "
        "without the removed samples; delete the old one then"
    )
    if not isinstance(opened.shard.root, Path):
        raise UnsupportedError(f"samples in an object store cannot be erased: {instead}")
    if not container.is_written or read_only_ending(opened.shard.name, container) is not None:
        kind = opened.shard.name or opened.container
        raise UnsupportedError(
            f"Bushel only reads {kind}, so it cannot erase samples there: {instead}"
        )


def _manifests(opened: Sequence[OpenShard]) -> Iterator[tuple[AnyPath, dict[str, OpenShard]]]:
    """Yield the manifests that may list shards, of the dataset and of the parts of a run, with the shards by name."""
    roots = dict[str, list[OpenShard]]()
    for one in opened:
        roots.setdefault(str(one.shard.root), []).append(one)
    groups = [opened]
    if len(roots) > 1:
        groups += roots.values()
    for group in groups:
        shards = [one.shard for one in group]
        if (path := manifest_path(shards)) is not None:
            yield path, dict(zip(listed_names(shards), group, strict=True))


def _with_tables(manifest: Manifest, tables: Mapping[str, OpenShard]) -> Manifest:
    """Return a manifest with the facts of these shards as they are now."""
    entries = [
        manifest_entry(entry.name, tables[entry.name].index) if entry.name in tables else entry
        for entry in manifest.shards
    ]
    return replace(manifest, shards=entries)


class ShardRewrite(Struct, frozen=True):
    """Writes a shard of a local dataset again. The caller has the lock of the dataset."""

    opened: OpenShard
    stay: I64  # int64[n], the rows of the samples that it keeps, ascending
    # the manifests that may list it, with the shards by their names there
    manifests: Sequence[tuple[AnyPath, Mapping[str, OpenShard]]]
    target: Path  # the path that is replaced

    @property
    def size(self) -> int:
        """The bytes of its files, which the new shard does not exceed."""
        return sum(stamp.size for stamp in self.opened.stamps[: len(self.opened.shard.files)])

    def run(self) -> None:
        """Write the new shard, compare it with the old one, and swap both.

        Raises:
            FormatError: A sample that stays is damaged, or would be stored in another way.
            UnsupportedError: The container cannot write the samples that stay.
            OSError: A file cannot be read or written.
        """
        target, shard = self.target, self.opened.shard
        publication = Publication(target.parent, overwrite_folder(target))
        with ExitStack() as stack:
            stack.callback(publication.discard)
            replaces_folder = target.is_dir()
            root = publication.folder
            if replaces_folder and not shard.own_folder:
                root = root / target.name
                root.mkdir()
            written = self._write(replace(shard, root=root, index=None))
            self._compare(written)
            if replaces_folder:
                staged = publication.folder / target.name
                _copy_others(target, staged, self._own_files())
                if not shard.own_folder:  # who finds the new folder must find a lock, too
                    stack.enter_context(Lock([], target)).follow(lock_of(staged), lock_of(target))
                publication.commit([target.name, *self._stage_manifests(publication, written)])
            else:
                beside = [name for name in written.shard.files if name != target.name]
                manifests = self._stage_manifests(publication, written)
                moves = [target.name, *beside, written.shard.sidecar_name, *manifests]
                # the old `.idx` or `.gmeta` must not be read with the new data
                publication.commit(moves, clear=beside)
        if shard.index is not None:  # whose folder has the table
            save_index(written.index, shard.sidecar)
            remove(replace(shard, index=None).sidecar)

    def _stage_manifests(self, publication: Publication, written: OpenShard) -> list[str]:
        """Stage the manifests that list the shard, and return the names of those that are not in its folder."""
        names = []
        for path, shards in self.manifests:
            real = Path(os.path.realpath(str(path)))
            # one that is above the parts of a run is written afterwards
            manifest = find_manifest(real) if real.is_relative_to(publication.root) else None
            if manifest is None:
                continue
            relative = real.relative_to(publication.root).as_posix()
            staged = publication.path_of(relative)
            tables = {name: written for name, shard in shards.items() if shard is self.opened}
            save_manifest(_with_tables(manifest, tables), staged)
            if not relative.startswith(f"{self.target.name}/"):
                names.append(relative)
        return names

    def _own_files(self) -> set[str]:
        """Return the paths of the files of the old shard, relative to its folder."""
        shard = self.opened.shard
        names = [*shard.files, shard.sidecar_name]
        return {name.removeprefix(f"{shard.own_folder}/") for name in names}

    def _write(self, shard: Shard) -> OpenShard:
        opened, container = self.opened, get_writable(self.opened.container)
        fields = {field.name: field for field in opened.fields}
        generation = container.generation(opened.shard)
        folders = None
        if container.keeps_folders and opened.keyed and len(fields) == 1:
            folders = tuple(container.empty_folders(opened.shard))
        single = not shard.name or shard.name == self.target.name
        keyed = opened.keyed or container.needs_keys
        options = WriteOptions(keyed, generation, single, len(self.stay), folders, opened.labels)
        layout = container.layout(fields, options)
        check_same_fields(self.target, [opened], format_spec(fields), layout)
        plan = ShardPlan(shard, container, layout, Contents.of(opened.index))
        progress = ShardInProgress.create(plan, sync=True)
        try:
            for key, sample in self._samples():
                progress.append(key, sample)
            return progress.finish().publish()
        except BaseException:
            progress.discard()
            raise

    def _samples(self) -> Iterator[tuple[str | None, dict[str, bytes | list[bytes]]]]:
        """Yield the samples that stay: the key and the stored values."""
        sizes = stored_sizes(self.opened.index)[self.stay]
        with closing(Reader([self.opened], verify=True)) as reader:
            for batch in batches_of(sizes, _BATCH):
                rows = self.stay[batch]
                keys = reader.keys(rows) if self.opened.keyed else [None] * len(rows)
                values = reader.read(rows, dict.fromkeys(self.opened.index.fields), decode=False)
                for key, sample in zip(keys, values, strict=True):
                    del sample[KEY]
                    yield key, sample

    def _compare(self, written: OpenShard) -> None:
        """Raise FormatError unless the new shard has the samples that stay, byte for byte."""
        every = np.arange(written.samples)
        digests = digests_of(written, every), digests_of(self.opened, self.stay)
        same = np.array_equal(*digests)
        if same and written.index.keys is not None and self.opened.index.keys is not None:
            same = written.index.keys.take(every) == self.opened.index.keys.take(self.stay)
        if not same:
            raise FormatError(
                "written again, its samples would be stored in another way",
                self.opened.path(0),
                hint="`bushel convert` writes the dataset without the removed samples",
            )


def target_of(shard: Shard) -> Path:
    """Return the path that is replaced with a shard: its folder, or its first file.

    Raises:
        UnsupportedError: It is in an object store, or is a symbolic link.
    """
    root = shard.root
    if not isinstance(root, Path):
        raise UnsupportedError(f"{shard.path(0)} is not a local file, which could be replaced")
    root = Path(os.path.realpath(root))
    if shard.own_folder is not None:
        return inside(root, shard.own_folder)
    if not shard.name:
        return root
    for path in shard.paths:
        if os.path.islink(str(path)):
            raise UnsupportedError(
                f"{path} is a symbolic link: erase the samples where the file is"
            )
    return inside(root, shard.files[0])


def complete_rewrites(shards: list[Shard]) -> None:
    """Complete or undo what a killed process was putting in the place of these shards."""
    targets = [target_of(shard) for shard in shards if isinstance(shard.root, Path)]
    staged = [overwrite_folder(target) for target in targets]
    for target, folder in zip(targets, staged, strict=True):
        recover(target.parent, folder)
    # it may have removed what it staged, which holds erased samples: no power cut may bring that back
    for above in {folder.parent for folder in staged}:
        sync_nearest(above)


def _copy_others(old: Path, new: Path, own: set[str]) -> None:
    """Copy the files of a folder that do not belong to its shard: lists, views, and files of others."""
    for path in old.rglob("*"):
        name = path.relative_to(old)
        stays_behind = FOLDER in name.parts and set(_NOT_COPIED) & set(name.parts)
        if not path.is_file() or stays_behind or name.as_posix() in own:
            continue
        copy = inside(new, name.as_posix())
        copy.parent.mkdir(parents=True, exist_ok=True)
        with naming(copy):
            shutil.copy2(path, copy)
            with open(copy, "rb") as file:
                os.fsync(file.fileno())

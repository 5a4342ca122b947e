"""The finished shards of a dataset that is being written, and the files that record its writer's progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from bushel._dataset.open.completeness import manifest_of, manifest_path, marker_path
from bushel._dataset.read.listed import write_manifest
from bushel._dataset.read.shards import OpenShard
from bushel._index.headers import PartOfRun
from bushel._index.removal_list import RemovalList
from bushel._index.saving import save_manifest
from bushel._index.shard import FOLDER, may_lack_samples
from bushel._index.sidecar import Manifest, find_manifest
from bushel._runtime.threads import Result, Threads
from bushel.errors import UnsupportedError, noted_in
from bushel.storage import (
    AnyPath,
    Lock,
    below,
    is_object,
    leave_workplace,
    make_folder,
    remove,
    remove_empty,
    sync_folder,
    sync_nearest,
    workplace,
    write_whole,
)

from .dataset_plan import DatasetPlan
from .publishing import FinishedShard, Overwrite, continued_shards
from .sample_values import UsualFields
from .shard_writer import ShardInProgress
from .target import Target, WriterOptions, check_alone, folder_in_store


class Marker:
    """Writes and removes the manifest of an incomplete dataset. `name` is the name of the dataset's one file, or empty.

    Attributes:
        written: Whether the manifest exists.
        expected: Number of samples of the complete dataset, if known.
        before: Number of samples before those that are being appended, unset if none are.
        part: The note that the dataset is a part of a run, which it stays when samples are
            appended.
    """

    def __init__(self, root: AnyPath, name: str, *, sync: bool) -> None:
        self._root, self._name, self._sync = root, name, sync
        self._path = marker_path(root, name)
        self.written = False
        self.expected: int | None = None
        self.before: int | UnsetType = UNSET
        self.part: PartOfRun | UnsetType = UNSET

    def load(self) -> bool:
        """Look for the manifest that an earlier writer has left. Return whether it exists."""
        state = find_manifest(self._path)
        if state is None:
            return False
        self.part = state.part
        if not state.complete:
            self.written, self.expected, self.before = True, state.expected, state.before
            # its writer may have been killed before it did that
            if self._sync and isinstance(self._path, Path):
                sync_folder(self._path.parent)
        return self.written

    def begin(self, container: str) -> None:
        """Write the manifest, without shards, unless it exists: before a shard is published that is not the last."""
        if not self.written:
            self.written = True
            manifest = Manifest(
                container, {}, {}, [], complete=False, expected=self.expected, before=self.before
            )
            save_manifest(manifest, self._path, sync=self._sync)

    def complete(self, shards: Sequence[OpenShard], folder: AnyPath) -> list[str]:
        """Write the manifests of the complete dataset into its folder, or beside the staged files of its last shard.

        A dataset of one file has none, but as a part of a run, whose manifest is always here.

        Returns:
            Their paths, relative to that folder.
        """
        paths = set[str]()
        if not self._name:
            paths.add(str(manifest_path([opened.shard for opened in shards])))
        if self.part is not UNSET:
            paths.add(str(self._path))
        names = [path.removeprefix(f"{self._root}/") for path in sorted(paths)]
        for name in names:
            path = below(folder, name, any_text=True)
            write_manifest(shards, path, part=self.part, sync=self._sync)
        return names

    def finish(self, manifests: Sequence[str]) -> None:
        """Remove the manifest of the incomplete dataset, unless it became one of these, and empty folders."""
        name = str(self._path).removeprefix(f"{self._root}/")
        # also by a run that has left nothing else
        if name not in manifests and (self.written or isinstance(self._path, Path)):
            remove(self._path)
        if isinstance(self._root, Path):
            sidecars = self._root / FOLDER
            remove_empty(sidecars / "staging", sidecars)
            if self._sync:  # or else a power cut could bring back this manifest, or staged files
                sync_nearest(sidecars)


class Uploads:
    """Uploads finished shards, each in a thread of its own, while the next shard is written.

    The caller holds the lock of the writer.
    """

    def __init__(self) -> None:
        self._going: tuple[FinishedShard, Result[OpenShard], Threads] | None = None

    @property
    def failed(self) -> bool:
        """Whether the current upload has failed. `settle` raises its error."""
        return self._going is not None and self._going[1].error is not None

    def begin(self, shard: FinishedShard) -> None:
        """Start an upload. The previous one must be settled."""
        result, thread = Result[OpenShard](), Threads(1, "bushel-upload")
        thread.submit(partial(result.set_by, shard.publish))
        self._going = shard, result, thread

    def settle(self) -> OpenShard | None:
        """Wait for the current upload. Ctrl-C aborts it.

        Returns:
            The uploaded shard, or None if nothing is uploaded.

        Raises:
            OSError: The upload failed. The shard is still staged.
        """
        if self._going is None:
            return None
        _, result, thread = self._going
        try:
            uploaded = result.get()
        except BaseException:
            self.stop()
            raise
        self._going = None
        thread.close()
        return uploaded

    def stop(self) -> None:
        """Abort the current upload. The shard stays staged unless it was uploaded completely."""
        if self._going is not None:
            (shard, _, thread), self._going = self._going, None
            shard.staging.stop.set()
            thread.close()  # which waits for it


class WrittenShards:
    """The finished shards of a dataset, also of earlier writers. The caller holds the lock of the writer.

    `before_publish` is called with the number of samples in the dataset when a shard is complete
    and about to get its final name, or, with `overwrite`, when the dataset is. `part` returns the
    note in the manifest of a part of a run, when all samples are written.

    Attributes:
        target: Where they are published: with `overwrite`, a staging folder.
        shards: The shards. The last one may still be uploaded.
        current: The unfinished shard that follows them, if there is one.
        replaced: The replacement of a local dataset; None without one.
        uploads: The upload of the last shard.
        sync: Whether to wait for the disk.
        samples: Number of samples in the shards.
        was_unfinished: Whether `resume` found an incomplete dataset.
    """

    def __init__(
        self,
        target: Target,
        options: WriterOptions,
        plan: DatasetPlan,
        lock: Lock,
        before_publish: Callable[[int], None] | None,
        part: Callable[[], PartOfRun] | None,
    ) -> None:
        self._options, self._lock, self.sync = options, lock, options.sync
        self._plan = plan
        self.current: ShardInProgress | None = None
        self._before_publish, self._part = before_publish, part
        self.replaced: Overwrite | None = None
        self._final_path = target.path
        if isinstance(target.path, Path) and options.mode == "overwrite":
            self.replaced = Overwrite(target, lock, sync=self.sync, forget=options.forget_removed)
            target = replace(target, path=self.replaced.staged)
        self.target, self._root = target, target.root
        self._marker = Marker(self._root, target.file or "", sync=self.sync)
        self.shards: list[OpenShard] = []
        self.samples = 0
        self.was_unfinished = False
        self.uploads = Uploads()
        # of the complete dataset: manifests, and the file of class names
        self._lists: list[str] = []

    @property
    def _final_root(self) -> AnyPath:
        """The folder that contains the files of the dataset in the end."""
        if self.replaced is not None:
            return self.replaced.final_root
        return self._root

    @property
    def grows_in_place(self) -> bool:
        """Whether the dataset is one file or one plain folder, to which no shard can be added."""
        return bool(self.shards) and (self.target.single or not self.shards[0].shard.name)

    def open(self, shards: list[OpenShard] | None = None) -> None:
        """Find the existing shards, after the lock was taken, unless the caller has them from `continued_shards`.

        This object then owns the list: tables of files that are replaced must not stay in memory.
        The plan has the fields, layout and keys of the shards.

        Raises:
            FileExistsError, FileNotFoundError: The mode does not allow the files that exist, or
                needs some.
            UnsupportedError: The storage does not allow the mode.
            FormatError: Shards are not those that the manifest lists.
            ValueError, StateError, SpecError: As of `DatasetPlan.adopt`.
        """
        target, mode = self.target, self._options.mode
        if self.replaced is not None:
            mode = "create"
        if workplace(self._root) is None and (mode != "create" or is_object(self._root)):
            raise UnsupportedError(
                f"mode={mode!r} needs a local path or an object store: {self._root} is neither"
            )
        if mode == "overwrite" and not target.single:
            raise folder_in_store(target.path)
        if shards is None:
            shards = continued_shards(target, mode)
        self.shards = shards
        self.samples = sum(shard.samples for shard in self.shards)
        target.check_as_listed(mode, self.shards)
        exists = bool(self.shards)
        self.was_unfinished = exists and self._marker.load()
        target.check_mode(mode, exists=exists, incomplete=self.was_unfinished)
        if exists and not self.was_unfinished:
            self._marker.before = self.samples
        total = self._options.expected
        if total is not None and self._marker.expected is None:
            self._marker.expected = total + self.samples * (mode == "append")
        usual = None
        if self._marker.before is not UNSET:
            usual = UsualFields(target.path, self.shards, self._marker.before)
        if not (exists or target.single or mode == "overwrite"):
            check_alone(target.path)
        if isinstance(self._root, Path):
            make_folder(self._root, sync=self.sync)
            if self.sync and not exists:  # a process that made it may have been killed before that
                with suppress(PermissionError):
                    sync_folder(self._root.parent)
        self._plan.adopt(target.path, self.shards, usual)

    def start_shard(self, samples: int) -> ShardInProgress:
        """Start a shard, or continue the last one if the dataset cannot have another one."""
        plan, target = self._plan, self.target
        layout = plan.next_layout(self.shards, samples, self._marker.expected)
        if self.grows_in_place:
            last = self.shards[-1]
            shard = ShardInProgress.reopen(last, plan.of_shard(last.shard, layout), sync=self.sync)
        else:
            shards = [written.shard for written in self.shards]
            files = target.container.shard(self._root, layout, shards, target.file)
            replace_objects = self._options.mode == "overwrite" and self.replaced is None
            shard = ShardInProgress.create(
                plan.of_shard(files, layout), sync=self.sync, replace=replace_objects
            )
        plan.folders = plan.folders and ()  # only one shard gets them
        self.current = shard
        return shard

    def finish_shard(self, *, last: bool = False) -> None:
        """Finish and publish the unfinished shard, if there is one. With `last`, no other one follows."""
        shard, self.current = self.current, None
        if shard is None:
            return
        try:
            divided = None
            if not last:
                divided = self._plan.divided(shard.plan.shard)
            self._publish(shard.finish(divided), last=last)
        except BaseException as error:
            with noted_in(error):
                shard.discard()
            raise

    def discard_shard(self) -> None:
        """Remove the staged files of the unfinished shard."""
        shard, self.current = self.current, None
        if shard is not None:
            shard.discard()

    def _publish(self, finished: FinishedShard, *, last: bool) -> None:
        """Give a shard its final name, or begin to upload it.

        If it is the `last` one and local, it takes the manifest of the complete dataset along.
        """
        self.settle()
        self._lock.check()
        if self.grows_in_place:
            self.samples -= self.shards.pop().samples
        self.samples += finished.staged.samples
        if self._before_publish is not None and self.replaced is None:
            self._before_publish(self.samples)
        if not last and self.replaced is None:
            self._marker.begin(self.target.container.name)
        if not isinstance(self._root, Path):
            self.shards.append(finished.staged)
            self.uploads.begin(finished)
            return
        if last:
            shards = [*self.shards, finished.staged]
            self._lists = self._write_lists(shards, finished.staging.place)
        self.shards.append(finished.publish(self._lists))

    def _write_lists(self, shards: Sequence[OpenShard], folder: AnyPath) -> list[str]:
        """Write the manifests and the file of class names into the dataset's folder, or beside staged files.

        Returns:
            Their paths, relative to that folder.
        """
        if self._part is not None:
            self._marker.part = self._part()
        names: list[str] = []
        container, single = self.target.container, self.target.single
        if container.names_file is not None and not single:
            file_of_names = container.file_of_names(self._plan.labels)
            if file_of_names is not None:
                write_whole(folder / container.names_file, file_of_names)
                names.append(container.names_file)
        if single and isinstance(self._root, Path):
            # the manifest that `bushel index` has written of this file and others in its folder
            final = [replace(opened.shard, root=self._final_root) for opened in shards]
            listing = manifest_of(container.name, final)
            if listing is not None:
                path = marker_path(folder, "")
                write_manifest(shards, path, others=listing, sync=self.sync)
                names.append(str(path).removeprefix(f"{folder}/"))
        return [*names, *self._marker.complete(shards, folder)]

    def settle(self) -> None:
        """Wait for the upload of the last finished shard."""
        if (uploaded := self.uploads.settle()) is not None:
            self.shards[-1] = uploaded

    def complete(self) -> None:
        """Mark the dataset as complete, and put it in the place of the one that it replaces."""
        self.settle()
        leave_workplace(self._root)
        if not self._lists:
            self._lists = self._write_lists(self.shards, self._root)
        self._marker.finish(self._lists)
        lists = self._keep_removed()
        if self.replaced is not None:
            if self._before_publish is not None:
                self._before_publish(self.samples)
            self._lock.check()
            self.replaced.publish(lists)

    def _keep_removed(self) -> dict[str, RemovalList]:
        """Log which new samples are not read, as they were removed before. Return the lists that name more of them."""
        root = self._final_root
        if self._options.forget_removed or not isinstance(root, Path):
            return {}
        final = [replace(opened.shard, root=root) for opened in self.shards]
        replaced = self.replaced.lists if self.replaced else ()
        if not (may_lack_samples(final) or replaced):
            return {}
        from .removed_again import keep_removed

        before = self._marker.before or 0
        return keep_removed(self._final_path, final, self.shards, before, replaced)

    def leave(self) -> None:
        """Wait for the upload, and remove the folders that are empty."""
        self.settle()
        leave_workplace(self._root)
        if isinstance(self._root, Path):
            remove_empty(self._root / FOLDER)

"""Write a dataset shard by shard: when shards start, finish and are uploaded, and how a writer continues a dataset."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bushel._dataset.shards import OpenShard
from bushel._index.class_names import Labels
from bushel._index.column_scan import ColumnRequest
from bushel._index.contents import Contents
from bushel._writer.class_names import names_to_write, write_file_of_names
from bushel._writer.keys import KeyCheck, checked_key
from bushel._writer.marker import Marker
from bushel._writer.options import Mode, WriterOptions
from bushel._writer.overwrite import Overwrite, claim_for_writing
from bushel._writer.pending import ADDED
from bushel._writer.publishing import Uploads
from bushel._writer.sample_values import SampleEncoder
from bushel._writer.shard_plan import ShardPlan
from bushel._writer.shard_writer import ShardInProgress
from bushel._writer.target import Target, check_same_fields, choose_container
from bushel.codecs import get_codec
from bushel.containers.base import HasGenerations, KeepsFolders, Layout, Shard, WriteOptions
from bushel.errors import SpecError, UnsupportedError, is_out_of_room, noted_in
from bushel.spec import KEY, format_spec, parse_spec
from bushel.storage import as_path, is_object, leave_workplace, make_folder, sync_folder, workplace
from bushel.storage.claims import Claim
from bushel.storage.workplaces import remove_staged

__all__ = ["CHECKPOINT_SECONDS", "DatasetWriter"]

CHECKPOINT_SECONDS = 1.0
_DEFAULTS = WriterOptions()
_FREE_SPACE = "free some disk space, and continue with mode='resume': complete shards are kept"
_FREE_SPACE_OVERWRITE = "free some disk space, and run it again: the old dataset is unchanged"


class DatasetWriter:
    """The implementation of `bushel.Writer`, with the parameters that only packing needs.

    Args:
        path: See `bushel.Writer`.
        spec: Field to type.
        options: How the dataset is written.
        before_publish: Called when a shard is complete and about to get its final name, or, with `overwrite`, when the
            dataset is, so that files beside the dataset are never older than it.
        before_checkpoint: Called before samples are recorded for `resume`, to put on disk what else that needs.
        claim: The claim of the target, if the caller has it and releases it; by default the writer claims it.
    """

    def __init__(
        self,
        path: object,
        spec: Mapping[str, str] | None = None,
        options: WriterOptions = _DEFAULTS,
        *,
        before_publish: Callable[[], None] | None = None,
        before_checkpoint: Callable[[], None] | None = None,
        claim: Claim | None = None,
    ) -> None:
        if spec is None and options.mode in ("create", "overwrite"):
            raise ValueError("a new dataset needs a spec, such as {'image': 'jpg', 'label': 'int'}")
        self._fields = parse_spec(spec or {})
        for field in self._fields.values():
            get_codec(field.codec)
        self._adopts_spec = spec is None
        self._options = options
        self._limits = options.limits()
        self._first_number = options.first_number
        self._before_publish = before_publish
        self._before_checkpoint = before_checkpoint
        self._path = as_path(path)
        self._claim = claim or claim_for_writing(self._path, options)
        self._own_claim = self._claim if claim is None else None
        try:
            self._set_up(options)
        except BaseException:
            self._let_go()
            raise

    def _set_up(self, options: WriterOptions) -> None:
        """Look at what is there, now that no one else changes it."""
        self._container = choose_container(self._path, options.container)
        self._target = Target.of(self._path, self._container)
        if self._target.single and options.sharded:
            raise ValueError(f"{self._path} is the name of one file: give a folder to write several shards")
        self._generation = options.generation
        self._appended = self._continued = False
        self._folders = options.folders
        if self._folders is not None and not isinstance(self._container, KeepsFolders):
            raise SpecError(f"{self._container.name} cannot store empty folders: use ffrecord")
        self._sync = options.sync
        self._labels: Labels = {}
        columns = ColumnRequest.given(options.columns, self._fields)
        self._contents = Contents(frozenset({"seek"} if options.seek else ()), columns)
        self._uploads = Uploads()
        self._lock = threading.Lock()
        self._layout: Layout | None = None
        self._encode: SampleEncoder
        self._current: ShardInProgress | None = None
        self._shards: list[OpenShard] = []
        self._keys: KeyCheck | None = None
        self._known: set[str] | None = None
        self._closed = self._stopped = False
        self._checkpointed = time.monotonic()
        self._samples = 0
        self._overwrite: Overwrite | None = None
        if isinstance(self._path, Path) and options.mode == "overwrite":
            self._overwrite = Overwrite(self._path, sync=self._sync)
            self._target = replace(self._target, path=self._overwrite.staged)
        self._root = self._target.root
        self._marker = Marker(self._root, self._target.file or "", sync=self._sync)
        try:
            self._open("create" if self._overwrite is not None else options.mode)
            self._settle_labels()
        except BaseException as error:
            with noted_in(error):
                self.suspend()
            raise

    # Use

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            if not isinstance(error, Exception):  # Ctrl-C does not wait for an upload
                self._uploads.stop()
            with noted_in(error):
                self.suspend()
            _add_advice(error, overwrite=self._overwrite is not None)

    def __len__(self) -> int:
        """Return the number of samples in the dataset: existing ones and appended ones."""
        return self._samples

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return (
            f"<{type(self).__name__} {self._path}: {self._samples:,} samples as {self._container.name}, "
            f"mode {self._options.mode!r}{state}>"
        )

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return format_spec(self._fields)

    @property
    def limits(self) -> tuple[str, ...]:
        """Properties of the samples that the container does not keep, in words. Known from the first sample on."""
        return () if self._layout is None else self._layout.limits

    def append(self, sample: Mapping[str, Any], key: str | None = None) -> int:
        """Add one sample.

        Args:
            sample: A value for every field. A bytes-like value is stored unchanged, whatever the codec; an image field
                also takes arrays and Pillow images; a sequence field takes any iterable. `__key__` in it is the key,
                unless `key` is given.
            key: The sample's key. Either all samples of a dataset have one, or none.

        Returns:
            The sample's position in the dataset.

        Raises:
            SpecError: The sample does not have the fields of the spec, or the container cannot hold it.
            CodecError: A value cannot be encoded.
            ValueError: The key is missing, not allowed, or in the dataset already; or the writer is closed.

        Examples:
            >>> with bushel.Writer("texts.tar", {"text": "utf8"}) as writer:
            ...     writer.append({"text": "one"}, key="a")
            0
        """
        with self._lock:
            position, shard, added = self._samples, self._current, 0
            if shard is not None and shard.pending is not None:
                added = shard.pending.add(sample, key, self._first_number + position, self._known)
                if added == ADDED:
                    self._samples = position + 1
                    return position
            self._check_open()
            if shard is None or not added:
                shard = self._append_alone(sample, key)
            else:
                self._write_pending(shard)
            self._samples = position + 1
            self._appended = True
            elapsed = time.monotonic() - self._checkpointed
            if self._limits.reached_by(shard):
                self._finish_shard()
            elif elapsed > CHECKPOINT_SECONDS:
                self._checkpoint(shard)
            else:
                shard.collect(self._limits, CHECKPOINT_SECONDS - elapsed)
            return position

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the writer is closed")
        self._claim.check_process()
        if self._uploads.failed:
            self._fail()

    def _append_alone(self, sample: Mapping[str, Any], key: str | None) -> ShardInProgress:
        """Write a sample that cannot be framed together with others, or raise its error."""
        if key is None:
            key = sample.get(KEY)
        layout = self._layout or self._decide_layout(keyed=key is not None)
        key = checked_key(self._keys, key, self._samples + (self._first_number if self._keys is not None else 0))
        values = self._encode(sample)
        shard = self._current or self._start_shard(layout)
        shard.append(key, values)
        if self._keys is not None and key is not None:
            self._keys.add(key)
        return shard

    def _write_pending(self, shard: ShardInProgress) -> None:
        """Write the pending samples of a shard. If that fails, the last one was not appended."""
        try:
            shard.write_pending()
        except BaseException:
            if shard.pending is not None and (key := shard.pending.drop_last()) is not None and self._known is not None:
                self._known.discard(key)
            raise

    def flush(self) -> None:
        """Save all samples appended so far, so that `mode="resume"` finds them after a kill.

        Examples:
            >>> writer = bushel.Writer("numbers/", {"y": "int"}, container="tar")
            >>> position = writer.append({"y": 1})
            >>> writer.flush()  # this sample would survive a kill
            >>> writer.close()
        """
        with self._lock:
            if self._current is not None:
                self._checkpoint(self._current)

    def close(self) -> None:
        """Finish the last shard. A dataset without samples gets one empty shard."""
        with self._lock:
            try:
                if not self._closed:
                    self._complete()
                    if self._overwrite is not None:
                        if self._before_publish is not None:
                            self._before_publish()
                        self._claim.check()
                        self._overwrite.publish()
            except BaseException as error:
                if self._overwrite is not None:
                    self._overwrite.discard()
                _add_advice(error, overwrite=self._overwrite is not None)
                raise
            finally:
                self._let_go()

    def suspend(self) -> None:
        """Stop writing, and leave the unfinished shard for `mode="resume"`; with `overwrite`, as `discard`.

        Examples:
            >>> writer = bushel.Writer("numbers/", {"y": "int"}, container="tar")
            >>> position = writer.append({"y": 1})
            >>> writer.suspend()
            >>> with bushel.Writer("numbers/", {"y": "int"}, container="tar", mode="resume") as writer:
            ...     len(writer)
            1
        """
        if self._overwrite is not None:
            self.discard()
            return
        with self._lock:
            try:
                self._stop_and_mark()
            finally:
                self._let_go()

    def discard(self) -> None:
        """Stop writing, and remove the unfinished shard. With `overwrite`, remove the new dataset."""
        with self._lock:
            try:
                if not self._closed and self._current is not None:
                    self._current.discard()
                    self._current = None
                self._closed = True
                self._settle(end=True)
                if self._overwrite is not None:
                    self._overwrite.discard()
            finally:
                self._let_go()

    def _let_go(self) -> None:
        """Let others write to the target, unless the claim is that of the caller."""
        if self._own_claim is not None:
            self._own_claim.release()

    def _complete(self) -> None:
        if self._current is None and (self._folders or not self._shards):
            self._start_shard(self._layout or self._decide_layout(keyed=False))
        if self._current is not None:
            self._finish_shard(last=True)
        self._closed = True
        self._settle(end=True)
        leave_workplace(self._root)
        write_file_of_names(self._target, self._labels)
        self._marker.finish(self._shards)

    # Before the first sample

    def _open(self, mode: Mode) -> None:
        if workplace(self._root) is None and (mode != "create" or is_object(self._root)):
            raise UnsupportedError(f"mode={mode!r} needs a local path or an object store: {self._root} is neither")
        if mode == "overwrite" and not self._target.single:  # an object store has no atomic swap of folders
            raise UnsupportedError(
                f"mode='overwrite' cannot replace a folder in an object store ({self._path}): write to another path, "
                "or delete the old dataset first"
            )
        if self._overwrite is None:
            self._target.check_kind()
            self._target.check_no_parts(mode)
        self._take_up_staged(mode)
        self._shards = [] if mode == "overwrite" else self._target.existing_shards()
        self._target.check_as_listed(mode, self._shards)
        if mode == "resume" and (self._current or self._shards):
            self._folders = self._folders and ()  # the first shard has them
        exists = bool(self._shards)
        self._target.check_mode(mode, exists=exists, incomplete=exists and self._marker.load())
        if isinstance(self._root, Path):
            make_folder(self._root, sync=self._sync)
            if self._sync and not self._shards:  # a process that made it may have been killed before that
                with suppress(PermissionError):
                    sync_folder(self._root.parent)
        self._adopt_existing()
        if self._adopts_spec and not self._fields:
            raise ValueError(
                f"{self._target.path} has no samples yet: a new dataset needs a spec, such as {{'image': 'jpg'}}"
            )
        self._samples = sum(shard.samples for shard in self._shards) + (self._current.samples if self._current else 0)
        total = self._options.expected if self._options.total is None else self._options.total
        if total is not None and self._marker.expected is None:
            self._marker.expected = total + (self._samples if mode == "append" else 0)
        if self._current is not None and self._limits.reached_by(self._current):  # killed just before it was finished
            self._finish_shard()

    def _settle_labels(self) -> None:
        unfinished = {} if self._current is None else self._current.labels
        self._labels = names_to_write(self._options.labels, self._fields, self._target.path, self._shards, unfinished)
        if self._current is not None:
            self._current.labels = self._labels

    def _take_up_staged(self, mode: Mode) -> None:
        """Continue the shard that a killed writer left, or publish it if it is complete."""
        staged = self._target.unfinished_shards()
        if mode == "overwrite":
            for folder in staged:
                remove_staged(folder)
            return
        if staged and mode != "resume":
            raise FileExistsError(
                f"{self._target.path} has an unfinished write: continue it with mode='resume', or replace it with "
                f"mode='overwrite' (it is in {staged[0]})"
            )
        if staged:  # one of them may be complete and be published now
            self._marker.load()
            self._marker.begin(self._container.name)
        for folder in staged:
            taken = ShardInProgress.resume(folder, self._root, self._container, sync=self._sync)
            if isinstance(taken, ShardInProgress):
                self._current, self._continued = taken, True

    def _adopt_existing(self) -> None:
        """Take the spec, layout and keys of the shards that exist, and check that new samples fit."""
        if (current := self._current) is not None:
            self._shards = [known for known in self._shards if known.shard.files != current.shard.files]
            if self._adopts_spec:
                self._fields = {column.field.name: column.field for column in current.layout.columns}
            self._layout = current.layout
        elif self._shards:
            last = self._shards[-1]
            if self._generation is None and isinstance(self._container, HasGenerations):
                self._generation = self._container.generation(last.shard)
            if self._adopts_spec:
                self._fields = {field.name: field for shard in self._shards for field in shard.fields}
            self._decide_layout(keyed=last.keyed)
        if self._shards:
            given = self._contents.without_usual_columns() if self._options.columns is None else self._contents
            self._contents = Contents.to_keep(self._shards[-1].index) | given
        if self._layout is not None:
            check_same_fields(self._target.path, self._shards, self.spec, self._layout)
            self._use(self._layout)

    def _decide_layout(self, *, keyed: bool) -> Layout:
        keyed = keyed or self._container.needs_keys or self._folders is not None
        plain = self._target.single or not (self._options.sharded or any(shard.shard.name for shard in self._shards))
        options = WriteOptions(keyed, self._generation, plain, self._options.expected, self._folders)
        self._layout = self._container.layout(self._fields, options)
        self._use(self._layout)
        return self._layout

    def _use(self, layout: Layout) -> None:
        self._encode = SampleEncoder(self._container.name, layout)
        if layout.options.keyed:
            keys = () if self._current is None else self._current.keys()
            self._keys = KeyCheck(self._shards, keys, needs_keys=self._container.needs_keys)
            self._known = self._keys.known

    # Each shard

    def _start_shard(self, layout: Layout) -> ShardInProgress:
        expected = self._limits.expected(self._options.expected, self._samples)
        layout = replace(layout, options=replace(layout.options, expected=expected, folders=self._folders))
        if self._shards and self._appends_in_place():
            self._current = self._reopen_last(layout)
        else:
            self._current = self._new_shard(layout)
        self._folders = self._folders and ()
        return self._current

    def _new_shard(self, layout: Layout) -> ShardInProgress:
        shard = self._container.shard(self._root, layout, [known.shard for known in self._shards], self._target.file)
        in_place = self._options.mode == "overwrite" and self._overwrite is None
        return ShardInProgress.create(self._plan(shard, layout), sync=self._sync, replace=in_place)

    def _reopen_last(self, layout: Layout) -> ShardInProgress:
        last = self._shards[-1]
        reopened = ShardInProgress.reopen(last, self._plan(last.shard, layout), sync=self._sync)
        self._shards.pop()
        return reopened

    def _plan(self, shard: Shard, layout: Layout) -> ShardPlan:
        return ShardPlan(shard, self._container, layout, self._labels, self._contents)

    def _appends_in_place(self) -> bool:
        """Return whether the dataset is one file or one plain folder, to which no shard can be added."""
        return self._target.single or not self._shards[0].shard.name

    def _prepare_checkpoint(self) -> None:
        if self._before_checkpoint is not None and self._sync:
            self._before_checkpoint()

    def _checkpoint(self, shard: ShardInProgress) -> None:
        self._prepare_checkpoint()
        shard.checkpoint()
        self._checkpointed = time.monotonic()

    def _finish_shard(self, *, last: bool = False) -> None:
        if self._current is not None:
            shard, self._current = self._current, None
            self._closed = True  # if this fails, the shard stays staged for mode="resume", and nothing may replace it
            try:
                self._finish_and_publish(shard, last=last)
            except Exception as error:
                if self._overwrite is None:
                    with noted_in(error):
                        self._stop_and_mark()
                    self._let_go()
                raise
            self._closed = False

    def _finish_and_publish(self, shard: ShardInProgress, *, last: bool) -> None:
        self._prepare_checkpoint()
        finished = shard.finish()
        self._settle()
        self._claim.check()
        if self._before_publish is not None and self._overwrite is None:
            self._before_publish()
        if not last and self._overwrite is None:
            self._marker.begin(self._container.name)
        if isinstance(self._root, Path):
            self._shards.append(finished.publish())
        else:
            self._shards.append(finished.staged)
            self._uploads.begin(finished)

    def _settle(self, *, end: bool = False) -> None:
        """Wait for the upload of the last finished shard; `end` ends the upload thread."""
        if (uploaded := self._uploads.end() if end else self._uploads.settle()) is not None:
            self._shards[-1] = uploaded

    def _fail(self) -> None:
        """Stop writing after an upload failed, and raise its error."""
        try:
            self._settle()
        except Exception as error:
            with noted_in(error):
                self._stop()
            raise

    def _stop_and_mark(self) -> None:
        """Stop writing, and let the manifest say that the dataset is incomplete."""
        if self._stopped:
            return
        self._stopped = True
        try:
            self._stop()
        finally:
            self._settle(end=True)
            if isinstance(self._root, Path) and self._shards and (self._appended or self._marker.written):
                with suppress(OSError):  # it exists already if a shard was written
                    self._marker.update(self._shards)

    def _stop(self) -> None:
        """Stop writing. Staged files stay."""
        closed, self._closed = self._closed, True
        if not closed and self._current is not None:
            current, self._current = self._current, None
            if not self._appended and not self._continued:  # nothing to resume, which would only be in the way
                current.discard()
                return
            self._prepare_checkpoint()
            current.suspend()


def _add_advice(error: BaseException, *, overwrite: bool) -> None:
    """Add a note to an error that is due to a full disk: how to continue."""
    advice = _FREE_SPACE_OVERWRITE if overwrite else _FREE_SPACE
    if is_out_of_room(error) and advice not in getattr(error, "__notes__", ()):
        error.add_note(advice)

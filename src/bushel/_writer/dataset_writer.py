"""Write a dataset shard by shard: one sample at a time, or many at once as columns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any, Self

from bushel._dataset.read.shards import OpenShard
from bushel._index.headers import PartOfRun
from bushel.codecs import get_codec
from bushel.containers.registry import container_names, meant_container
from bushel.errors import CodecError, SpecError, TooManyErrors, is_out_of_room, noted_in
from bushel.spec import KEY, parse_spec
from bushel.storage import Lock, absolute, as_path, real_file

from .dataset_plan import DatasetPlan
from .publishing import lock_for_writing
from .sample_values import plain_columns
from .target import Target, WriterOptions, choose_container
from .written_shards import WrittenShards

_FREE_SPACE = "free some disk space, and continue with mode='resume': complete shards are kept"
_FREE_SPACE_OVERWRITE = "free some disk space, and run it again: the old dataset is unchanged"


class DatasetWriter:
    """The implementation of `bushel.Writer`, with the parameters that only packing needs.

    Args:
        path: See `bushel.Writer`.
        spec: Field to type.
        options: How the dataset is written.
        before_publish: Called with the number of samples in the dataset when a shard is complete
            and about to get its final name, or, with `overwrite`, when the dataset is, so that
            files beside the dataset are never older.
        lock: The lock of the target, if the caller has it and releases it; by default the writer
            takes it.
        part: Returns the note in the manifest of a part of a run, when all samples are written.
        existing: The shards that are continued, if the caller has them from `continued_shards`. The
            writer takes the list over.
    """

    def __init__(
        self,
        path: object,
        spec: Mapping[str, str] | None,
        options: WriterOptions,
        *,
        before_publish: Callable[[int], None] | None = None,
        lock: Lock | None = None,
        part: Callable[[], PartOfRun] | None = None,
        existing: list[OpenShard] | None = None,
    ) -> None:
        if spec is None and options.mode in ("create", "overwrite"):
            raise ValueError("a new dataset needs a spec, such as {'image': 'jpg', 'label': 'int'}")
        if isinstance(spec, str) and (name := meant_container(spec)) is not None:
            raise SpecError(
                f"{spec!r} is in the place of the spec, such as {{'image': 'jpg', 'label': 'int'}}: "
                f"pass container={name!r}. The containers are "
                f"{', '.join(container_names(written=True))}"
            )
        fields = None if spec is None else parse_spec(spec)
        for field in (fields or {}).values():
            get_codec(field.codec)
        self._options, self._path = options, real_file(absolute(as_path(path)))
        self._owned = lock or lock_for_writing(self._path, options)
        # lets others write to the target, unless the caller has the lock
        self._let_go = ExitStack()
        if lock is None:
            self._let_go.callback(self._owned.release)
        self._lock = threading.Lock()
        self._closed = self._stopped = False
        # without those that were added to the buffer since the last time that the lock was taken
        self._samples = 0
        self._add: Callable[[Mapping[str, Any], str | None], int] = _refused
        try:
            target = Target.of(self._path, choose_container(self._path, options))
            self._plan = DatasetPlan(target, fields, options)
            self._written = WrittenShards(
                target, options, self._plan, self._owned, before_publish, part
            )
            try:
                self._written.open(existing)
                self._samples = self._written.samples
            except BaseException as error:
                with noted_in(error):
                    self.suspend()
                raise
        except BaseException:
            self._let_go.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.close()
        else:
            if not isinstance(error, Exception):  # Ctrl-C does not wait for an upload
                self._written.uploads.stop()
            lost = len(self) - self._written.samples
            with noted_in(error):
                self.suspend()
            self._add_advice(error, lost)

    def __len__(self) -> int:
        """Return the number of samples in the dataset: existing ones and appended ones."""
        shard = self._written.current
        if shard is None or shard.pending is None:
            return self._samples
        return max(self._samples, shard.pending.next)

    def __repr__(self) -> str:
        state = ", closed" * self._closed
        return (
            f"<{type(self).__name__} {self._path}: {len(self):,} samples as "
            f"{self._plan.container.name}, mode {self._options.mode!r}{state}>"
        )

    @property
    def published(self) -> int:
        """Number of samples in finished shards."""
        return self._written.samples

    @property
    def was_unfinished(self) -> bool:
        """Whether `resume` found an incomplete dataset."""
        return self._written.was_unfinished

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return self._plan.spec

    @property
    def limits(self) -> tuple[str, ...]:
        """Properties of the samples that the container does not keep, in words. Known from the first sample on."""
        if self._plan.layout is None:
            return ()
        return self._plan.layout.limits

    def append(self, sample: Mapping[str, Any], key: str | None = None) -> int:
        """Add one sample. Threads may call this at once.

        Args:
            sample: A value for every field. A bytes-like value is stored unchanged for any codec;
                an image field also takes arrays and Pillow images; a sequence field takes any
                iterable. `__key__` in it is the key, unless `key` is given.
            key: The sample's key. Either all samples of a dataset have one, or none.

        Returns:
            The sample's position in the dataset.

        Raises:
            SpecError: The sample does not have the fields of the spec, or the container cannot hold
                it.
            CodecError: A value cannot be encoded.
            ValueError: The key is missing, not allowed, or in the dataset already; or the writer is
                closed.

        Examples:
            >>> with bushel.Writer("texts.tar", {"text": "utf8"}) as writer:
            ...     writer.append({"text": "one"}, key="a")
            0
        """
        if self._plan.numbers and isinstance(sample, Mapping):
            sample = self._plan.with_numbers(sample)
        try:
            position = self._add(sample, key)
        except CodecError:  # `_append` raises it with the names of the field and of the sample
            position = -1
        if position >= 0:
            return position
        return self._append(sample, key, -2 - position)

    def extend(self, columns: Mapping[str, Any], keys: Iterable[str] | None = None) -> range:
        """Add many samples, given as a column for each field. It writes what `append` would write, much faster.

        Values of `bytes` fields, and arrays whose codec can encode a column at once (`array`,
        `npy`, `int`, `i64`, `u64`, `float`, `f32`), need no Python object per sample; other columns
        are encoded value by value. Columns are checked and encoded before anything is written. If
        writing fails, samples that were written before stay.

        Args:
            columns: Field to column: an array (one sample per element of its first axis;
                `uint8[n, k]` for a `bytes` field), a list, an Arrow array, or `(data, offsets)`:
                stored bytes of all samples and int64[n + 1]. A column `__key__` holds the keys,
                unless `keys` is given. A column of a field with `labels` may have names of classes.
            keys: The key of each sample, as a list, an array of text, or an Arrow array.

        Returns:
            The positions of the samples in the dataset.

        Raises:
            SpecError: A field is unknown or missing, lengths differ, or the container cannot hold
                the samples.
            CodecError: A value cannot be encoded.
            ValueError: A key is missing, not allowed, or in the dataset already; or the writer is
                closed.

        Examples:
            >>> with bushel.Writer("numbers.tar", {"x": "array", "y": "int"}) as writer:
            ...     writer.extend({"x": np.zeros((1000, 8), np.float32), "y": np.arange(1000)})
            range(0, 1000)
        """
        first, count, _ = self.write_columns(columns, keys)
        return range(first, first + count)

    def write_columns(
        self, columns: Mapping[str, Any], keys: Iterable[str] | None = None
    ) -> tuple[int, int, int]:
        """Add samples as `extend` does. Return the position of the first one, their number, and their stored bytes."""
        plan = self._plan
        with self._lock:
            self._refuse_closed()
        # other threads do not wait for it: the keys may come from a slow function of the caller
        samples, plain, texts = plain_columns(columns, plan.fields, keys)
        with self._lock:
            self._pause()
            self._check_open()
            first, at, shards = self._samples, 0, self._written.shards
            stored_keys, batch = plan.encoded_columns(plain, samples, texts, first, shards)
            # samples before this one are written one by one
            alone_until = batch.samples if batch.values else 0
            while at < batch.samples:
                shard = self._written.current or self._written.start_shard(self._samples)
                shard.write_pending()
                count = 0
                if at >= alone_until:
                    samples_left, bytes_left = shard.room
                    end, rows = batch.rows(at, samples_left)
                    some_keys = None if stored_keys is None else stored_keys.rows(at, end)
                    count = shard.extend(some_keys, rows, max(bytes_left, 1))
                    # of large samples, one may be special
                    alone_until = at + 1 if batch.is_large else end
                if not count:
                    key = None
                    if stored_keys is not None:
                        [key] = stored_keys.rows(at, at + 1).texts
                    shard.append(key, batch.sample(at))
                    count = 1
                if plan.keys is not None:
                    plan.keys.add(texts and texts[at : at + count])
                at += count
                self._samples += count
                if 0 in shard.room:
                    self._finish_shard()
            return first, batch.samples, batch.size

    def _append(self, sample: Mapping[str, Any], key: str | None, added: int) -> int:
        """Add one sample, with the lock.

        `added` is its position if it is in the buffer, which has to be written now; else -1.
        """
        with self._lock:
            written, plan, position = self._written, self._plan, self._pause()
            shard, collects = written.current, True
            if added >= 0:
                if shard is None or shard.pending is None or not shard.pending.ends_with(added):
                    return added  # another thread was here before, and has written it
                try:
                    self._check_open()
                    shard.write_pending()
                except BaseException:
                    dropped = shard.pending.drop_last()
                    if dropped is not None and plan.keys is not None and plan.keys.known:
                        plan.keys.known.discard(dropped)
                    self._samples = shard.pending.next
                    raise
                position = added
            else:
                self._check_open()
                key_of_sample, values = plan.encoded(sample, key, position, written.shards)
                shard = shard or written.start_shard(position)
                shard.write_pending()
                shard.append(key_of_sample, values)
                collects = shard.takes(values)
                if plan.keys is not None and key_of_sample is not None:
                    has_own = key is not None or sample.get(KEY) is not None
                    plan.keys.add([key_of_sample] if has_own else None)
                self._samples = position + 1
            room = shard.room
            if 0 in room:
                self._finish_shard()
            # a buffer does not look into the tables of shards
            elif collects and (plan.keys is None or plan.keys.in_memory):
                known = None if plan.keys is None else plan.keys.known
                first_number = self._options.first_number
                self._add = shard.collect(room, self._samples, first_number, known)
            return position

    def _pause(self) -> int:
        """Stop threads from adding samples without the lock, which this thread has. Return the number of samples."""
        shard = self._written.current
        if shard is not None and shard.pending is not None:
            self._samples = max(self._samples, shard.pending.pause())
        return self._samples

    def _refuse_closed(self) -> None:
        if self._closed:
            raise ValueError("the writer is closed")

    def _check_open(self) -> None:
        self._refuse_closed()
        self._owned.check_process()
        if self._written.uploads.failed:
            try:
                self._written.settle()
            except Exception as error:
                with noted_in(error):
                    self._stop()
                raise

    def _finish_shard(self, *, last: bool = False) -> None:
        self._pause()
        self._closed, self._add = True, _refused
        if last:
            # no sample follows, and old tables and keys would stay in memory beside the new one
            self._plan.keys = self._plan.usual = None
        try:
            self._written.finish_shard(last=last)
        except Exception as error:
            if self._written.replaced is None:
                with noted_in(error):
                    self._stop()
                self._let_go.close()
            raise
        self._closed = False

    def flush(self) -> None:
        """Pass the samples appended so far to the operating system. This ends no shard.

        Nothing is kept of an unfinished shard: after a kill, `mode="resume"` continues after the
        last finished one.

        Examples:
            >>> writer = bushel.Writer("numbers/", {"y": "int"}, container="tar")
            >>> position = writer.append({"y": 1})
            >>> writer.flush()
            >>> writer.close()
        """
        with self._lock:
            self._pause()
            if self._written.current is not None:
                self._written.current.flush()

    def close(self) -> None:
        """Finish the last shard. A dataset without samples gets one empty shard."""
        replaced = self._written.replaced
        with self._lock:
            try:
                if not self._closed:
                    samples = self._pause()
                    if self._written.current is None and (
                        self._plan.folders or not self._written.shards
                    ):
                        self._written.start_shard(samples)
                    self._finish_shard(last=True)
                    self._closed = True
                    self._written.complete()
                    self._stopped = True
            except BaseException as error:
                if replaced is not None:
                    replaced.discard()
                self._add_advice(error)
                raise
            finally:
                self._let_go.close()

    def suspend(self) -> None:
        """Stop writing. Finished shards stay, for `mode="resume"`; with `overwrite`, nothing of the new dataset does.

        Examples:
            >>> writer = bushel.Writer("numbers/", {"y": "int"}, container="tar", shard_samples=2)
            >>> positions = writer.extend({"y": [1, 2, 3]})
            >>> writer.suspend()
            >>> with bushel.Writer("numbers/", {"y": "int"}, container="tar", mode="resume") as writer:
            ...     len(writer)
            2
        """
        with self._lock, self._let_go:
            self._stop()

    def _stop(self) -> None:
        """Stop writing, and remove the unfinished shard. The finished ones stay."""
        self._pause()
        self._closed = True
        if self._stopped:
            return
        self._stopped = True
        try:
            self._written.discard_shard()
        finally:
            if self._written.replaced is not None:
                self._written.replaced.discard()
            else:
                self._written.leave()

    def _add_advice(self, error: BaseException, lost: int = 0) -> None:
        """Add notes to an error: which samples are lost by it, and how to continue after a full disk."""
        replaces = self._written.replaced is not None
        # the message of too many errors itself says which samples stay
        if lost and not (replaces or isinstance(error, TooManyErrors)):
            error.add_note(
                f"the shard that was not finished is not kept (samples: {lost:,}): "
                f"mode='resume' continues after those before it ({self._written.samples:,})"
            )
        advice = _FREE_SPACE_OVERWRITE if replaces else _FREE_SPACE
        if is_out_of_room(error) and advice not in getattr(error, "__notes__", ()):
            error.add_note(advice)


def _refused(_: object, __: object) -> int:
    """Refuse a sample, which then is added with the lock."""
    return -1

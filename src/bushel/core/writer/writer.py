"""Writer: samples into any container, shard by shard, safe against kills."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from bushel.codecs import get_codec
from bushel.containers import containers
from bushel.containers.base import Layout, ReadOptions, Stored, WriteOptions
from bushel.core.dataset.discovery import find
from bushel.core.dataset.shards import OpenShard, open_shards, write_manifest
from bushel.core.index.key_lookup import KeyTable
from bushel.core.writer.output_paths import check_place, choose_container, finds
from bushel.core.writer.shard_upload import Uploads
from bushel.core.writer.shard_writer import ShardInProgress
from bushel.errors import SpecError, StateError, UnsupportedError, is_out_of_room, noted_in
from bushel.spec import KEY, Field, format_spec, parse_spec
from bushel.storage import as_path, is_object, leave_workplace, parse_bytes, workplace

__all__ = ["Writer"]

Mode = Literal["create", "append", "resume", "overwrite"]

_CHECKPOINT_SECONDS = 1.0
_NO_ROOM = "make room there, and go on with mode='resume': what was whole before is kept"


class Writer:
    """Writes a dataset, one sample at a time.

    A shard appears under its final name only when it is whole and on disk. Until then it is staged in `.bushel/staging`
    beside it, with a journal, so that `mode="resume"` goes on after a kill with nothing lost or doubled. When the body
    of the `with` statement raises, finished shards stay, and the unfinished one is left for `mode="resume"`.

    Of a dataset in an object store, shards are staged in a folder of this machine (under `TMPDIR`, with room for two
    shards) and uploaded when they are whole, each while the next one is written. `mode="resume"` goes on there; on
    another machine, behind the last shard that was uploaded.

    Threads may share a writer; samples are written in the order in which `append` is called.

    Args:
        path: Folder of the dataset, or, for tar, ffrecord and recordio, the name of the one file to write. A local
            path, or a URL: `s3://`, `gs://`, `az://`.
        spec: Field names to types, such as `{"image": "jpg", "words": "utf8[]"}`. Can be left out where there is a
            dataset already.
        container: `bag`, `tar`, `ffrecord`, `gulp` or `recordio`. Can be left out where the suffix of `path` or the
            dataset that is there tells.
        mode: `create` refuses a dataset that is there, `append` adds to it (by new shards, or to its one file), and
            `resume` goes on with one whose writer died; `len(writer)` is then the number of samples it has.
        shard_samples: Start a new shard after this many samples.
        shard_bytes: Start a new shard when one has this many bytes: a number, or `"1GB"`.
        generation: Of a bag: `B` (the default; Granular 0.20 to 0.21) or `C` (from 0.22 on).
        expected: Samples that will come, when known: some containers then save a copy of the data.
        folders: When samples are the files of a folder, with their paths as keys: the paths of its empty folders. Only
            `ffrecord` keeps such. They come into the first shard that is written.
        sync: Whether to wait until a finished shard is on disk. Without, a power cut may lose what looked finished.
        before_shard: Called whenever a shard is whole and about to get its final names, so that what is kept beside
            the dataset is never behind it.

    Raises:
        FileExistsError: A dataset is there already, or an unfinished one.
        FileNotFoundError: There is no dataset to append to.
        SpecError: The container cannot hold samples of this spec; says why and which can.
        StateError: What is there was written with another spec or container.
    """

    def __init__(
        self,
        path: object,
        spec: Mapping[str, str] | None = None,
        *,
        container: str | None = None,
        mode: Mode = "create",
        shard_samples: int | None = None,
        shard_bytes: int | str | None = None,
        generation: str | None = None,
        expected: int | None = None,
        folders: Iterable[str] | None = None,
        sync: bool = True,
        before_shard: Callable[[], None] | None = None,
    ) -> None:
        if spec is None and mode == "create":
            raise ValueError("a new dataset needs a spec, such as {'image': 'jpg', 'label': 'int'}")
        self._fields = parse_spec(spec or {})
        for field in self._fields.values():
            get_codec(field.codec)
        self._adopts = spec is None
        if mode not in ("create", "append", "resume"):
            raise ValueError(f"mode is 'create', 'append' or 'resume', not {mode!r}")
        if shard_samples is not None and shard_samples < 1:
            raise ValueError(f"shard_samples is at least 1, not {shard_samples}")
        self._limit_samples = shard_samples
        self._limit_bytes = None if shard_bytes is None else parse_bytes(shard_bytes)
        self._target = as_path(path)
        self._container = choose_container(self._target, container)
        self._single = bool(self._container.suffix) and self._target.name.endswith(self._container.suffix)
        if self._single and (shard_samples or shard_bytes):
            raise ValueError(f"{self._target} names one file: give a folder to write several shards")
        self._root = self._target.parent if self._single else self._target
        self._sharded = bool(shard_samples or shard_bytes)
        self._generation = generation
        self._expected = expected
        self._folders = None if folders is None else tuple(folders)
        if self._folders is not None and not self._container.keeps_folders:
            raise SpecError(f"{self._container.name} cannot keep folders that lead to no sample; ffrecord can")
        self._sync = sync
        self._before_shard = before_shard
        self._uploads = Uploads()
        self._lock = threading.Lock()
        self._layout: Layout | None = None
        self._current: ShardInProgress | None = None
        self._shards: list[OpenShard] = []
        self._keys: set[str] | None = None
        self._table: KeyTable | None = None
        self._closed = False
        self._checkpointed = time.monotonic()
        self._samples = 0
        self._last_may_grow = False
        try:
            self._prepare(mode)
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
            _advise(error)

    def __len__(self) -> int:
        """Samples in the dataset: those found when it was opened, and those appended since."""
        return self._samples

    @property
    def spec(self) -> dict[str, str]:
        """Field names to types."""
        return format_spec(self._fields)

    @property
    def limits(self) -> tuple[str, ...]:
        """What of the samples the container does not keep, in words; known from the first sample on."""
        return () if self._layout is None else self._layout.limits

    def append(self, sample: Mapping[str, Any], key: str | None = None) -> int:
        """Add one sample.

        Args:
            sample: A value for every field. A bytes-like value is stored as it is, whatever the codec; of a sequence
                field any iterable is taken, one element at a time. `__key__` in it is the key, unless `key` is given.
            key: The sample's key. Either all samples of a dataset have one, or none.

        Returns:
            The sample's position in the dataset.

        Raises:
            SpecError: The fields are not those of the spec, or the container cannot hold this sample.
            CodecError: A value does not encode.
            ValueError: The key is missing, not wanted, or there already; or the writer is closed.
        """
        if key is None:
            key = sample.get(KEY)
        with self._lock:
            if self._closed:
                raise ValueError("the writer is closed")
            if self._uploads.failed:
                self._fail()
            layout = self._layout or self._decide(keyed=key is not None)
            key = self._check_key(layout, key)
            values = dict(self._encoded(layout, sample))
            shard = self._current or self._start(layout)
            shard.append(key, values)
            if self._keys is not None and key is not None:
                self._keys.add(key)
            self._samples += 1
            if self._full(shard):
                self._finish()
            elif time.monotonic() - self._checkpointed > _CHECKPOINT_SECONDS:
                self._checkpoint(shard)
            return self._samples - 1

    def fill_last(self, since: int = 0) -> None:
        """Let the next samples go into the last shard, if that was finished before it was full.

        Args:
            since: Position of a sample. A shard with samples before it stays as it is.
        """
        with self._lock:
            fillable = self._sharded and self._current is None and workplace(self._root) and self._shards
            self._last_may_grow = bool(fillable) and self._samples - self._shards[-1].samples >= since

    def flush(self) -> None:
        """Make sure that a kill from here on loses none of the samples appended so far (`mode="resume"` finds them)."""
        with self._lock:
            if self._current is not None:
                self._checkpoint(self._current)

    def close(self) -> None:
        """Finish the last shard. A dataset without samples gets one empty shard."""
        with self._lock:
            if self._closed:
                return
            try:
                self._complete()
            except OSError as error:
                _advise(error)
                raise

    def suspend(self) -> None:
        """Stop writing, and leave the unfinished shard for `mode="resume"`."""
        with self._lock:
            try:
                self._stop()
            finally:
                self._settle(end=True)

    def discard(self) -> None:
        """Stop writing, and throw the unfinished shard away."""
        with self._lock:
            if not self._closed and self._current is not None:
                self._current.discard()
                self._current = None
            self._closed = True
            self._settle(end=True)

    def _complete(self) -> None:
        if self._current is None and (self._folders or not self._shards):
            self._start(self._layout or self._decide(keyed=False))
        if self._current is not None:
            self._finish()
        self._closed = True
        self._settle(end=True)
        leave_workplace(self._root)
        if not self._single:
            write_manifest(self._shards, sync=self._sync)

    # Before the first sample

    def _prepare(self, mode: Mode) -> None:
        if workplace(self._root) is None and (mode != "create" or is_object(self._root)):
            raise UnsupportedError(f"{mode!r} needs a local folder or an object store, and {self._root} is neither")
        check_place(self._target, single=self._single)
        staged = ShardInProgress.staged(self._root, self._target.name if self._single else None)
        if staged and mode != "resume":
            raise FileExistsError(
                f"{self._target} has an unfinished write: go on with mode='resume', or delete {staged[0]}"
            )
        for folder in staged:
            self._current = self._take_up(folder) or self._current
        self._shards = self._existing()
        if mode == "resume" and (self._current or self._shards):
            self._folders = self._folders and ()  # the first shard, which was begun, has them
        if mode == "create" and self._shards:
            raise FileExistsError(
                f"{self._target} is a dataset already: use mode='append' to add to it, or another path"
            )
        if mode == "append" and not self._shards:
            raise FileNotFoundError(f"{self._target} has no {self._container.name} dataset to append to")
        if isinstance(self._root, Path):
            self._root.mkdir(parents=True, exist_ok=True)
        if (current := self._current) is not None:
            self._shards = [known for known in self._shards if known.shard.files != current.shard.files]
            if self._adopts:
                self._fields = {column.field.name: column.field for column in current.layout.columns}
            self._agree(current.layout)
        elif self._shards:
            last = self._shards[-1]
            self._generation = self._generation or self._container.generation(last.shard)
            if self._adopts:
                self._fields = {field.name: field for shard in self._shards for field in shard.fields}
            self._agree(self._decide(keyed=last.keyed))
        if self._adopts and not self._fields:
            raise ValueError(
                f"{self._target} has no samples yet: a new dataset needs a spec, such as {{'image': 'jpg'}}"
            )
        self._samples = sum(shard.samples for shard in self._shards) + (self._current.samples if self._current else 0)
        if self._current is not None and self._full(self._current):  # it was killed just before it was finished
            self._finish()

    def _take_up(self, folder: Path) -> ShardInProgress | None:
        """Go on with a shard that a killed writer left; one that was whole gets its final names now."""
        taken = ShardInProgress.resume(folder, self._root, self._container, sync=self._sync)
        return taken if isinstance(taken, ShardInProgress) else None

    def _existing(self) -> list[OpenShard]:
        """The shards that are there, with their tables."""
        if not self._target.exists():
            return []
        for other in containers() if not self._single else ():
            if other is not self._container and finds(other, self._target):
                raise FileExistsError(f"{self._target} is a {other.name} dataset: write to another folder")
        if not finds(self._container, self._target):
            return []
        found = find([self._target], self._container.name)
        return open_shards(found.container, found.shards, ReadOptions(checksums=True), "auto")

    def _agree(self, layout: Layout) -> None:
        """Make sure that new samples are stored as those that are there.

        Raises:
            StateError: The spec is another one.
        """
        self._layout = layout
        there = {name: column for shard in self._shards for name, column in shard.index.columns.items()}
        wanted = {column.field.name: column for column in layout.columns}
        differing = [
            name
            for name, column in wanted.items()
            if (known := there.get(name)) is not None
            and (
                known.codec != column.codec
                or known.field.sequence != column.field.sequence
                or (known.field.type != column.field.type and not layout.sparse)
            )
        ]
        if differing or self.spec != format_spec({name: column.field for name, column in wanted.items()}):
            have = {name: column.field.type for name, column in there.items()}
            raise StateError(f"{self._target} has the fields {have}: a writer with {self.spec} cannot add to it")
        if there and not layout.sparse and there.keys() != wanted.keys():
            raise StateError(f"{self._target} has the fields {', '.join(there)}, not {', '.join(wanted)}")
        self._load_keys()

    def _decide(self, *, keyed: bool) -> Layout:
        keyed = keyed or self._container.needs_keys or self._folders is not None
        plain = self._single or not (self._sharded or any(shard.shard.name for shard in self._shards))
        generation = self._generation
        options = WriteOptions(keyed, generation, plain, self._expected, self._folders)
        self._layout = self._container.layout(self._fields, options)
        self._load_keys()
        return self._layout

    def _load_keys(self) -> None:
        if self._layout is None or not self._layout.options.keyed:
            return
        self._table = KeyTable.of(self._shards) if self._shards else None
        self._keys = set() if self._current is None else set(self._current.keys())

    # Each sample

    def _check_key(self, layout: Layout, key: str | None) -> str | None:
        if not layout.options.keyed:
            if key is not None and key != str(self._samples):  # the key that it has without being given one
                raise ValueError(f"key {key!r}: the samples before it have none, so this one cannot have one")
            return None
        if key is None:
            if not self._container.needs_keys:
                raise ValueError("this sample has no key, and the samples before it have one")
            key = f"{self._samples:09d}"
        if not isinstance(key, str):
            raise TypeError(f"a key is text, not {type(key).__name__}: use str({key!r})")
        known = self._keys is not None and key in self._keys
        if known or (self._table is not None and next(self._table.find(key), None) is not None):
            raise ValueError(f"key {key!r} is in the dataset already")
        return key

    def _encoded(self, layout: Layout, sample: Mapping[str, Any]) -> Iterator[tuple[str, Stored]]:
        unknown = [name for name in sample if name not in self._fields and name != KEY]
        if unknown:
            raise SpecError(f"the sample has {unknown[0]!r}, which is not in the spec ({', '.join(self._fields)})")
        for column in layout.columns:
            field = column.field
            if field.name not in sample:
                if not layout.sparse:
                    raise SpecError(f"the sample lacks {field.name!r}, and a {self._container.name} needs every field")
                continue
            value = sample[field.name]
            if value is None and layout.sparse and field.codec not in ("json", "msgpack"):
                continue
            encode = get_codec(column.codec).encode
            if field.sequence:
                yield field.name, _encoded_elements(field, encode, value)
            else:
                yield field.name, _stored(value) if isinstance(value, bytes | bytearray | memoryview) else encode(value)

    # Each shard

    def _start(self, layout: Layout) -> ShardInProgress:
        expected = self._expected_here()
        layout = replace(layout, options=replace(layout.options, expected=expected, folders=self._folders))
        if self._shards and self._appends_in_place():
            self._current = self._reopen(layout)
        else:
            self._current = self._unfilled(layout) or self._new(layout)
        self._folders = self._folders and ()
        return self._current

    def _new(self, layout: Layout) -> ShardInProgress:
        name = self._target.name if self._single else None
        shard = self._container.shard(self._root, layout, len(self._shards), name)
        return ShardInProgress.create(shard, self._container, layout, sync=self._sync)

    def _reopen(self, layout: Layout) -> ShardInProgress:
        reopened = ShardInProgress.reopen(self._shards[-1], self._root, self._container, layout, sync=self._sync)
        self._shards.pop()
        return reopened

    def _unfilled(self, layout: Layout) -> ShardInProgress | None:
        """The last shard, if it was finished before it was full: by too many errors in packing, say."""
        may_grow, self._last_may_grow = self._last_may_grow, False
        if not may_grow or (self._limit_samples is not None and self._shards[-1].samples >= self._limit_samples):
            return None
        last = self._shards[-1]
        reopened = self._reopen(layout)
        if not self._full(reopened):
            return reopened
        reopened.discard()
        self._shards.append(last)
        return None

    def _expected_here(self) -> int | None:
        """Samples that the next shard will probably get."""
        if self._expected is None or self._limit_bytes is not None:
            return None
        return min(max(self._expected - self._samples, 0), self._limit_samples or self._expected)

    def _appends_in_place(self) -> bool:
        """Whether the dataset is one file or one plain folder, to which no shard can be added."""
        return self._single or not self._shards[0].shard.name

    def _full(self, shard: ShardInProgress) -> bool:
        """Whether the next sample belongs into another shard."""
        by_samples = self._limit_samples is not None and shard.samples >= self._limit_samples
        return by_samples or (self._limit_bytes is not None and shard.bytes >= self._limit_bytes)

    def _checkpoint(self, shard: ShardInProgress) -> None:
        shard.checkpoint()
        self._checkpointed = time.monotonic()

    def _finish(self) -> None:
        if self._current is not None:
            shard, self._current = self._current, None
            self._closed = True  # if this fails: the staged shard is left for mode="resume", and nothing may replace it
            whole = shard.finish()
            self._settle()
            if self._before_shard is not None:
                self._before_shard()
            if isinstance(self._root, Path):
                self._shards.append(whole.publish())
            else:
                self._shards.append(whole.staged)
                self._uploads.begin(whole)
            self._closed = False

    def _settle(self, *, end: bool = False) -> None:
        """Wait for the upload of the last finished shard, which is the last of all at the `end`."""
        if (uploaded := self._uploads.end() if end else self._uploads.settle()) is not None:
            self._shards[-1] = uploaded

    def _fail(self) -> None:
        """Write no more, since an upload failed."""
        try:
            self._settle()
        except Exception as error:
            with noted_in(error):
                self._stop()
            raise

    def _stop(self) -> None:
        """Write no more; what is staged stays."""
        closed, self._closed = self._closed, True
        if not closed and self._current is not None:
            current, self._current = self._current, None
            current.suspend()


def _advise(error: BaseException) -> None:
    if is_out_of_room(error) and _NO_ROOM not in getattr(error, "__notes__", ()):
        error.add_note(_NO_ROOM)


def _encoded_elements(field: Field, encode: Any, values: Iterable[Any]) -> Iterator[Any]:
    if isinstance(values, str | bytes | bytearray | memoryview | Mapping):
        raise SpecError(f"field {field.name!r} is a sequence: give a list of values, not {type(values).__name__}")
    for value in values:
        yield _stored(value) if isinstance(value, bytes | bytearray | memoryview) else encode(value)


def _stored(value: bytes | bytearray | memoryview) -> bytes | bytearray | memoryview:
    """The value as one run of bytes."""
    return value.tobytes() if isinstance(value, memoryview) and not value.c_contiguous else value

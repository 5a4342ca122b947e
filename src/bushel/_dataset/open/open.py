"""Open datasets: `bushel.open`, and the shards of a dataset, each with a table to read it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial as bind
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Never, cast

from msgspec.structs import replace

from bushel._dataset.read.reader import Reader
from bushel._dataset.read.shards import Listing, OpenShard, kinds, labels_of, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._index.shard import may_lack_samples, warn_of_lists_above
from bushel._runtime.public import check_flags, check_names, public
from bushel.codecs.registry import is_withheld
from bushel.containers import ReadOptions, get_container, with_episodes
from bushel.errors import FormatError
from bushel.storage import AnyLocation, AnyPath, AnySource, absolute, as_path

from .caller_fields import POLICIES, IndexPolicy, check_declared, checked_spec, warn_withheld
from .shards import Found, as_written, folder_state, manifest_stat, open_shards

if TYPE_CHECKING:
    from bushel._dataset.read.listed import RequestedLists
    from bushel._dataset.read.selection import Remaining
    from bushel._dataset.views.stream import StreamDataset
    from bushel._index.shard_list import FolderState
    from bushel.containers.features import Feature


@public()
def open(
    source: AnySource,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    config: str | None = None,
    split: str | None = None,
    index: IndexPolicy | AnyLocation = "auto",
    verify: bool | None = None,
    pickle: bool = False,
    allow_incomplete: bool = False,
    on_damage: Literal["warn", "raise"] = "warn",
    episodes: bool = False,
    view: str | None = None,
    allow_stale: bool = False,
    delta_timestamps: Mapping[str, Iterable[float]] | None = None,
    **unknown: Never,
) -> Dataset:
    """Open a dataset for reading.

    If the dataset is incomplete, because its writer was stopped or is still writing, an
    `IncompleteWarning` says so. If the structure of a shard is damaged, a `DamagedWarning` says so;
    the samples that the damage does not touch can be read, and the others raise a `FormatError`
    (docs/integrity.md).

    Args:
        source: A folder, a file, a glob, a brace pattern (`train-{000..146}.tar`), or a list of
            these; text, `pathlib.Path`, any path-like object with `open()`, or a URL:
            `s3://bucket/train/`, `gs://…`, `az://container/…`, `https://host/…` (docs/cloud.md); or
            a dataset of the Hugging Face Hub, `hf://datasets/org/name` (docs/hub.md).
        container: Name of the container, for a folder that holds files of several containers. An
            archive is then read by its members alone: folders are not classes (docs/folders.md).
        config: Name of the configuration of a dataset of the Hub, or of a local copy; not needed if
            it has only one, or a default one.
        split: Name of the split of such a dataset, or of a folder of splits, such as `train/` and
            `val/` (docs/folders.md); not needed if it has only one. `all` joins the splits of a
            folder.
        spec: Types of fields, which replace the types in the files; other fields stay. Use it for
            types that the files do not contain, such as the types of records without a sidecar. In
            a tar, the members of a field are also found by the extension of its type.
        index: `auto` keeps a scanned index beside local data if possible, `memory` never writes,
            and `require` refuses a dataset without a fresh index. A path or URL is the folder in
            which the index is kept instead of beside the data, which may then be read-only.
        verify: True compares bytes with their CRC-32 on every read, where it is known; False never
            does. The default compares only checksums that the original tool compares, too: the
            CRC-32 of an ffrecord file's samples.
        pickle: Use codecs that run code, such as `pickle`, where the files name them; only if you
            trust their author. Without it, such values are given as stored bytes, with an
            `UntrustedWarning`, unless `spec` names the codec. It also allows pickled gulp metadata,
            in which only GulpIO's two classes are accepted.
        allow_incomplete: Open an incomplete dataset without a warning, or one whose listed shards
            are missing.
        on_damage: Treatment of a shard whose structure is damaged: `warn`, or `raise` a
            `FormatError`.
        episodes: Whether an episode is a sample instead of a frame, for LeRobot's datasets
            (docs/format-lerobot.md).
        view: Name of a view that `Dataset.save_view` saved.
        allow_stale: Whether to open the remaining samples of a view whose dataset has changed, with
            a warning.
        delta_timestamps: Seconds from a frame to its neighbours, by field: `{"action": [0, 0.1]}`,
            for LeRobot's datasets.
        **unknown: Arguments of other names, which are refused.

    Raises:
        FileNotFoundError: `source` does not exist.
        TypeError: An argument has an unknown name. The error names the nearest one.
        FormatError: `source` is not a dataset, or a shard is so damaged that no sample in it can be
            located; the error says which file, where, and what to run next.
        SpecError: A type in `spec` is unknown, or no sample has such a field; or two shards give
            different names to the same class number; or the dataset has not the configuration or
            split, or several and none is named.
        UnsupportedError: `source` can only be read forward; open it with `open_stream`. A
            `.tar.gz`, `.tgz` or `.tar.zst` can be read at random once `bushel index` has made an
            index of it.

    Examples:
        >>> ds = bushel.open("train/")
        >>> len(ds), ds.spec
        (12, {'image': 'jpg', 'label': 'int'})
        >>> ds["dog/2"]["image"].shape
        (48, 64, 3)
    """
    if unknown or on_damage not in ("warn", "raise"):
        _refuse(on_damage, unknown)
    if not {type(pickle), type(allow_incomplete), type(episodes), type(allow_stale)} <= {bool}:
        check_flags(
            pickle=pickle,
            allow_incomplete=allow_incomplete,
            episodes=episodes,
            allow_stale=allow_stale,
        )
    is_on_hub = isinstance(source, str) and source.startswith("hf://")
    whole = config is None and split is None and not is_on_hub
    features: Mapping[str, Feature] = {}
    inside = None
    if whole and isinstance(source, str | os.PathLike) and os.path.isdir(source):
        paths = [absolute(as_path(source))]  # a folder is not a stream, under any name
    else:
        from .sources import named_files, paths_to_open

        files = named_files(source, config, split)
        features, inside = files.features, files.inside
        paths = paths_to_open(files.source, spec, in_memory=index == "memory")
    fields, place = None if spec is None else checked_spec(spec), None
    if index not in POLICIES:
        from .tables import index_place

        index, place = "auto", index_place(index)
    if episodes or delta_timestamps is not None:
        container = with_episodes(container)
    plain = fields is None and place is None and delta_timestamps is None and not pickle
    tables = bind(
        _checked_shards,
        options=ReadOptions(spec=fields, pickle=pickle, kept=True),
        policy=cast("IndexPolicy", index),
        features=features,
        path=paths[0],
        recover=on_damage == "warn",
        understood=container is None,
    )
    while True:
        with _pinned(paths) as is_same:
            try:
                manifest = manifest_stat(paths)
                # a list is kept for opening without these arguments
                state = None
                if plain and manifest:
                    state = folder_state(paths[0], manifest)
                listed = None
                if state is not None:
                    listed = _dataset_of_list(paths[0], container, state, verify)
                if listed is not None and is_same():
                    return _saved(listed, view, allow_stale=allow_stale)
                discovered = as_written(paths[0], container) if manifest else None
                if discovered is None:
                    from .as_listed import discover

                    if whole:
                        from .sources import refuse_splits

                        refuse_splits(source)
                    discovered = discover(
                        paths, container, allow_incomplete=allow_incomplete, whole=whole
                    )
                shards, remaining = _opened(discovered, place, tables)
            except (FormatError, FileNotFoundError) as error:
                if not is_same():
                    continue
                from .completeness import with_advice

                if (explained := with_advice(error, paths)) is None:
                    raise
                raise explained from error
            if is_same():
                break
    dataset = Dataset(
        (),
        reader=Reader(shards, verify=verify, incomplete=discovered.incomplete, remaining=remaining),
    )
    if discovered.incomplete is None:
        if state is not None and index == "auto":
            from bushel._dataset.read.listed import keep_list

            from .tables import index_is_in_cache

            if not index_is_in_cache():
                keep_list(paths[0], shards, state)
    elif not allow_incomplete:
        from .completeness import warn_incomplete

        warn_incomplete(discovered.incomplete, len(dataset))
    dataset = _saved(dataset, view, allow_stale=allow_stale)
    if inside is not None:
        dataset = _samples_of_split(dataset, source, inside)
    if delta_timestamps is None:
        return dataset
    return _of_frames(dataset, delta_timestamps)


@contextmanager
def _pinned(paths: Sequence[AnyPath]) -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether paths still lead into the same local folder.

    Overwriting a folder exchanges it with a new one. The folder stays open in the meantime, so that
    its inode is not used again. One file, and files in several folders, are not watched.
    """
    folders = {path.parent for path in paths} if len(paths) > 1 else set(paths)
    folder = folders.pop()
    if folders or not isinstance(folder, Path):
        yield lambda: True
        return
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:  # it is a file or gone, or may not be listed
        yield lambda: True
        return

    def is_same() -> bool:
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(handle), os.stat(folder))
        return False

    try:
        yield is_same
    finally:
        os.close(handle)


def _samples_of_split(dataset: Dataset, source: object, split: str) -> Dataset:
    """Return the samples of a split that is inside a source (`NamedFiles.inside`).

    Raises:
        SpecError: It has no split of this name.
    """
    from bushel._recognise.names import inside_only_folder, one_of, splits_in

    from .sources import splits_of

    splits, around = splits_of(source).below_fields, ""
    if not splits:
        around, _, tops = inside_only_folder(list(dataset.keys))
        splits = splits_in(tops, ())
    folder = around + splits[one_of(source, "split", splits, split)][0]
    return dataset[[at for at, key in enumerate(dataset.keys) if key.startswith(f"{folder}/")]]


def _of_frames(dataset: Dataset, deltas: Mapping[str, Iterable[float]]) -> Dataset:
    """Return the view of a dataset of episodes whose samples are frames with their neighbours."""
    from bushel._dataset.read.windows import PAD
    from bushel._dataset.views.make_windows import frames_with_neighbours

    delta, rate = frames_with_neighbours(dataset.spec, dataset.shards, deltas)
    windows = dataset.windows(next(iter(deltas)), delta=delta, times=rate)
    # one frame is never outside
    padding = {name + PAD for name in delta.keys() - deltas.keys()}
    return windows.select_fields([name for name in windows.spec if name not in padding])


def _opened(
    found: Found, place: AnyPath | None, tables: Callable[[Found], list[OpenShard]]
) -> tuple[list[OpenShard], Remaining | None]:
    """Read the tables of the shards of a dataset, and note which samples are not removed."""
    if place is not None:
        from .tables import indexed_in

        found = replace(found, shards=indexed_in(found.shards, place), manifest=None)
    lacks_some, lists = may_lack_samples(found.shards), None
    for shard in found.shards[:1]:
        warn_of_lists_above(shard)
    if found.listed is not None:
        # lists of removed samples are requested of a store while the tables are loaded
        from bushel._dataset.read.listed import RequestedLists

        lists = RequestedLists(found.shards, found.listed)
    shards = tables(found)
    return shards, remaining_of(shards, lists) if lacks_some else None


def _refuse(on_damage: object, unknown: Mapping[str, object]) -> None:
    """Raise the error of an argument that `open` does not take."""
    if on_damage not in ("warn", "raise"):
        raise ValueError(f"on_damage must be 'warn' or 'raise', not {on_damage!r}")
    from inspect import signature

    check_names("open", unknown, list(signature(open).parameters)[:-1])


def _dataset_of_list(
    path: AnyPath, container: str | None, state: FolderState, verify: bool | None
) -> Dataset | None:
    """Return the dataset of a folder by the list of its shards; None without a list of this state of the folder."""
    from bushel._dataset.read.listed import open_listed

    if (listed := open_listed(path, container, state)) is None:
        return None
    warn_withheld(listed[0].fields, str(path))
    return Dataset((), reader=Reader(listed, verify=verify, remaining=remaining_of(listed)))


def _checked_shards(
    found: Found,
    options: ReadOptions,
    policy: IndexPolicy,
    features: Mapping[str, Feature],
    path: AnyPath,
    *,
    recover: bool,
    understood: bool,
) -> list[OpenShard]:
    """Open the shards, compare their fields and names of classes, and warn of damage, withheld codecs and odd files.

    If archives are `understood`, they are opened as the folders that they were made from.

    Raises:
        FormatError, SpecError: See `open_shards`, `check_declared`, `with_one_type` and
            `labels_of`.
    """
    listings = found.manifest, found.listed
    shards = open_shards(found.container, found.shards, options, policy, *listings, recover=recover)
    if options.spec is not None:
        check_declared(options.spec, [shard.index for shard in shards], str(path))
    if features:
        from bushel._dataset.read.shard_fields import described

        shards = [described(shard, features) for shard in shards]
    container = get_container(found.container)
    if len(shards) > 1:
        container.check_names(
            (str(shard.path(0)), [field.name for field in shard.fields])
            for shard in kinds(shards)
            if shard.samples
        )
    fields = dict.fromkeys(chain.from_iterable(shard.fields for shard in shards))
    if len(fields) > len({field.name for field in fields}):
        from bushel._dataset.read.shard_fields import with_one_type

        shards = with_one_type(shards)
    if any(shard.labels for shard in shards):
        labels_of(shards, union_of_fields(shards))  # raises if shards differ
    elif found.shards[1:] and not {*container.suffixes, *container.file_names}:
        from bushel._runtime.messages import log_warning

        log_warning(
            "%s: folders in a list are not classes, and may share keys: open the folder around them",
            path,
        )
    if any(shard.section for shard in shards):
        from bushel._dataset.read.shard_fields import warn_unread

        warn_unread(str(path), shards)
    if any(is_withheld(field.codec) for field in fields):
        warn_withheld(fields, str(path))
    if found.unlisted:
        from .as_listed import warn_unlisted

        warn_unlisted(path, found.unlisted)
    if damages := [shard.damage for shard in shards if shard.damage is not None]:
        from .damage import warn_damaged

        warn_damaged(damages)
    # a list has more than a thousand shards, whose tables are not looked at
    if understood and not isinstance(shards, Listing) and container.holds_files:
        from bushel._recognise.layout import has_media

        if has_media(frozenset(field.name for field in fields)):
            from .archives import as_folders

            shards = as_folders(shards, options.spec or ())
    return shards


def _saved(dataset: Dataset, name: str | None, *, allow_stale: bool) -> Dataset:
    if name is None:
        return dataset
    from bushel._dataset.views.saved_views import saved_view

    return saved_view(dataset, name, allow_stale=allow_stale)


def remaining_of(
    shards: Sequence[OpenShard], lists: RequestedLists | None = None
) -> Remaining | None:
    """Return the positions that remain after removals; None if no shard may lack samples."""
    if not may_lack_samples([shard.shard for shard in kinds(shards)]):
        return None
    from bushel._dataset.read.remaining import remaining_in

    return remaining_in(shards, None if lists is None else lists.of(shards))


def open_any(
    source: Any,
    *,
    container: str | None = None,
    verify: bool | None = None,
    pickle: bool = False,
    allow_commands: bool = False,
    on_damage: Literal["warn", "raise"] = "raise",
    view: str | None = None,
) -> Dataset | StreamDataset:
    """Open a source with `open_stream` if it can only be read forward and no view is asked for, else with `open`."""
    from .sources import is_stream

    if is_stream(source) and view is None:
        from bushel._dataset.views.stream import open_stream

        return open_stream(source, allow_commands=allow_commands)
    return open(
        source, container=container, verify=verify, pickle=pickle, on_damage=on_damage, view=view
    )

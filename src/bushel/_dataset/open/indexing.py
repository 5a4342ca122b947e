"""Index a dataset: `bushel.index`."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from bushel._dataset.read.key_file import has_old_key_file, write_key_file
from bushel._dataset.read.listed import write_manifest
from bushel._dataset.read.reader import Reader
from bushel._dataset.read.shard_fields import labels_beside
from bushel._dataset.read.shards import OpenShard, union_of_fields
from bushel._dataset.views.dataset import Dataset
from bushel._index.column_scan import ValueFiles
from bushel._index.contents import Contents, has_pyav
from bushel._index.names import Labels, labels_of_fields
from bushel._index.saving import save_index
from bushel._index.shard import Shard
from bushel._index.sidecar import find_manifest, spec_from_file
from bushel._index.table import opener
from bushel._index.table_cache import keep_table
from bushel._runtime.messages import log_warning
from bushel._runtime.parallel import map_each
from bushel._runtime.progress import OnProgress, Progress, ShowProgress, callback_of, user_call
from bushel._runtime.public import public
from bushel._runtime.tasks import AnyEngine
from bushel.containers import ReadOptions, get_container
from bushel.engines import connect
from bushel.errors import FormatError, SpecError, UnsupportedError
from bushel.storage import AnyLocation, AnyPath, AnySource, is_object, make_folder, sync_whole

from .archives import as_folders
from .binding import stamped, stamps_of
from .caller_fields import checked_spec
from .completeness import (
    above_parts,
    find_incomplete,
    listed_names,
    lists_all,
    lists_bags,
    manifest_path,
    marker_path,
)
from .discovery import find
from .locking import locked_sources
from .open import remaining_of
from .shards import Found, threads_for
from .sources import expand_paths, files_named, splits_of
from .tables import (
    accepted,
    build_table,
    cached_table,
    index_is_in_cache,
    index_place,
    indexed_in,
    lacks_checksums,
    stored_table,
)


@public()
@user_call("indexing")
def index(
    source: AnySource,
    *,
    container: str | None = None,
    spec: Mapping[str, str] | None = None,
    config: str | None = None,
    split: str | None = None,
    checksums: bool = True,
    segments: bool = False,
    frames: bool = False,
    seek: bool = False,
    columns: str | Iterable[str] = (),
    keys: bool = False,
    index: AnyLocation | None = None,
    force: bool = False,
    threads: int | None = None,
    pickle: bool = False,
    engine: AnyEngine | None = None,
    progress: ShowProgress = None,
) -> Dataset:
    """Index a dataset and store the index, beside it or at `index`: `.bushel/*.safetensors` and a manifest.

    Data of shards with an index that fits are not read, unless checksums are asked for and they
    have none. Recorded checksums are compared with the data of a shard that changed; data that
    differ are refused without `force`.

    Args:
        source: As for `open`.
        container: As for `open`.
        spec: As for `open`. It is stored in the index.
        config: As for `open`.
        split: As for `open`. Open the dataset with the same ones.
        checksums: Compute the CRC-32 of every field, which reads all data once. Later damage can
            then be detected.
        segments: Store the segments of tiled JPEGs (`bushel.jpeg.tile` makes these), so that
            `read_crop` reads only the ones that it needs. A segment takes 4 bytes, a photo of 500 x
            375 some 700 bytes. Reads all images once.
        frames: Store where the packets of video clips are, so that only packets of requested frames
            are read (docs/video.md). A packet takes 17 bytes. Reads all clips once, without
            decoding them; needs PyAV. Writers do it anyway if PyAV is installed.
        seek: Store seek tables of plain JPEGs, with which crops decode faster
            (docs/seek-tables.md). They take at most 1 % of the images' bytes. Reads and decodes all
            images once.
        columns: Columns to store beside those that are there (docs/columns.md): names such as
            `label`, `image.width` and `meta.camera.iso`, a list or a text with commas. `auto`
            stands for those that writers record. Reads the fields once.
        keys: Store the key file, by which `ds["key"]` of very many samples needs neither time nor
            memory (docs/index.md). It takes 12 bytes per key. A dataset that has one gets a new one
            whenever it has changed.
        index: A folder or URL in which to store the index instead of beside the data, which may be
            read-only. Open the dataset with the same `index=`. The shards must have different
            names. Without it, `BUSHEL_INDEX=cache` keeps the index in the user's cache, where
            opening finds it, unless there is one beside the data.
        force: Index every shard again, and accept bytes that differ from the recorded checksums.
        threads: Number of shards to index at once. Default: the CPUs that this process may use; 8
            for object stores.
        pickle: As for `open`.
        engine: Where shards are indexed: see `bushel.pack`. By default in threads of this process.
        progress: True for a bar in a terminal or notebook; or a function that is called with the
            number of finished shards, and the bytes of those whose data were read.

    Returns:
        The dataset.

    Raises:
        CorruptError: Bytes differ from the recorded checksums; the error names the first samples.
        FormatError: A shard is damaged, or lacks values whose checksums are recorded.
        SpecError: `frames`, or a column of clips, is wanted, and PyAV is not installed; or a field
            cannot have a column, or is declared as `jpg(url)`, say.
        UnsupportedError: `keys`, and the dataset is not in a local folder.
        KeyError: A column is of no field.
        InUseError: A writer is open for the dataset.
        OSError: The index cannot be written.

    Examples:
        >>> indexed = bushel.index("train/", columns="image.channels", keys=True)
        >>> indexed.columns
        ('image.width', 'image.height', 'label', 'image.channels')
    """
    if refused := {name: type_ for name, type_ in (spec or {}).items() if type_.endswith("(url)")}:
        raise SpecError(
            f"an index does not keep URLs: read them by bushel.open(…, spec={refused!r})"
        )
    paths = expand_paths(files_named(source, config, split))
    task = Indexing(
        container or "",
        ReadOptions(spec=checked_spec(spec), pickle=pickle, checksums=checksums),
        contents=Contents.given({"segments": segments, "frames": frames, "seek": seek}, columns),
        force=force,
    )
    place = None if index is None else index_place(index)
    if isinstance(place, Path):
        make_folder(place)
    if place is None and _goes_to_cache(paths, container):
        if keys:
            raise UnsupportedError(
                "keys=True writes a file beside the index, which BUSHEL_INDEX=cache "
                "keeps in your cache: name a folder for both with index="
            )
        task = replace(task, in_cache=True)
        locked = list[AnyPath]()
    else:
        locked = list(paths) if place is None else [place]
    try:
        with locked_sources(locked):
            return _index(
                paths,
                container,
                task,
                callback_of(progress),
                keys=keys,
                place=place,
                threads=threads,
                engine=engine,
            )
    except OSError as error:
        if place is None and error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
            error.add_note(
                "index= (--index) names another folder, or a "
                "URL, for the index of data that are read-only"
            )
        raise


def _index(
    paths: Sequence[AnyPath],
    container: str | None,
    task: Indexing,
    progress: OnProgress | None,
    *,
    keys: bool,
    place: AnyPath | None,
    threads: int | None,
    engine: AnyEngine | None,
) -> Dataset:
    found = find(paths, container)
    if place is not None:
        found = replace(found, shards=indexed_in(found.shards, place))
    name, files = found.container, found.shards
    listing = manifest_path(files)
    manifest = None if listing is None else find_manifest(listing)  # it is written again
    is_listed, one_of_bags = manifest is not None, lists_bags(manifest, files)
    if manifest is not None and not lists_all(manifest, name, files):
        manifest = None
    if manifest is not None:  # a wrong name is refused before anything is read
        task.contents.check_columns(spec_from_file(manifest.spec))
    incomplete = find_incomplete(paths, files)
    task = replace(task, container=name, labels=labels_beside(name, files, manifest))
    if is_object(files[0].root):
        _say_size(paths[0], found, again=task.options.checksums)
    finished = read = 0

    def count(rebuilt: Rebuilt) -> None:
        """Report the number of finished shards, and the bytes of those that were read."""
        nonlocal finished, read
        finished, read = finished + 1, read + rebuilt.bytes
        if progress is not None:
            progress(Progress(finished, len(files), "shards", bytes=read))

    if threads is None:
        threads = threads_for(files)
    rebuilt = map_each(
        partial(rebuilt_index, task),
        files,
        threads=threads,
        finished=count,
        engine=None if engine is None else connect(engine),
    )
    shards = [result.shard for result in rebuilt]
    root = above_parts(files) or files[0].root
    state = None if incomplete is None else find_manifest(marker_path(root, ""))
    # one is a folder, or of a store, rather than a file of a folder that may have others
    has_folder = any(not isinstance(path, Path) or path.is_dir() for path in paths)
    whole = not (task.in_cache or one_of_bags) and (
        place is not None or has_folder or (not is_listed and _is_whole_folder(found))
    )
    if state is not None and not state.complete:
        write_manifest(shards, marker_path(root, ""), others=state)
    elif whole or manifest is not None:
        write_manifest(shards, others=None if whole else manifest)
    if keys or (whole and has_old_key_file(shards)):
        write_key_file(
            shards, _counting(sum(shard.samples for shard in shards if shard.keyed), progress)
        )
    if container is None and get_container(name).holds_files:
        shards = as_folders(shards, task.options.spec or ())
    dataset = Dataset(
        (), reader=Reader(shards, incomplete=incomplete, remaining=remaining_of(shards))
    )
    task.contents.check_columns(union_of_fields(shards))
    return dataset


def _say_size(path: AnyPath, found: Found, *, again: bool) -> None:
    """Log how many bytes of a remote dataset are read to index it.

    Raises:
        UnsupportedError: Its index would be on an HTTP server or the Hub, which are only read.
    """
    sidecar = found.shards[0].sidecar
    if is_object(sidecar) and not sidecar.writable:
        raise UnsupportedError(
            f"{path}: Bushel does not write to this server: name a folder, "
            "or a URL, for the index with index= (--index)"
        )
    stamps = map_each(stamps_of, found.shards, threads=threads_for(found.shards))
    size = sum(stamp.size for files in stamps for stamp in files)
    more = ""
    if again and not get_container(found.container).promises_checksums:
        more = (
            ", and as many again for checksums, which `--no-checksums` (checksums=False) leaves out"
        )
    log_warning("%s: up to %s bytes are read to index it%s", path, f"{size:,}", more)


def _goes_to_cache(paths: Sequence[AnyPath], container: str | None) -> bool:
    """Return whether the index goes to the user's cache, as opening keeps it, since the data have none beside them."""
    if not index_is_in_cache() or any(map(is_object, paths)):
        return False
    return not any(shard.sidecar.exists() for shard in find(paths, container).shards)


def _is_whole_folder(found: Found) -> bool:
    """Return whether files that were named are all shards of the dataset in their folder, which has no splits."""
    root = found.shards[0].root
    if splits_of(str(root)).names:  # a manifest would join them
        return False
    try:
        folder = find([root])
    except (FormatError, OSError):
        return False
    return folder.container == found.container and set(listed_names(folder.shards)) == set(
        listed_names(found.shards)
    )


def _counting(total: int, progress: OnProgress | None) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda done: progress(Progress(done, total, "samples", samples=done))


class Indexing(Struct, frozen=True):
    """The wanted contents of the index of each shard."""

    container: str  # name of the container
    options: ReadOptions  # the user's declarations about the data, and whether checksums are wanted
    # the contents to find by reading values, beside the contents of the old table, which are found
    # again
    contents: Contents
    labels: Labels = field(default_factory=dict)  # names of classes for shards that have none
    # whether to index shards whose table fits, and to accept other checksums than the recorded ones
    force: bool = False
    in_cache: bool = False  # whether tables are kept in the user's cache, not beside the data


class Rebuilt(Struct, frozen=True):
    """A shard whose sidecar is as wanted."""

    shard: OpenShard  # the shard with its table
    # size of its files in bytes if data were read to make the table; 0 if the recorded table fits
    bytes: int


def rebuilt_index(wanted: Indexing, shard: Shard) -> Rebuilt:
    """Write the sidecar of a shard, unless it fits and has all wanted contents.

    Raises:
        CorruptError: Bytes have other checksums than the recorded ones, and `wanted.force` is not
            set.
        FormatError: The shard is damaged, or lacks values whose checksums are recorded.
        SpecError: Frames are wanted, there are clips, and PyAV is not installed.
        OSError: The sidecar cannot be written.
    """
    container, options, force = wanted.container, wanted.options, wanted.force
    if wanted.in_cache:
        table = cached_table(container, shard)
    else:
        table = stored_table(shard, check=True)
    recorded = index = None
    if table is not None:
        recorded = table.index
        if table.fits and not force and options.spec is None:
            index = recorded
    if index is None or lacks_checksums(index, options):
        index = build_table(container, shard, options, table)
        if table is not None and table.index.has_checksums and not force:
            index = accepted(table, index, shard, options.spec or ())
    read = index is not recorded
    if index.container != container:  # a forged table
        index = replace(index, container=container)
    if wanted.labels and not index.labels:
        index = replace(index, labels=labels_of_fields(wanted.labels, index.fields))
    before = index
    again = Contents() if recorded is None else Contents.of(recorded)
    with_files = index.shard_with_files(shard)
    values = ValueFiles(opener(index, shard))
    frames = "frames" in wanted.contents.scans or ("frames" in again.scans and has_pyav())
    index = (again | wanted.contents).add_to(index, values, frames=frames)
    read = read or index is not before
    if wanted.in_cache:
        if index is not recorded and not keep_table(index, shard):
            raise FormatError(
                "the index is too large for the cache of tables",
                shard.path(0),
                hint="raise BUSHEL_TABLES_SIZE, or name a folder with index=",
            )
    else:
        files = stamped(index.files, with_files)
        if table is None or index is not recorded or list(files) != list(table.recorded):
            index = replace(index, files=files)
            save_index(index, shard.sidecar)
        else:  # written by another process perhaps, which was killed before the name was on disk
            sync_whole(shard.sidecar)
    opened = OpenShard.of(container, shard, index, stored=not wanted.in_cache)
    return Rebuilt(opened, sum(file.size for file in index.files) if read else 0)

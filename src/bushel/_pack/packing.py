"""Pack any source into any container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from bushel._runtime.order import Shuffle
from bushel._runtime.progress import ShowProgress, callback_of, user_call
from bushel._runtime.public import public
from bushel._runtime.tasks import AnyEngine
from bushel._writer.target import Mode
from bushel.sources.opening import AnyData, files_asked
from bushel.storage import AnyLocation, as_path

from .pack_job import PackResult, write_dataset
from .prepared import Images, PackOptions, Part

if TYPE_CHECKING:  # packing without transforms imports none
    from bushel.transforms.by_field import Transforms


@public()
@user_call("packing")
def pack(
    source: AnyData,
    target: AnyLocation,
    *,
    container: str | None = None,
    split: str | None = None,
    fields: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    transforms: Transforms | None = None,
    images: Images = None,
    keys: bool | Callable[[str], str] | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    parts: int | None = None,
    part: Part = None,
    max_errors: float | None = 0,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["A", "B", "C"] | None = None,
    labels: Mapping[str, Sequence[str]] | None = None,
    mode: Mode = "create",
    threads: int | None = None,
    processes: int = 0,
    sync: bool = True,
    seek: bool | None = None,
    columns: str | Iterable[str] | None = None,
    forget_removed: bool = False,
    engine: AnyEngine | None = None,
    progress: ShowProgress = None,
) -> PackResult:
    """Pack samples into a dataset.

    Threads (or, with `processes`, worker processes) fetch, transform and encode samples, and one
    writer stores them in order, so the files do not depend on the number of threads. The bytes of
    an unchanged image are stored as they are. At most 64 MiB of encoded samples wait for the
    writer, in addition to one batch per thread or process.

    Args:
        source: A folder of images or videos, a `.lst`, `.csv`, `.json`, `.npz` or `.npy` file, a
            dataset, arrays, dicts, a dataset of torch or Lance, a frame of pandas, a table of Arrow,
            or any source: see `bushel.sources`.
        target: See `bushel.Writer`.
        container: See `bushel.Writer`.
        split: Name of the split of a folder of splits, such as `train/` and `val/`, or of a dataset
            of the Hub; `all` joins the splits of a folder.
        fields: Names of the fields of a dataset to keep; all by default.
        rename: Old to new names of fields of a dataset, for containers that cannot hold the old
            ones.
        spec: Field to type, to change the types of the source: `{"image": "jpg"}` encodes a folder
            of PNGs as JPEGs. For a dataset see `bushel.convert`.
        transforms: One transform or a list of transforms for the only image field, or a mapping of
            field names to either. A transform is called as `fn(value)`, or `fn(value, rng=...)` if
            it has a parameter of that name. For a sequence field it is called with each element. If
            the last one returns bytes, they are stored.
        images: Treatment of images whose bytes would be stored as they are: a name, or a list of
            names. `check` decodes every image, so that damaged ones count as errors; by default
            only the first bytes are looked at. `upright` rotates and mirrors images by their Exif
            orientation, before the transforms; an image that is not upright is encoded again,
            without Exif. `baseline` rewrites progressive JPEGs, and keeps metadata: see
            `bushel.jpeg.baseline`. `tile` stores JPEGs as tiled JPEGs, whose crops decode faster,
            and drops metadata: see `bushel.jpeg.tile`. Both keep the pixels, damaged JPEGs count as
            errors, and images that need no change keep their bytes.
        keys: Whether samples keep their keys; by default they do. With True, samples of a dataset
            without keys get their position as text. A function maps every key to the stored key,
            for containers that cannot hold the original one. It is called once for every sample of
            a dataset, in order, including those that `resume` skips; with `parts`, in any order.
        shuffle: Order of the samples: False or None for the order of the source, True or `"exact"`
            for a random permutation, `"blocks"`, or an order object.
        seed: Seed of the order and of the randomness in transforms.
        parts: Write the samples, divided by position, in this many parts of nearly equal size:
            `part-00000`, …, in the folder `target`, which `bushel.open` reads as one dataset, or
            `train-part-00000.rec` for `train.rec`. The same call again, here or on another machine,
            joins the run and writes only parts that are missing (docs/scale-out.md). By default one
            dataset, or, with `engine`, a part for every 1000 items, or for every shard of a
            dataset.
        part: Write only this part, counted from 0; `bushel finish` joins the parts when all are
            written. Or `plan`, to write only the plan of the run: the parts can then be started at
            the same time, without each of them listing the source.
        max_errors: Number of items that may fail in the whole call: an int, a share of all items
            between 0 and 1 (float), or None for any number. A bad item is listed in
            `TARGET.errors.jsonl` and skipped.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        generation: See `bushel.Writer`; also `A` for a bag.
        labels: Names of classes in the order of their numbers, by field:
            `{"label": ["cat", "dog"]}`. By default those that the source has. A folder or table of
            classes gets these numbers, and others follow; so do numbers that the source names
            otherwise. A value may be the name of its class.
        mode: `create`; `append` adds all samples of the source to a dataset; `resume` continues an
            interrupted run with the same arguments after its last finished shard (one file: from
            the beginning), and the files are the same as without the interruption; `overwrite`
            replaces a dataset once the new one is complete.
        threads: Number of threads; by default the number of CPUs that this process may use. With
            `engine`, threads of each part; by default 1.
        processes: Number of worker processes that replace the threads, for sources and transforms
            in pure Python.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`. By default, seek tables are made if the source is a dataset that
            has some.
        columns: See `bushel.Writer`. By default the usual ones, and the columns of a source that is
            a dataset.
        forget_removed: See `bushel.Writer`.
        engine: Where parts are written: `"local"` for processes of this machine, `"ray"`, `"dask"`,
            an address, a client, or an engine of your own (docs/scale-out.md). A part whose worker
            died, or that the system failed, is tried again up to three times. By default this
            process writes the parts one by one.
        progress: True for a bar in a terminal or notebook; or a function that is called with a
            `bushel.runs.Progress` some times per second.

    Returns:
        A summary: samples, errors, bytes, and the spec that was written.

    Raises:
        TooManyErrors: More than `max_errors` items failed. The finished shards before are an
            incomplete dataset.
        SpecError: The container cannot hold these samples; the message names the reason, and the
            containers that can. Or the source has several splits, and none is named.
        StateError: The run to resume or to join had other arguments, or the labels differ from the
            dataset's.
        FileExistsError: The target is the source, or one of them is in the other; or see
            `bushel.Writer`.
        FileNotFoundError: See `bushel.Writer`.

    Examples:
        >>> from bushel.transforms import Resize
        >>> done = bushel.pack("photos/", "small/", container="tar", transforms=[Resize(32)])
        >>> done.samples, done.spec
        (12, {'image': 'jpg', 'label': 'int'})
    """
    options = PackOptions.of(locals())
    return write_dataset(
        files_asked(source, split), as_path(target), options, callback_of(progress)
    )


@public()
@user_call("converting")
def convert(
    source: AnyData,
    target: AnyLocation,
    *,
    container: str | None = None,
    split: str | None = None,
    fields: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    transforms: Transforms | None = None,
    images: Images = None,
    keys: bool | Callable[[str], str] | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    parts: int | None = None,
    part: Part = None,
    max_errors: float | None = 0,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["A", "B", "C"] | None = None,
    mode: Mode = "create",
    threads: int | None = None,
    processes: int = 0,
    sync: bool = True,
    seek: bool | None = None,
    columns: str | Iterable[str] | None = None,
    forget_removed: bool = False,
    engine: AnyEngine | None = None,
    progress: ShowProgress = None,
) -> PackResult:
    """Write a dataset in another container, or with other fields, types or shards: `bushel.pack` of a dataset.

    Samples keep their order and their keys. Bytes that both containers store alike are copied
    unchanged (a JPEG stays that JPEG); others are decoded and encoded again (an integer is text in
    a tar and binary in a bag). The files do not depend on the number of threads.

    Names of classes are kept (`Dataset.labels`). A dataset that is appended to keeps its numbers:
    classes are found by their names, new ones follow, and numbers that differ are mapped.

    Memory is bounded by the number of threads times 16 MiB, or times the largest samples where
    these are larger.

    Args:
        source: A path or anything else that `bushel.open` or `bushel.open_stream` takes, read with
            `verify=True`; or a dataset, a view of one, such as `ds.map(...)`, or a stream.
        target: See `bushel.Writer`. With `mode="overwrite"` and without parts it may be the source,
            which is replaced once the new dataset is complete.
        container: See `bushel.Writer`. Can be left out if the suffix of `target` implies it.
        split: See `bushel.pack`.
        fields: Names of the fields to keep; all by default.
        rename: Old to new names of fields, for containers that cannot hold the old ones.
        spec: New types of fields, by their names in the source: `{"label": "int"}`. The bytes of a
            field whose type in the source is `bytes` are taken to be of the new type; values of
            other fields are converted. A sequence with one element in each sample can become a
            plain field.
        transforms: See `bushel.pack`; by names of fields in the target.
        images: Treatment of images whose bytes are copied: see `bushel.pack`. By default they are
            not even looked at.
        keys: Whether samples get keys; by default, if they have keys or the container needs them.
            With True, samples without keys get their position as text. A function maps every key to
            the stored key, for containers that cannot hold the original one. For a dataset it is
            called once for every sample, in order, including those that `resume` skips; with
            `parts`, in any order.
        shuffle: Order of the samples in the target: see `bushel.pack`.
        seed: Seed of the order and of the randomness in transforms.
        max_errors: Number of samples that may fail: see `bushel.pack`. With 0, the first error is
            raised unchanged.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        generation: See `bushel.Writer`; also `A` for a bag.
        mode: See `bushel.Writer`. `resume` continues an interrupted conversion with the same
            arguments.
        parts: Write the samples in this many parts, which are one dataset: see `bushel.pack`. By
            default one dataset, or, with `engine`, as many parts as the source has shards.
        part: Write only this part, counted from 0, or only the `plan` of the run.
        threads: Number of threads that read and encode; by default the number of CPUs that this
            process may use. With `engine`, threads of each part; by default 1.
        processes: Number of worker processes that replace the threads, for transforms in pure
            Python.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`. By default, seek tables are made if the source has some.
        columns: See `bushel.Writer`. By default the columns of the source, and the usual ones.
        forget_removed: See `bushel.Writer`.
        engine: See `bushel.pack`.
        progress: True for a bar in a terminal or notebook; or a function that is called with a
            `bushel.runs.Progress` some times per second.

    Returns:
        A summary: samples, bytes, and the spec that was written.

    Raises:
        TooManyErrors: More than `max_errors` samples failed, where that is not 0.
        SpecError: The target cannot hold these samples; the message names the reason, and the
            containers that can. Or a class number must be mapped and has no name.
        CodecError: A value cannot be decoded, or cannot be encoded as the target stores it; with
            `images`, an image is damaged.
        CorruptError: Stored bytes do not match their CRC.
        KeyError: The field does not exist.
        FileExistsError: The target is the source, or one of them is in the other; or see
            `bushel.Writer`.
        FileNotFoundError, StateError: See `bushel.Writer`.

    Examples:
        >>> done = bushel.convert("train/", "train.rec", container="recordio")
        >>> done.samples, done.spec
        (12, {'image': 'jpg', 'label': 'int'})
    """
    options = PackOptions.of(locals(), kind="dataset", strict=max_errors == 0)
    return write_dataset(
        files_asked(source, split), as_path(target), options, callback_of(progress)
    )

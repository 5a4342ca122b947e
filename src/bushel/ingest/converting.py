"""Convert datasets from one container to another, as one dataset or in parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from bushel._dataset.dataset import Dataset
from bushel._dataset.stream import StreamDataset
from bushel._runtime.progress import ShowProgress, callback_of, shows_progress
from bushel._runtime.public import names_near, public
from bushel._runtime.shuffle import Shuffle
from bushel._writer.options import Mode
from bushel.ingest.images import Jpeg
from bushel.ingest.pack_options import PackOptions
from bushel.ingest.prepared_source import DatasetAt
from bushel.ingest.write_dataset import PackResult, write_dataset
from bushel.storage import AnyPath, as_path
from bushel.transforms.by_field import Transforms

__all__ = ["convert"]


@public()
@shows_progress("converting")
@names_near
def convert(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    container: str | None = None,
    fields: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    transforms: Transforms | None = None,
    jpeg: Jpeg = None,
    keys: bool | Callable[[str], str] | None = None,
    shuffle: Shuffle = False,
    seed: int = 0,
    parts: int | None = None,
    part: int | None = None,
    plan_only: bool = False,
    max_errors: float | None = 0,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["A", "B", "C"] | None = None,
    mode: Mode = "create",
    workers: int | None = None,
    processes: int = 0,
    sync: bool = True,
    seek: bool | None = None,
    columns: str | Iterable[str] | None = None,
    engine: Any = None,
    retries: int = 3,
    speculate: float = 3.0,
    progress: ShowProgress = None,
) -> PackResult:
    """Write a dataset in another container, or with other fields, types or shards: `bushel.pack` of a dataset.

    Samples keep their order and their keys. Bytes that both containers store alike are copied unchanged (a JPEG stays
    that JPEG); others are decoded and encoded again (an integer is text in a tar and binary in a bag). The files do not
    depend on the number of workers.

    Names of classes are kept (`Dataset.labels`). A dataset that is appended to keeps its numbers: classes are found by
    their names, new ones follow, and numbers that differ are mapped.

    Memory is bounded by the number of workers times 16 MiB, or times the largest samples where these are larger.

    Args:
        source: A path or anything else that `bushel.open` or `bushel.open_stream` takes, read with `verify=True`; or a
            dataset, a view of one, or a stream.
        target: See `bushel.Writer`. With `mode="overwrite"` and without parts it may be the source, which is replaced
            once the new dataset is complete.
        container: See `bushel.Writer`. Can be left out if the suffix of `target` implies it.
        fields: Names of the fields to keep; all by default.
        rename: Old to new names of fields, for containers that cannot hold the old ones.
        spec: New types of fields, by their names in the source: `{"label": "int"}`. The bytes of a field whose type in
            the source is `bytes` are taken to be of the new type; values of other fields are converted. A sequence with
            one element in each sample can become a plain field.
        transforms: See `bushel.pack`; by names of fields in the target.
        jpeg: `tile` stores JPEGs as tiled JPEGs, `baseline` rewrites progressive JPEGs: see `bushel.pack`.
        keys: Whether samples get keys; by default, if they have keys or the container needs them. With True, samples
            without keys get their position as text. A function maps every key to the stored key, for containers that
            cannot hold the original one. For a dataset it is called once for every sample, in order, including those
            that `resume` skips; with `parts`, in any order.
        shuffle: Order of the samples in the target: see `bushel.pack`.
        seed: Seed of the order and of the randomness in transforms.
        max_errors: Number of samples that may fail: see `bushel.pack`. With 0, the first error is raised unchanged.
        shard_samples: See `bushel.Writer`.
        shard_bytes: See `bushel.Writer`.
        generation: See `bushel.Writer`; also `A` for a bag.
        mode: See `bushel.Writer`. `resume` continues an interrupted conversion with the same arguments.
        parts: Write the samples in this many parts, which are one dataset: see `bushel.pack`. By default one dataset,
            or, with `engine`, as many parts as the source has shards.
        part: Write only this part, counted from 0.
        plan_only: Write only the plan of the run, with `parts`.
        workers: Number of threads that read and encode; by default the number of CPUs that this process may use. With
            `engine`, threads of each part; by default 1.
        processes: Number of worker processes that replace the threads, for transforms in pure Python.
        sync: See `bushel.Writer`.
        seek: See `bushel.Writer`. By default, seek tables are made if the source has some.
        columns: See `bushel.Writer`. By default the columns of the source, and the usual ones.
        engine: See `bushel.pack`.
        retries: See `bushel.pack`.
        speculate: See `bushel.pack`.
        progress: True for a bar in a terminal or notebook; or a function that is called with a `bushel.Progress` some
            times per second.

    Returns:
        A summary: samples, bytes, and the spec that was written.

    Raises:
        TooManyErrors: More than `max_errors` samples failed, where that is not 0.
        SpecError: The target cannot hold these samples; the message names the reason, and the containers that can. Or a
            class number must be mapped and has no name.
        CodecError: A value cannot be decoded, or cannot be encoded as the target stores it; with `jpeg`, a JPEG is
            damaged.
        CorruptError: Stored bytes do not match their CRC.
        KeyError: The field does not exist.
        FileExistsError: The target is the source, or one of them is in the other; or see `bushel.Writer`.
        FileNotFoundError, StateError: See `bushel.Writer`.

    Examples:
        >>> done = bushel.convert("train/", "train.rec", container="recordio")
        >>> done.samples, done.spec
        (12, {'image': 'jpg', 'label': 'int'})
    """
    options = PackOptions.of(locals(), strict=max_errors == 0)
    opened = source if isinstance(source, Dataset | StreamDataset) else DatasetAt(source)
    return write_dataset(opened, as_path(target), options, callback_of(progress))

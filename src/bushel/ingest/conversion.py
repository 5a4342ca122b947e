"""Converting datasets from container to container."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bushel.codecs import get_codec
from bushel.containers import Container, container_for, get_container
from bushel.containers.base import Layout, WriteOptions
from bushel.core.dataset.dataset import Dataset
from bushel.core.dataset.open import open_any
from bushel.core.dataset.stream import StreamDataset
from bushel.core.parallel import parallel_map
from bushel.core.writer.writer import Mode, Writer
from bushel.errors import CodecError, StateError
from bushel.ingest.batches import Batch, Batches, DatasetBatches, StreamBatches
from bushel.ingest.routes import Route, encode_value, holders, plan_routes, target_fields
from bushel.ingest.tiling import Jpeg, fields_to_tile, tile_values
from bushel.spec import KEY, Field, format_spec
from bushel.storage import AnyPath, as_path

__all__ = ["Conversion", "convert"]


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion did.

    Attributes:
        container: Name of the target's container.
        samples: Samples written.
        kept: Samples that were there before: with `mode="resume"` of this source, with `mode="append"` others.
        bytes: Stored bytes of the fields written.
        seconds: Time taken.
        spec: Field names to types of the target.
        limits: What of the samples the target does not keep, in words.
    """

    container: str
    samples: int
    kept: int
    bytes: int
    seconds: float
    spec: dict[str, str]
    limits: tuple[str, ...]


def convert(
    source: Any,
    target: str | os.PathLike[str] | AnyPath,
    *,
    container: str | None = None,
    fields: Iterable[str] | None = None,
    rename: Mapping[str, str] | None = None,
    spec: Mapping[str, str] | None = None,
    jpeg: Jpeg = None,
    keys: bool | Callable[[str], str] | None = None,
    shard_samples: int | None = None,
    shard_bytes: int | str | None = None,
    generation: Literal["A", "B", "C"] | None = None,
    mode: Mode = "create",
    workers: int = 2,
    sync: bool = True,
    report: Callable[[int, int | None], None] | None = None,
) -> Conversion:
    """Write a dataset again, in another container or in another shape.

    Samples keep their order and their keys. Bytes that both containers store alike are copied as they are (a JPEG
    stays that JPEG); others are decoded and encoded anew (an integer is text in a tar and binary in a bag). The result
    is the same for any number of workers.

    A killed conversion goes on with `mode="resume"` and the same arguments. Memory is bounded by the number of workers
    times 16 MiB, or the largest samples where these are larger.

    Args:
        source: What `bushel.open` or `bushel.open_stream` takes, read with `verify=True`; or a dataset, a view of one,
            or a stream.
        target: As for `bushel.Writer`.
        container: As for `bushel.Writer`; can be left out where the suffix of `target` tells.
        fields: Names of the fields to keep; all by default.
        rename: New names of fields, for containers that cannot hold the old ones.
        spec: New types of fields, by their names in the source: `{"label": "int"}`. A field that the source only
            knows as `bytes` is taken to be of that type; values of others are converted. A sequence of one element
            each can become a plain field.
        jpeg: `tile` stores JPEGs as tiled ones, so that crops of them decode faster. Pixels stay, metadata goes: see
            `bushel.jpeg.tile`. What is tiled already keeps its bytes.
        keys: Whether samples get keys: by default if they have some or the container needs them. With True, samples
            without keys get their position as text. A function gives every key a new form, for containers that cannot
            hold the old one; it is called once for every sample of a dataset, in order, with those that are skipped.
        shard_samples: As for `bushel.Writer`.
        shard_bytes: As for `bushel.Writer`.
        generation: As for `bushel.Writer`.
        mode: As for `bushel.Writer`; `resume` skips as many samples of the source as the target has.
        workers: Threads that read and encode ahead of the one that writes.
        sync: As for `bushel.Writer`.
        report: Called after every batch with the number of samples done, and that of all (None for a stream).

    Raises:
        SpecError: The target cannot hold these samples; says why, and which containers can.
        CodecError: A value does not decode, or does not encode as what the target stores; with `jpeg`, a JPEG is
            damaged.
        CorruptError: Stored bytes do not match their CRC.
        KeyError: There is no such field.
        FileExistsError, FileNotFoundError, StateError: As `bushel.Writer`.
    """
    started = time.monotonic()
    if workers < 1:
        raise ValueError(f"workers is at least 1, not {workers}")
    kind = get_container(container) if container is not None else container_for(as_path(target).name)
    opened = source if isinstance(source, Dataset | StreamDataset) else open_any(source, verify=True)
    reading = StreamBatches(opened) if isinstance(opened, StreamDataset) else DatasetBatches(opened, workers)
    targets = target_fields(reading.fields, kind.name, fields=fields, rename=rename or {}, spec=spec or {})
    keyed = reading.keyed if keys is None else bool(keys)
    change = keys if callable(keys) else str
    layout = _layout(kind, targets, keyed=keyed, generation=generation)
    routes = plan_routes(reading.fields, reading.codecs, targets, layout.columns)
    tiled = fields_to_tile(jpeg, {route.target.name: route.codec for route in routes})
    if not layout.sparse:
        reading.refuse_missing(list(targets), _advice(kind, targets, keyed=keyed))
    folders = reading.folders if kind.keeps_folders and keyed and change is str and not layout.sparse else None
    written = size = 0
    with Writer(
        target,
        format_spec({field.name: field for field in targets.values()}),
        container=kind.name,
        mode=mode,
        shard_samples=shard_samples,
        shard_bytes=shard_bytes,
        generation=generation,
        expected=reading.samples,
        folders=folders,
        sync=sync,
    ) as writer:
        kept = len(writer)
        skipped = kept if mode == "resume" else 0
        if reading.samples is not None and skipped > reading.samples:
            raise StateError(f"{target} has {skipped} samples, and the source only {reading.samples}")

        if callable(keys) and isinstance(opened, Dataset):
            for key in itertools.islice(opened.keys, skipped):
                keys(key)

        def prepare(batch: range) -> list[tuple[str, dict[str, Any]]]:
            return _transcode(reading, routes, tiled, reading.load(batch, list(targets)))

        ahead = parallel_map(prepare, reading.batches(list(targets), skipped), workers=reading.workers)
        for batch in ahead:
            for key, values in batch:
                writer.append(values, key=change(key) if keyed else None)
                size += _size(values)
            written += len(batch)
            if report is not None:
                report(skipped + written, reading.samples)
            if not batch:
                ahead.close()
        limits = layout.limits
    if reading.keyed and not keyed:
        limits += ("keys are left out",)
    if reading.folders and folders is None:
        limits += (f"{len(reading.folders)} empty folders are left out",)
    return Conversion(kind.name, written, kept, size, time.monotonic() - started, writer.spec, limits)


def _layout(kind: Container, targets: Mapping[str, Field], *, keyed: bool, generation: str | None) -> Layout:
    spec = {field.name: field for field in targets.values()}
    for field in spec.values():
        get_codec(field.codec)
    return kind.layout(spec, WriteOptions(keyed=keyed or kind.needs_keys, generation=generation))


def _advice(kind: Container, targets: Mapping[str, Field], *, keyed: bool) -> str:
    able = ", ".join(holders({field.name: field for field in targets.values()}, keyed=keyed, sparse=True))
    other = f", or write to one of {able}, which allow that" if able else ""
    return f"a {kind.name} needs every field in every sample. Leave this field out{other}"


def _transcode(
    source: Batches, routes: list[Route], tiled: frozenset[str], batch: Batch
) -> list[tuple[str, dict[str, Any]]]:
    """The keys of a batch, and what the target stores for each sample."""
    ready = []
    for position, sample in batch:
        key = sample[KEY]
        values = {}
        for route in routes:
            name = route.source.name
            if name in sample:
                stored = sample[name]
                decoded = None if route.copied else _decode(source, route, position, key, stored)
                values[route.target.name] = encode_value(route, key, stored, decoded)
        ready.append((key, _with_tiles(key, values, tiled) if tiled else values))
    return ready


def _with_tiles(key: str, values: dict[str, Any], tiled: frozenset[str]) -> dict[str, Any]:
    try:
        return tile_values(values, tiled)
    except CodecError as error:
        advice = "bushel.pack(source, target, jpeg='tile', max_errors=...) passes over such samples"
        raise CodecError(f"sample {key!r}, {error}. {advice}", **error.details) from error


def _decode(source: Batches, route: Route, position: int, key: str, stored: Any) -> Any:
    name = route.source.name
    if route.known_as is None:
        return source.decode(position, key, name, stored)
    decode = get_codec(route.known_as).decode
    try:
        return [decode(element) for element in stored] if isinstance(stored, list) else decode(stored)
    except CodecError as error:
        raise CodecError(f"sample {key!r}, field {name!r}: {error}", **{**error.details, "field": name}) from error


def _size(values: Mapping[str, Any]) -> int:
    return sum(sum(map(len, value)) if isinstance(value, list) else len(value) for value in values.values())

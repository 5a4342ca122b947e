"""Hugging Face datasets: `bushel.to_hf`.

Nothing is needed the other way: `bushel.open` reads the Parquet and Arrow files of `datasets`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._index.names import holds_numbers, numbers_classes
from bushel._runtime.arrays import chunks
from bushel._runtime.public import public
from bushel.codecs.registry import holds_clip, holds_image, holds_media, holds_sound, keeps_bytes
from bushel.errors import SpecError, needed_by
from bushel.spec import KEY, Field, parse_spec

if TYPE_CHECKING:
    import datasets

__all__ = ["to_hf"]

_VALUES = {
    "utf8": "string",
    "json": "string",
    "bytes": "binary",
    "float": "float64",
    "f32": "float32",
    "float-text": "float64",
    "uint": "uint64",
    "u64": "uint64",
}
_CHUNK = 64  # samples that are read at once
# largest number of parts of a stream, between which `datasets` distributes ranks and workers
_PARTS = 1024


@overload
def to_hf(dataset: Dataset, *, streaming: Literal[False] = False) -> datasets.Dataset: ...
@overload
def to_hf(dataset: Dataset, *, streaming: Literal[True]) -> datasets.IterableDataset: ...


@public()
def to_hf(
    dataset: Dataset, *, streaming: bool = False
) -> datasets.Dataset | datasets.IterableDataset:
    """Return a dataset of Hugging Face `datasets` with the same samples.

    Images, clips and sounds keep their stored bytes (`Image`, `Video`, `Audio`), numbers with names
    of classes become a `ClassLabel`, JSON becomes text, arrays become lists, and keys are the
    column `__key__`. `datasets` needs torchcodec to decode sounds, and to iterate over a stream of
    them.

    Args:
        dataset: The dataset or view.
        streaming: Return an `IterableDataset`, which reads the samples when they are needed. By
            default all of them are written once to the Arrow cache of `datasets`; the next call
            with the same data uses that. Data without checksums are the same only if the times of
            their files are, too: `bushel index` records checksums.

    Raises:
        MissingPackageError: `datasets` is not installed.
        SpecError: A field holds values that `datasets` cannot hold, such as pickled objects.

    Examples:
        >>> table = bushel.to_hf(ds)
        >>> table.features["label"].names
        ['cat', 'dog']
    """
    with needed_by("to_hf", "bushel[hf]"):
        import datasets

    features = _features(dataset)
    if streaming:
        parts = max(1, min(_PARTS, len(dataset) // _CHUNK))
        views = [dataset.shard(number, parts) for number in range(parts)]
        converted = datasets.IterableDataset.from_generator(
            _samples, features=features, gen_kwargs={"parts": views}
        )
    else:
        converted = datasets.Dataset.from_generator(
            _samples,
            features=features,
            gen_kwargs={"parts": [dataset]},
            fingerprint=_cache_key(dataset),
        )
    for name, field in parse_spec(dataset.spec).items():
        # as `Audio`, the generator's samples could only be written with torchcodec
        if holds_sound(field.codec):
            sound = datasets.Audio()
            converted = converted.cast_column(
                name, datasets.List(sound) if field.sequence else sound
            )
    return converted


def _cache_key(dataset: Dataset) -> str:
    """Return the name of a dataset in the cache of `datasets`.

    Without checksums, other values of the same lengths may have the same fingerprint, so the names
    and times of the files enter, too.
    """
    if all(shard.checksums for shard in dataset.shards):
        return dataset.fingerprint
    import hashlib  # which imports OpenSSL

    digest = hashlib.sha256(dataset.fingerprint.encode())
    for shard in dataset.shards:
        times = [(stamp.name, stamp.size, stamp.mtime_ns) for stamp in shard.stamps]
        digest.update(repr((str(shard.shard.root), times)).encode())
    return digest.hexdigest()[:32]


def _features(dataset: Dataset) -> datasets.Features:
    import datasets

    labels = dataset.labels
    columns: dict[str, Any] = {}
    if dataset.info.keyed:
        columns[KEY] = datasets.Value("string")
    first = dataset[0] if len(dataset) else {}
    for name, field in parse_spec(dataset.spec).items():
        if name in labels and holds_numbers({name: field}, name):
            columns[name] = datasets.ClassLabel(names=list(labels[name]))
        elif (
            name in labels
            and numbers_classes({name: field}, name)
            and np.ndim(first.get(name, 0)) == 1
        ):
            columns[name] = datasets.List(datasets.ClassLabel(names=list(labels[name])))
        else:
            columns[name] = _feature(field, first.get(name))
        if field.sequence:
            columns[name] = datasets.List(columns[name])
    return datasets.Features(columns)


def _feature(field: Field, example: Any) -> Any:
    """Return the feature of a field's values, given one of them or None."""
    import datasets

    codec = field.base_codec
    if holds_image(codec):
        return datasets.Image()
    if holds_clip(codec):
        return datasets.Video()
    if holds_sound(codec):
        return {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}
    if codec in _VALUES:
        return datasets.Value(_VALUES[codec])
    if holds_numbers({field.name: field}, field.name):
        return datasets.Value("int64")
    if codec == "recordio-label":
        return datasets.List(datasets.Value("float32"))
    if field.sequence and example is not None:
        example = next(iter(example), None)
    if getattr(example, "dtype", None) is None:
        raise SpecError(
            f"field {field.name!r} has the type {field.type!r}, which Hugging Face "
            "datasets cannot hold; leave it out: to_hf(ds.select_fields([...]))"
        )
    feature = datasets.Value(str(example.dtype))
    for _ in range(example.ndim):
        feature = datasets.List(feature)
    return feature


def _samples(parts: Sequence[Dataset]) -> Iterator[dict[str, Any]]:
    """Yield the samples of some views as `datasets` stores them."""
    for dataset in parts:
        fields = parse_spec(dataset.spec)
        undecoded = [name for name, field in fields.items() if keeps_bytes(field.codec)]
        keyed = dataset.info.keyed
        for positions in chunks(range(len(dataset)), _CHUNK):
            stored = dataset.read(positions, decode=False)
            plain = [
                {name: value for name, value in sample.items() if name not in undecoded}
                for sample in stored
            ]
            decoded = dataset.decode_samples(plain, positions)
            for sample, values in zip(stored, decoded, strict=True):
                sample |= values
                row = {name: _value(field, sample.get(name)) for name, field in fields.items()}
                yield {KEY: sample[KEY], **row} if keyed else row


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.sequence:
        return [_one(field.codec, element) for element in value]
    return _one(field.codec, value)


def _one(codec: str, value: Any) -> Any:
    if holds_media(codec):
        return {"bytes": bytes(value), "path": None}
    if codec == "json":
        return json.dumps(value)
    if isinstance(value, memoryview):
        return bytes(value)
    return value

"""Hugging Face datasets: `bushel.to_hf` and `bushel.from_hf`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._index.class_names import holds_numbers, numbers_classes
from bushel._runtime.public import public
from bushel.codecs.registry import holds_clip, holds_image, holds_sound, keeps_bytes
from bushel.errors import SpecError, needed_by
from bushel.sources.base import Sample
from bushel.sources.samples import Stream, infer_spec
from bushel.spec import KEY, Field, parse_spec

if TYPE_CHECKING:
    import datasets

__all__ = ["HuggingFaceSource", "from_hf", "to_hf"]

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


@public()
def from_hf(
    dataset: datasets.Dataset | datasets.IterableDataset, *, spec: Mapping[str, str] | None = None
) -> HuggingFaceSource | Stream:
    """Return a source for `bushel.pack` with the samples of a dataset of Hugging Face `datasets`.

        bushel.pack(bushel.from_hf(datasets.load_dataset("org/name", split="train")), "out/",
        container="tar")

    The stored bytes of images, clips and sounds are packed as they are. Names of a `ClassLabel`
    become names of classes of the packed dataset, a column `__key__` becomes the keys, and values
    that are missing are left out.

    Args:
        dataset: A dataset, not a dict of splits. An `IterableDataset` is packed in order and in one
            part.
        spec: Field names to types; by default they come from the features and the first sample.

    Raises:
        MissingPackageError: `datasets` is not installed.
        SpecError: The type of a column cannot be inferred; give it in `spec`.
        TypeError: `dataset` is a dict of splits, or not a dataset of `datasets`.

    Examples:
        >>> import datasets
        >>> table = datasets.Dataset.from_dict({"text": ["one", "two"], "label": [0, 1]})
        >>> bushel.pack(bushel.from_hf(table), "texts/", container="tar").samples
        2
    """
    with needed_by("from_hf", "bushel[hf]"):
        import datasets

    if isinstance(dataset, datasets.IterableDataset):
        plain = _undecoded(dataset)
        return Stream((_stored(sample) for sample in plain), spec=spec)
    if isinstance(dataset, datasets.Dataset):
        return HuggingFaceSource(dataset, spec=spec)
    splits = ""
    if isinstance(dataset, dict):
        splits = f"; choose a split: {', '.join(map(str, dataset))}"
    raise TypeError(
        "from_hf takes a datasets.Dataset or IterableDataset, "
        f"not a {type(dataset).__name__}{splits}"
    )


class HuggingFaceSource:
    """A dataset of Hugging Face `datasets` as a source: see `from_hf`.

    Attributes:
        spec: Field names to types.
        labels: Field names to the names of classes.
        fingerprint: The fingerprint that `datasets` gives.

    Examples:
        >>> import datasets
        >>> table = datasets.Dataset.from_dict({"text": ["one", "two"]})
        >>> bushel.from_hf(table)[1]
        {'text': 'two'}
    """

    def __init__(self, dataset: datasets.Dataset, *, spec: Mapping[str, str] | None = None) -> None:
        self._dataset = _undecoded(dataset).with_format(None)
        if spec is None and not len(dataset):
            raise SpecError("fields cannot be inferred without samples: pass spec=")
        self.spec: Mapping[str, str] = dict(spec) if spec is not None else self._infer()
        self.labels: Mapping[str, Sequence[str]] = {
            name: tuple(feature.names)
            for name, feature in dataset.features.items()
            if type(feature).__name__ == "ClassLabel" and name in self.spec and feature.names
        }
        self.fingerprint = str(dataset._fingerprint)

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        sample = _stored(self._dataset[position])
        return {name: value for name, value in sample.items() if name == KEY or name in self.spec}

    def _infer(self) -> dict[str, str]:
        """Return the types of the first values that are not missing."""
        names = [name for name in self._dataset.column_names if name != KEY]
        values: dict[str, Any] = {}
        for position in range(len(self._dataset)):
            sample = _stored(self._dataset[position])
            values = {name: sample[name] for name in names if _tells(sample.get(name))} | values
            if len(values) == len(names):
                break
        if missing := [name for name in names if name not in values]:
            raise SpecError(
                f"the column {missing[0]!r} has no values from "
                "which its type can be inferred: pass spec="
            )
        return infer_spec({name: values[name] for name in names})


def _tells(value: Any) -> bool:
    return value is not None and not (isinstance(value, list) and not value)


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

    codec = field.codec.partition("(")[0]
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
        for first in range(0, len(dataset), _CHUNK):
            positions = range(first, min(first + _CHUNK, len(dataset)))
            for position, stored in zip(
                positions, dataset.read(list(positions), decode=False), strict=True
            ):
                values = {name: value for name, value in stored.items() if name not in undecoded}
                sample = {**stored, **dataset.decode_sample(values, position)}
                row = {name: _value(field, sample.get(name)) for name, field in fields.items()}
                yield {KEY: sample[KEY], **row} if keyed else row


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    if field.sequence:
        return [_one(field.codec, element) for element in value]
    return _one(field.codec, value)


def _one(codec: str, value: Any) -> Any:
    if holds_image(codec) or holds_clip(codec) or holds_sound(codec):
        return {"bytes": bytes(value), "path": None}
    if codec == "json":
        return json.dumps(value)
    if isinstance(value, memoryview):
        return bytes(value)
    return value


def _undecoded(dataset: Any) -> Any:
    """Return the dataset with the stored bytes of images, clips and sounds instead of decoded ones."""
    import datasets

    features = dataset.features
    if features is None:  # of a stream that has not been read
        return dataset
    for name, feature in features.items():
        if isinstance(feature, datasets.Image | datasets.Video | datasets.Audio):
            dataset = dataset.cast_column(name, type(feature)(decode=False))
        elif isinstance(feature, datasets.List) and isinstance(feature.feature, datasets.Image):
            dataset = dataset.cast_column(name, datasets.List(datasets.Image(decode=False)))
    return dataset


def _stored(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample with the bytes of its images, and without its missing values."""
    plain = {name: _bytes_of(value) for name, value in sample.items()}
    return {name: value for name, value in plain.items() if value is not None}


def _bytes_of(value: Any) -> Any:
    if isinstance(value, list):
        return [_bytes_of(element) for element in value]
    if not isinstance(value, Mapping) or value.keys() != {"bytes", "path"}:
        return value
    if value["bytes"] is None and value["path"] is not None:
        with open(value["path"], "rb") as file:
            return file.read()
    return value["bytes"]

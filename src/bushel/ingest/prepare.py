"""One item of a source on its way to the writer: fetched, transformed, encoded.

A `Preparer` is a plain value that works in threads and, pickled, in worker processes. It raises nothing: an item that
cannot be packed is a `Bad` one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from bushel.codecs import get_codec
from bushel.codecs.base import codec_error, found_bytes
from bushel.codecs.image import ImageReading, decode_image
from bushel.errors import SpecError
from bushel.ingest.imagekind import KINDS, codec_kind, image_kind
from bushel.ingest.steps import FieldSteps
from bushel.ingest.tiling import tile_values
from bushel.loader.transforms import generator
from bushel.sources.base import Fetching, Sample, Source, Traceable
from bushel.spec import KEY, Field
from bushel.transforms.fused import is_upright

__all__ = ["Bad", "Item", "Preparer", "Ready", "image_fields", "prepared_size"]

Item = int | tuple[int, Sample]
"""A position of a source; or, of a stream, the position and the sample."""


@dataclass(frozen=True, slots=True)
class Ready:
    """A sample as the writer stores it.

    Attributes:
        position: Its position in the source.
        key: Its key, or None.
        values: Stored bytes, or a list of them, by field.
        size: Their bytes.
    """

    position: int
    key: str | None
    values: dict[str, Any]
    size: int


@dataclass(frozen=True, slots=True)
class Bad:
    """An item that cannot be packed.

    Attributes:
        position: Its position in the source.
        key: Its key, where it is known.
        path: Where it comes from, where that is known.
        error: Why.
    """

    position: int
    key: str | None
    path: str | None
    error: Exception


def prepared_size(results: Sequence[Ready | Bad]) -> int:
    """Bytes that prepared items hold."""
    return sum(result.size for result in results if isinstance(result, Ready))


def image_fields(fields: Mapping[str, Field]) -> list[str]:
    """Names of the fields that hold still images."""
    return [name for name, field in fields.items() if _is_image(field.codec)]


def _is_image(codec: str) -> bool:
    return codec_kind(codec) in (*KINDS, "image")


@dataclass(frozen=True, slots=True)
class Preparer:
    """Turns items of a source into what the writer stores.

    Attributes:
        source: The source; None for a stream, whose items bring their samples.
        fields: The fields as the writer declares them.
        given: The codecs of the source's own spec, which bytes that it gives are in.
        codecs: The codecs of the bytes that the container stores, by field.
        steps: Transforms by field.
        seed: Of the transforms' randomness.
        orient: Whether images are turned as their Exif orientation says.
        check: Whether images whose bytes are kept are decoded to see that they are whole.
        tiled: Fields whose JPEGs are tiled.
        key: Gives every key a new form.
        keyed: Whether samples keep their keys.
    """

    source: Source | None
    fields: Mapping[str, Field]
    given: Mapping[str, str]
    codecs: Mapping[str, str]
    steps: Mapping[str, FieldSteps]
    seed: int
    orient: bool
    check: bool
    tiled: frozenset[str]
    key: Callable[[str], str] | None
    keyed: bool

    def __call__(self, batch: Sequence[Item]) -> list[Ready | Bad]:
        """Prepare a batch."""
        source = self.source
        if isinstance(source, Fetching) and source.remote:
            source = source.fetched([item for item in batch if isinstance(item, int)])
        return [self._prepare(item, source) for item in batch]

    def _prepare(self, item: Item, source: Source | None) -> Ready | Bad:
        position, sample = (item, None) if isinstance(item, int) else item
        key: str | None = None
        try:
            if sample is None and source is not None:
                sample = source[position]
            if not isinstance(sample, Mapping):
                raise SpecError(f"a sample is a dict of fields, not {type(sample).__name__}")  # noqa: TRY301
            key = self._key(sample)
            values = {
                name: self._value(position, name, value) if name in self.fields else value
                for name, value in sample.items()
                if name != KEY
            }
            if self.tiled:
                values = tile_values(values, self.tiled)
        except Exception as error:
            file = error.filename if isinstance(error, OSError) else None
            return Bad(position, key, self.origin(position) or (None if file is None else str(file)), error)
        size = sum(
            sum(map(len, value)) if isinstance(value, list) else 0 if value is None else len(value)
            for value in values.values()
        )
        return Ready(position, key if self.keyed else None, values, size)

    def _key(self, sample: Sample) -> str | None:
        key = sample.get(KEY)
        return self.key(key) if self.key is not None and isinstance(key, str) else key

    def origin(self, position: int) -> str | None:
        """Where an item comes from, where the source can say it."""
        if not isinstance(self.source, Traceable):
            return None
        try:
            return self.source.origin(position)
        except Exception:
            return None

    def _value(self, position: int, name: str, value: Any) -> Any:
        field = self.fields[name]
        if value is None:
            return None
        if not field.sequence:
            return self._element(position, field, value)
        if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
            raise SpecError(f"field {name!r} is a sequence: give a list of values, not {type(value).__name__}")
        return [self._element(position, field, element) for element in value]

    def _element(self, position: int, field: Field, value: Any) -> Any:
        codec = self.codecs[field.name]
        given = isinstance(value, bytes | bytearray | memoryview)
        if given and self.orient and (kind := image_kind(value)) and _is_image(codec) and not is_upright(value):
            codec = kind if codec == "image" else codec
            value, given = decode_image(value, ImageReading(orient=True), codec), False
        if steps := self.steps.get(field.name):
            generators = partial(generator, self.seed, 0, position)
            if given:
                changed = steps.on_stored(self.given[field.name], value, generators)
            else:
                changed = steps.on_value(value, generators)
            if changed is not value:
                if isinstance(changed, bytes | bytearray | memoryview):
                    return changed
                value, given = changed, False
        return self._as_stored(self.given[field.name], codec, value) if given else get_codec(codec).encode(value)

    def _as_stored(self, given: str, codec: str, value: Any) -> Any:
        """Bytes as they are, unless the container stores such values, or this field such images, in another way."""
        kind = codec_kind(codec)
        if not _is_image(codec):
            return value if given == codec else get_codec(codec).encode(get_codec(given).decode(value))
        found = image_kind(value)
        if found is None:
            raise codec_error(codec, f"an image ({', '.join(KINDS)})", found_bytes(value))
        decode = get_codec(codec).decode
        if kind not in ("image", found):
            return get_codec(codec).encode(decode(value))
        if self.check:
            decode(value)
        return value

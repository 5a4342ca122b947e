"""Fetch, transform and encode one sample of a source.

A `SampleEncoder` is a plain value that works in threads and, pickled, in worker processes. It does
not raise: an item that cannot be packed becomes a `BadItem`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from bushel._kinds import IMAGES
from bushel._pack.images import Rewriting, base_codec, image_kind
from bushel._runtime.structs import Struct
from bushel.codecs import get_codec, holds_image
from bushel.codecs.base import Buffer, codec_error, found_bytes
from bushel.codecs.image import ImageReading, as_pixels, decode_image
from bushel.errors import SpecError
from bushel.sources.base import Fetching, Sample, Source, Traceable
from bushel.spec import KEY, Field

if TYPE_CHECKING:  # packing without transforms imports none
    from bushel._pack.field_steps import FieldSteps

Item = int | tuple[int, Sample]
"""A position of a source; for a stream, the position and the sample."""

_BYTES = (bytes, bytearray, memoryview)


class EncodedSample(Struct, frozen=True):
    """A sample as the writer stores it.

    Attributes:
        position: Position in the source.
        key: Key, or None.
        values: Field to stored bytes, or to a list of them.
        size: Number of stored bytes.
    """

    position: int
    key: str | None
    values: dict[str, Any]
    size: int


class BadItem(Struct, frozen=True):
    """An item that cannot be packed."""

    position: int
    key: str | None
    path: str | None
    error: Exception


def encoded_bytes(results: Sequence[object]) -> int:
    """Return the number of bytes that encoded samples hold."""
    return sum(result.size for result in results if isinstance(result, EncodedSample))


class SampleEncoder(Struct, frozen=True):
    """Turns items of a source into stored values.

    Attributes:
        source: The source; None for a stream, whose items contain the samples.
        fields: The fields as the writer declares them.
        given: Field to codec of the source's spec: the codec of bytes that the source returns.
        codecs: Field to codec of the bytes that the container stores.
        steps: Field to transforms.
        seed: Seed of the transforms' randomness.
        exif_rotate: Whether to rotate images by their Exif orientation.
        check: Whether to decode images that are stored unchanged, to find damaged ones.
        rewriting: The JPEGs that are rewritten.
        keyed: Whether samples keep their keys.
        remote: Whether the source is remote, so that the items of a batch are fetched together.
    """

    source: Source | None
    fields: Mapping[str, Field]
    given: Mapping[str, str]
    codecs: Mapping[str, str]
    steps: Mapping[str, FieldSteps]
    seed: int
    exif_rotate: bool
    check: bool
    rewriting: Rewriting
    keyed: bool
    remote: bool

    def __call__(self, batch: Sequence[Item]) -> list[EncodedSample | BadItem]:
        """Encode a batch."""
        source = self.source
        if self.remote and isinstance(source, Fetching):
            source = source.fetched([item for item in batch if isinstance(item, int)])
        return [self._encode(item, source) for item in batch]

    def _encode(self, item: Item, source: Source | None) -> EncodedSample | BadItem:
        position, sample = (item, None) if isinstance(item, int) else item
        key: str | None = None
        try:
            if sample is None and source is not None:
                sample = source[position]
            if not isinstance(sample, Mapping):
                raise SpecError(f"a sample must be a dict of fields, not {type(sample).__name__}")  # noqa: TRY301
            key = sample.get(KEY)
            values = {
                name: self._value(position, name, value) if name in self.fields else value
                for name, value in sample.items()
                if name != KEY
            }
            if self.rewriting:
                values = self.rewriting.rewritten(values)
        except Exception as error:
            file = error.filename if isinstance(error, OSError) else None
            return BadItem(
                position, key, self.origin(position) or (None if file is None else str(file)), error
            )
        size = sum(
            sum(map(len, value)) if isinstance(value, list) else 0 if value is None else len(value)
            for name, value in values.items()
            if name in self.fields  # the writer refuses others
        )
        return EncodedSample(position, key if self.keyed else None, values, size)

    def origin(self, position: int) -> str | None:
        """Return the path or other origin of an item, if the source has it."""
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
            return self.element(position, field, value)
        if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
            raise SpecError(
                f"field {name!r} is a sequence: expected a list of values, not"
                f" {type(value).__name__}"
            )
        return [self.element(position, field, element) for element in value]

    def element(self, position: int, field: Field, value: Any) -> Any:
        """Return a value of a plain field, or an element of a sequence, as it is stored, after its transforms."""
        codec = self.codecs[field.name]
        encoded = isinstance(value, _BYTES)
        if (
            encoded
            and self.exif_rotate
            and (kind := image_kind(value))
            and holds_image(codec)
            and not _is_upright(value)
        ):
            codec = kind if codec == "image" else codec
            value, encoded = decode_image(value, ImageReading(exif_rotate=True), codec), False
        elif not encoded:
            value = as_pixels(value, exif_rotate=self.exif_rotate)
        if steps := self.steps.get(field.name):
            # packing without transforms needs nothing of it
            from bushel.loader.values.generator import generator

            generators = partial(generator, self.seed, 0, position)
            if encoded:
                changed = steps.on_stored(self.given[field.name], value, generators)
            else:
                changed = steps.on_value(value, generators)
            if changed is not value:
                if isinstance(changed, _BYTES):
                    return changed
                value, encoded = changed, False
        if encoded:
            return self._as_stored(self.given[field.name], codec, value)
        return get_codec(codec).encode(value)

    def _as_stored(self, of_source: str, codec: str, value: Any) -> Any:
        """Return encoded bytes unchanged if the container stores them so, else in the codec of the container."""
        kind = base_codec(codec)
        if not holds_image(codec):
            if of_source == codec:
                return value
            return get_codec(codec).encode(get_codec(of_source).decode(value))
        stored_kind = image_kind(value)
        if stored_kind is None:
            raise codec_error(codec, f"an image ({', '.join(IMAGES)})", found_bytes(value))
        decode = get_codec(codec).decode
        if kind not in ("image", stored_kind):
            return get_codec(codec).encode(decode(value))
        if self.check:
            decode(value)
        return value


def _is_upright(data: Buffer) -> bool:
    from bushel.transforms.fused import is_upright

    return is_upright(data)

"""Read the fields of record files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from bushel._index.table import FieldExtents, Keys, Shard, ShardIndex, stamps
from bushel._runtime.arrays import batches_of
from bushel.containers.base import ReadOptions
from bushel.containers.packed_index import Record, index_records
from bushel.containers.packed_map import is_packed_map
from bushel.containers.recordio.scan import (
    IMAGE_HEADER,
    Images,
    Payloads,
    find_images,
)
from bushel.containers.recordio.writer import form_of, stored_codec
from bushel.errors import SpecError
from bushel.spec import Field, Spec
from bushel.storage import Extents, File, read_many

_DATA = Field("data", "bytes")
_BATCH = 1 << 24


def index_of(
    shard: Shard, files: Sequence[File], payloads: Payloads, keys: Keys | None, options: ReadOptions
) -> ShardIndex:
    """Return the table of records, with the keys of the `.idx` unless the records have their own. It is not checked."""
    fields, own_keys = _fields_of(payloads, options)
    samples = len(payloads.position)
    return ShardIndex(
        samples, stamps(shard, files), fields, "recordio", own_keys or keys, blocks=payloads.blocks
    )


def _fields_of(
    payloads: Payloads, options: ReadOptions
) -> tuple[dict[str, FieldExtents], Keys | None]:
    """Return the fields of the records, as their headers or the user's spec declare them."""
    spec, path = options.spec, payloads.file.path
    if holds_maps(payloads):
        packed = index_records(
            _read(payloads, options),
            spec,
            file=path,
            checksums=options.checksums,
            number=payloads.number,
        )
        return packed.fields, packed.keys
    if spec is None or form_of(spec) == "image":
        images = find_images(payloads, any_image=spec is not None and len(spec) > 1)
        if images is not None:
            return _image_fields(payloads, images, spec or {}), None
    if spec is not None and (len(spec) != 1 or any(field.sequence for field in spec.values())):
        raise SpecError(f"{path} does not hold records of the fields {', '.join(map(repr, spec))}")
    [field] = (spec or {"data": _DATA}).values()
    extents = FieldExtents(field, field.codec, payloads.number, payloads.position, payloads.length)
    return {field.name: extents}, None


def holds_maps(payloads: Payloads) -> bool:
    """Return whether the records are packed maps, as the first one shows."""
    if not len(payloads.position):
        return False
    return is_packed_map(
        payloads.file.read(int(payloads.position[0]), min(16, int(payloads.length[0])))
    )


def _image_fields(payloads: Payloads, images: Images, spec: Spec) -> dict[str, FieldExtents]:
    header = IMAGE_HEADER + 4 * images.flag
    label = "float" if not images.flag.any() else "array"
    zero, eight = np.zeros_like(header), np.full_like(header, 8)
    places = {
        "image": (images.codec, header, payloads.length - header),
        "label": (label, zero, np.where(images.flag > 0, header, 8)),
        "id": ("u64", eight, eight),
        "id2": ("u64", 2 * eight, eight),
    }
    fields = {}
    for name, (codec, start, length) in places.items():
        if "image" in spec and name not in spec:
            continue
        field = spec.get(name) or Field(name, codec)
        stored = stored_codec(name, field.codec)
        fields[name] = FieldExtents(
            field, stored, payloads.number, payloads.position + start, length
        )
    return fields


def _read(payloads: Payloads, options: ReadOptions) -> Iterator[Record]:
    """Yield all records; a few MiB are read at a time."""
    for rows in batches_of(payloads.length, _BATCH):
        position, length = payloads.position[rows], payloads.length[rows]
        for payload, start in zip(
            read_many([payloads.file], Extents(0, position, length)), position.tolist(), strict=True
        ):
            yield Record(payload or b"", start)
        if options.report is not None:
            options.report(int(length.sum()))

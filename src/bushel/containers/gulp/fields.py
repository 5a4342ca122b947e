"""The fields of a user's spec in the meta dicts of a gulp chunk: spans of JSON within JSON. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec
import numpy as np
import numpy.typing as npt

from bushel.containers.gulp.gmeta import Gmeta
from bushel.core.index.table import Column, ColumnBuilder
from bushel.errors import SpecError
from bushel.spec import Field, Spec

__all__ = ["frames_field", "meta_columns"]

_META = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def frames_field(spec: Spec) -> Field:
    """Return the one field of JPEG frames.

    Raises:
        SpecError: The spec has none, or several.
    """
    frames = [field for field in spec.values() if field.codec.partition("(")[0] in ("jpg", "jpeg")]
    if len(frames) != 1:
        found = ", ".join(repr(field.name) for field in frames) or "none"
        raise SpecError(
            f"a gulp item has exactly one field of JPEG frames (jpg[], or jpg for images), but this spec has {found};"
            " use bag, tar, ffrecord or recordio for these samples"
        )
    return frames[0]


def meta_columns(parsed: Gmeta, text: bytes, file: int, fields: list[Field]) -> dict[str, Column]:
    """Return the columns of fields that lie in the meta dicts.

    Args:
        parsed: The table.
        text: The text that its offsets refer to.
        file: Number of the file that contains `text`, or `INLINE`.
        fields: The fields; a single field `meta: json` is the dict itself.
    """
    if [(field.type, field.name) for field in fields] == [("json", "meta")]:
        return {"meta": Column(fields[0], "json", file, parsed.offset, parsed.length)}
    builders = {field.name: ColumnBuilder(field, "json", file) for field in fields}
    whole = memoryview(text)
    base = _address(whole)
    for number, (start, length) in enumerate(zip(parsed.offset.tolist(), parsed.length.tolist(), strict=True)):
        values = _values(whole[start : start + length]) if length > 0 else {}
        for name, builder in builders.items():
            if (raw := values.get(name)) is None:
                builder.mark_absent()
            elif builder.field.sequence:
                for element in _elements(raw, name, number):
                    builder.add(_address(element) - base, len(memoryview(element)), 0)
            else:
                builder.add(_address(raw) - base, len(memoryview(raw)), 0)
            builder.close_sample(number)
    return {name: replace(builder.build(), crc32=None) for name, builder in builders.items()}


def _elements(raw: msgspec.Raw, name: str, number: int) -> list[msgspec.Raw]:
    try:
        return _LIST.decode(raw)
    except msgspec.MsgspecError as error:
        raise SpecError(f"field {name!r} is not a list in item {number}: declare its type without []") from error


def _values(meta: memoryview) -> Mapping[str, msgspec.Raw]:
    try:
        return _META.decode(meta)
    except msgspec.MsgspecError:  # metadata may be any JSON, but only a dict has fields
        return {}


def _address(buffer: Any) -> int:
    array = cast("npt.NDArray[np.uint8]", np.frombuffer(buffer, np.uint8))
    return int(array.__array_interface__["data"][0])

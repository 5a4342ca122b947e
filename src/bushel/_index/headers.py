"""The headers of sidecars: what an index says of its arrays, and what it has in common with manifests."""

# Annotations are evaluated here: msgspec compiles those that are text, which took 0.4 ms of the
# first `bushel.open`.

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from .names import MAX_NAME_LENGTH, MAX_NAMES

if TYPE_CHECKING:
    Arrays = dict[str, np.ndarray]
else:
    Arrays = dict

VERSION = 1
"""Version of manifests and indexes."""

CRC32_IS = b'\\"crc32\\":\\"'
"""The text before the CRC-32 of the file in the header, which is JSON in a text in JSON."""

ZEROS = "00000000"
"""The hexadecimal digits in the place of the CRC-32 while it is computed."""

SEAL = b'%08x"\n}\n'
"""The end of a manifest, with the CRC-32 of the bytes before it."""

DTYPES: "dict[str, np.dtype[Any]]" = {
    kind: np.dtype(name)
    for kind, name in zip(
        ("U64", "I64", "F64", "F32", "U32", "I32", "F16", "U16", "I16", "I8", "U8", "BOOL"),
        ("<u8", "<i8", "<f8", "<f4", "<u4", "<i4", "<f2", "<u2", "<i2", "i1", "u1", "?"),
        strict=True,
    )
}
"""The types of arrays by their names in safetensors, in the order of a file."""

DAMAGES = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)
"""The errors of `parse_all`, and of decoding its text, for a damaged file."""

COLUMN_ARRAYS = ("values", "missing", "codes", "text", "offsets", "types")
"""The arrays of a column: the attributes of `Column`."""

# a count so small that the sum over all shards fits into int64
Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 48)]

LineNumber = Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]

Digest = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{32})?\Z")]

LabelNames = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=MAX_NAME_LENGTH)], ...],
    msgspec.Meta(max_length=MAX_NAMES),
]
"""The names of the classes of a field."""


class HeaderField(msgspec.Struct, omit_defaults=True):
    name: str
    type: str
    codec: str
    file: int
    lines: LineNumber | None = None
    """The number of the field in blocks of lines, if they have its extents."""
    quotes: bool = False
    """Whether these include the quotes around texts."""


class HeaderColumn(msgspec.Struct, omit_defaults=True):
    name: str
    kind: str
    lines: LineNumber | None = None
    """The number of the field in blocks of lines, if they have its numbers."""


class Header(msgspec.Struct, omit_defaults=True):
    version: int
    container: str
    samples: Count
    files: list[tuple[str, int, int]]
    fields: list[HeaderField]
    stamps: list[int | None]
    labels: Mapping[str, LabelNames]
    crc32: str
    columns: list[HeaderColumn]
    digest: Digest
    """The digest of the table (`bushel._index.identity`)."""
    filters: list[list[str]] = []
    """The names of the filters of each block file."""


class PartOfRun(msgspec.Struct, frozen=True):
    """What the manifest of a part says about its run. A part whose manifest has it is written."""

    run: str  # id of the run's plan
    bytes: int  # stored bytes of the fields
    errors: list[str]  # items that could not be packed: lines of the error log, as JSON in ASCII
    limits: list[str]  # properties of the samples that the container does not keep, in words

"""Errors about stored bytes that cannot be read."""

from __future__ import annotations

from bushel.errors import CodecError, CorruptError, FormatError
from bushel.kernels import ExtentError

__all__ = ["corrupt", "differs", "outside", "undecodable", "unreadable"]


def differs(expected: int, found: int) -> str:
    """Return the error of bytes that do not match their checksum."""
    return f"has the CRC-32 {found:08x} where {expected:08x} was written"


def outside(error: ExtentError, value: str, path: str, offset: int) -> FormatError:
    """Return the error for a value, named by sample and field, that is not inside its file."""
    if error.reason == "shrunk":
        what = f"the file has shrunk from {error.expected} to {error.found} bytes since it was opened"
    else:
        what = f"{value} ends at byte {error.expected} of a file of {error.found} bytes"
    return FormatError(what, file=path, offset=offset, hint="run `bushel verify` on the dataset")


def undecodable(error: CodecError, key: str, field: str, file: str, offset: int, position: int) -> CodecError:
    """Return the error for stored bytes that do not decode, with the sample and the place that they are of."""
    return CodecError(
        f"sample {key!r}, field {field!r} ({file}@{offset}): {error}",
        **{**error.details, "key": key, "field": field, "file": file, "offset": offset, "position": position},
    )


def corrupt(
    what: str, key: str, field: str, file: str, offset: int, expected: int | None = None, found: int | None = None
) -> CorruptError:
    """Return the error for stored bytes that are not those that were written."""
    return CorruptError(
        f"sample {key!r}, field {field!r} {what}",
        key=key,
        field=field,
        file=file,
        offset=offset,
        expected=expected,
        found=found,
        hint="run `bushel verify` on the dataset",
    )


def unreadable(error: ExtentError, key: str, field: str, file: str, offset: int) -> CorruptError | FormatError:
    """Return the error for an extent that cannot be read."""
    if error.reason == "checksum":
        what = differs(error.expected, error.found)
        return corrupt(what, key, field, file, offset, error.expected, error.found)
    if error.reason == "filter":
        return corrupt(f"is in a block that cannot be expanded: {error.what}", key, field, file, offset)
    return outside(error, f"sample {key!r}, field {field!r}", file, offset)

"""What is said of stored bytes that cannot be read."""

from __future__ import annotations

from bushel.errors import FormatError
from bushel.kernels import ExtentError

__all__ = ["differs", "outside"]


def differs(expected: int, found: int) -> str:
    """Return what is wrong with bytes of another checksum."""
    return f"has the CRC-32 {found:08x} where {expected:08x} was written"


def outside(error: ExtentError, value: str, path: str, offset: int) -> FormatError:
    """Return the error for a value, named by sample and field, that is not inside its file."""
    if error.reason == "shrunk":
        what = f"the file has shrunk from {error.expected} to {error.found} bytes since it was opened"
    else:
        what = f"{value} ends at byte {error.expected} of a file of {error.found} bytes"
    return FormatError(what, file=path, offset=offset, hint="run `bushel verify` on the dataset")

"""Arrays of known sizes, which are filled in any order: in memory while they are small, else in a temporary file."""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import IO, Any

import numpy as np
import numpy.typing as npt

_IN_MEMORY = 4 << 20  # bytes that are kept in memory
_ALIGNMENT = 64
_ZEROS = 1 << 20
# by a file system; glibc writes zeros itself then, musl does not
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL)


def known_arrays(
    sizes: Mapping[str, tuple[npt.DTypeLike, int]], limit: int = _IN_MEMORY
) -> dict[str, npt.NDArray[Any]]:
    """Return arrays of zeros by name, given the type and the number of elements of each.

    Arrays in a temporary file are mapped, and the file has no name. Its room on the disk is
    reserved.

    Args:
        sizes: Type and number of elements of each array.
        limit: Bytes of all arrays that are kept in memory.

    Raises:
        OSError: The temporary file cannot be written.
    """
    starts, end = {}, 0
    for name, (dtype, count) in sizes.items():
        starts[name] = end
        end += np.dtype(dtype).itemsize * count
        end += -end % _ALIGNMENT
    if end <= limit:
        whole = np.zeros(end, np.uint8)
    else:
        with tempfile.TemporaryFile(prefix="bushel-", buffering=0) as file:
            _reserve(file, end)
            whole = np.memmap(file, np.uint8, "r+").view(np.ndarray)
    arrays = {}
    for name, (dtype, count) in sizes.items():
        arrays[name] = whole[starts[name] :][: np.dtype(dtype).itemsize * count].view(dtype)
    return arrays


def _reserve(file: IO[bytes], size: int) -> None:
    """Make a file of zeros whose room is reserved: writing to its map must not fail on a full disk."""
    if sys.platform == "linux":
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        else:
            return
    for start in range(0, size, _ZEROS):
        file.write(bytes(min(_ZEROS, size - start)))

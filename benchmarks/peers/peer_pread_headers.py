"""The limit of `peer_pread` where 512 bytes stand before each record, as in a tar: records are not aligned to pages."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import peer_slices
from peer_pread import open
from peer_pread import read_batch as read_without

__all__ = ["open", "read_batch", "write"]

HEADER = 512


def write(path: str, records: Iterable[bytes]) -> None:
    """Write the file ``path``, and the offsets of the headers."""
    peer_slices.write(path, (bytes(HEADER) + record for record in records))


read_batch = partial(read_without, header=HEADER)

"""The compiled hot loops: batched reads, checksums, keys, and the scans of containers that have no index of their own.

Everything here is documented in ``_kernels.pyi``.
"""

from bushel.kernels._kernels import (
    ExtentError,
    MappedFile,
    RecordioRecords,
    TarMembers,
    TarScanner,
    announce,
    crc32,
    crc32_many,
    gather,
    gather_into,
    hash_keys,
    join_recordio,
    map_array,
    read_many,
    scan_recordio,
    scan_tar,
    slice_keys,
    split_recordio,
)

__all__ = [
    "ExtentError",
    "MappedFile",
    "RecordioRecords",
    "TarMembers",
    "TarScanner",
    "announce",
    "crc32",
    "crc32_many",
    "gather",
    "gather_into",
    "hash_keys",
    "join_recordio",
    "map_array",
    "read_many",
    "scan_recordio",
    "scan_tar",
    "slice_keys",
    "split_recordio",
]

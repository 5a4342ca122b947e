"""MXNet RecordIO files, of raw records and of images.

`scan_records` finds the records of a file, `read_record` reads one, and `RecordSink` appends to a
file. `parse_idx`, `format_idx` and `check_key` are for `.idx` files. An image record starts with a
header of `IMAGE_HEADER` bytes.
"""

from bushel.containers.recordio.container import CONTAINER
from bushel.containers.recordio.idx import check_key, format_idx, parse_idx
from bushel.containers.recordio.records import RecordSink, read_record
from bushel.containers.recordio.scan import IMAGE_HEADER, scan_records

__all__ = [
    "CONTAINER",
    "IMAGE_HEADER",
    "RecordSink",
    "check_key",
    "format_idx",
    "parse_idx",
    "read_record",
    "scan_records",
]

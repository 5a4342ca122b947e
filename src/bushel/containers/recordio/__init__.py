"""MXNet RecordIO files, of raw records and of images.

`scan_records` finds the records of a file, `read_record` reads one, and `RecordSink` appends to a
file. `parse_idx`, `format_idx` and `check_key` are for `.idx` files. An image record starts with a
header of `IMAGE_HEADER` bytes.
"""

from .container import CONTAINER
from .idx import format_idx, parse_idx
from .scan import IMAGE_HEADER, RecordSink, read_record, scan_records
from .writer import check_key

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

"""FFRecord files, also with packed folders."""

from .container import CONTAINER, index_all_records
from .packed_folder import MAGIC, parse_folder

__all__ = ["CONTAINER", "MAGIC", "index_all_records", "parse_folder"]

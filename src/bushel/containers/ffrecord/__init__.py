"""FFRecord files, also with packed folders."""

from bushel.containers.ffrecord.container import CONTAINER, empty_folders, index_all_records
from bushel.containers.ffrecord.packed_folder import MAGIC, parse_folder

__all__ = ["CONTAINER", "MAGIC", "empty_folders", "index_all_records", "parse_folder"]

"""WebDataset shards: tar archives in which neighbouring members form a sample."""

from bushel.containers.tar.container import CONTAINER
from bushel.containers.tar.contents import Keep, member_contents
from bushel.containers.tar.names import is_meta, split_name
from bushel.containers.tar.writer import end_of_archive, header_of

__all__ = ["CONTAINER", "Keep", "end_of_archive", "header_of", "is_meta", "member_contents", "split_name"]

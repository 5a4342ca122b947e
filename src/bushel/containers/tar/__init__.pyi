"""The names of `bushel.containers.tar` and their modules, which the package reads, too."""

from bushel.containers.tar.container import CONTAINER as CONTAINER
from bushel.containers.tar.members import Keep as Keep
from bushel.containers.tar.members import member_contents as member_contents
from bushel.containers.tar.members import member_extensions as member_extensions
from bushel.containers.tar.names import is_meta as is_meta
from bushel.containers.tar.names import split_name as split_name
from bushel.containers.tar.writer import end_of_archive as end_of_archive
from bushel.containers.tar.writer import header_of as header_of

__all__: list[str]

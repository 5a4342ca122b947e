"""The names of `bushel._pack` and their modules, which the package reads, too."""

from bushel._pack.pack_job import PackResult as PackResult
from bushel._pack.packing import convert as convert
from bushel._pack.packing import pack as pack
from bushel._pack.reshape import merge as merge
from bushel._pack.reshape import split as split
from bushel._pack.run_folder import part_path as part_path
from bushel._pack.side_files import error_log_path as error_log_path

__all__: list[str]

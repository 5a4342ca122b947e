"""Results and progress of work that writes a dataset, and the places of the files that it leaves."""

from bushel._pack.pack_job import PackResult
from bushel._pack.run_folder import part_path
from bushel._pack.side_files import error_log_path
from bushel._runtime.progress import Progress

__all__ = ["PackResult", "Progress", "error_log_path", "part_path"]

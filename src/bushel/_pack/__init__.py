"""Write datasets from other data: pack, convert, split, merge.

`packing` and `converting` are one job, `write_dataset`. It gets their arguments in groups (`pack_options`), opens the
source and decides how its samples are stored (`prepared_source`; for datasets `prepared_dataset`, which plans each
field by `field_plan`), and writes one dataset or several parts (`pack_job`). `part` writes each of them. In threads or
worker `processes`, `sample_encoder` fetches, transforms and encodes samples of a source, and `transcoder` samples of a
dataset, whose bytes it copies where it can. `side_files` are the files beside the dataset.

A run can work in parts: `run_plan` lists the items of each part, `run_folder` keeps the plan and the records of parts,
`commit` writes one part exactly once, `finish` joins them, and `scale_out` does that for all parts.

`reshape` splits, merges and reshards datasets by converting them.
"""

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names

if TYPE_CHECKING:
    from bushel._pack.packing import convert, pack
    from bushel._pack.reshape import merge, reshard, split
    from bushel._pack.run_folder import part_path
    from bushel._pack.side_files import error_log_path, labels_path, load_labels
    from bushel._pack.write_dataset import PackResult

__all__ = [
    "PackResult",
    "convert",
    "error_log_path",
    "labels_path",
    "load_labels",
    "merge",
    "pack",
    "part_path",
    "reshard",
    "split",
]

_MODULES = {
    "_pack.packing": ("convert", "pack"),
    "_pack.reshape": ("merge", "reshard", "split"),
    "_pack.run_folder": ("part_path",),
    "_pack.side_files": ("error_log_path", "labels_path", "load_labels"),
    "_pack.write_dataset": ("PackResult",),
}

__getattr__ = lazy_names(__name__, {name: module for module, names in _MODULES.items() for name in names})

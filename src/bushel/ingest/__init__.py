"""Write datasets from other data: pack, convert, split, merge.

`packing` writes any source into any container. It groups its arguments (`pack_options`), opens the source and decides
how its samples are stored (`prepared_source`), and writes one dataset or several parts (`pack_job`). `part` writes each
of them, `sample_encoder` fetches, transforms and encodes samples in threads or worker `processes`, and `side_files` are
the files beside the dataset.

`converting` writes an existing dataset in another form, with `convert_job`, which plans its fields (`field_plan`) and
reads it through `batches`.

Both can work in parts: `run_plan` says what each part contains, `run_folder` keeps the plan and the records of parts,
`commit` writes one part exactly once, `finish` joins them, and `scale_out` does that for all parts.

`reshape` splits, merges and reshards datasets by converting them. `mxnet_im2rec` makes the lists and transforms of
MXNet's im2rec.
"""

from bushel.ingest.convert_job import ConvertResult
from bushel.ingest.converting import convert
from bushel.ingest.mxnet_im2rec import (
    IM2REC_SUFFIXES,
    ListPlan,
    find_images,
    im2rec,
    list_parts,
    number_as_im2rec,
    number_as_pack,
    write_lists,
)
from bushel.ingest.packing import PackResult, pack
from bushel.ingest.reshape import merge, reshard, split
from bushel.ingest.run_folder import part_path
from bushel.ingest.side_files import error_log_path, labels_path, load_labels

__all__ = [
    "IM2REC_SUFFIXES",
    "ConvertResult",
    "ListPlan",
    "PackResult",
    "convert",
    "error_log_path",
    "find_images",
    "im2rec",
    "labels_path",
    "list_parts",
    "load_labels",
    "merge",
    "number_as_im2rec",
    "number_as_pack",
    "pack",
    "part_path",
    "reshard",
    "split",
    "write_lists",
]

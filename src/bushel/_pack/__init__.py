"""Write datasets from other data: pack, convert, split, merge.

`packing` and `converting` are one job, `write_dataset`. It gets their arguments in groups
(`pack_options`), opens the source and decides how its samples are stored (`prepared_source`; for
datasets `prepared_dataset`, which plans each field by `field_plan`), and writes one dataset or
several parts (`pack_job`). `part` writes each of them. In threads or worker `processes`,
`sample_encoder` fetches, transforms and encodes samples of a source, and `transcoder` samples of a
dataset, whose bytes it copies where it can. `side_files` are the files beside the dataset.

A run can work in parts: `run_plan` lists the items of each part, `run_folder` keeps the plan and
finds the parts that are written, `commit` writes one part under its lock, `finish` joins them, and
`scale_out` does that for all parts.

`reshape` splits, merges and reshards datasets by converting them.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)

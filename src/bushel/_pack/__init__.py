"""Write datasets from other data: pack, convert, split, merge.

`packing` has the functions that users call. Their arguments become `PackOptions`; `prepare` opens
the source and decides how its samples are stored (`field_plan` for each field). `pack_job` writes
one dataset, and `scale_out` one in parts; `part` writes one of these. `feeds` give the samples, as
stored bytes where these can be copied, and else as values; `encoder` transforms and encodes them,
in threads or worker processes. `side_files` are the files beside the dataset.

A run can work in parts: `run_folder` keeps its plan, which lists the samples of each part, and finds
the parts that are written, and `finish` joins them.

`reshape` splits and merges datasets by converting them.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)

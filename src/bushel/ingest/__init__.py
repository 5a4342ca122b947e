"""Bringing data into datasets, and from one dataset into another.

`packing` puts any source into any container. `packplan` decides; `prepare` makes items ready, with `steps` (transforms)
and `tiling`, in threads or worker `processes`; `part` writes them. `errorlog` and `labels` keep what lies
beside the dataset. `im2rec` and `lists` do what MXNet's im2rec does.

`conversion` writes a dataset again. `batches` reads it, and `routes` decides how each field travels. `reshape` divides,
joins and shards datasets by converting them.
"""

from bushel.ingest.conversion import Conversion, convert
from bushel.ingest.labels import load_labels
from bushel.ingest.packing import Packed, Progress, pack

__all__ = ["Conversion", "Packed", "Progress", "convert", "load_labels", "pack"]

"""Granular 0.20 on Bushel: `import bushel.compat.granular as granular`.

The submodule `v24` has the names of Granular 0.24
(`import bushel.compat.granular.v24 as granular`), and `bags` the names of the package bags 0.5. All
readers read the files of all three. See docs/compat-granular.md.
"""

from bushel.compat.granular import bags, sources, v24

from .bag import BagReader, BagWriter
from .formats import decoders, encoders
from .loader import Loader
from .reader import DatasetReader, ShardedDatasetReader
from .writer import DatasetWriter, ShardedDatasetWriter

__version__ = "0.20.3"  # the release of Granular whose names these are
__all__ = [
    "BagReader",
    "BagWriter",
    "DatasetReader",
    "DatasetWriter",
    "Loader",
    "ShardedDatasetReader",
    "ShardedDatasetWriter",
    "bags",
    "decoders",
    "encoders",
    "sources",
    "v24",
]

"""Granular 0.24 on Bushel: `import bushel.compat.granular.v24 as granular`.

Its writers write generation C (`.bag` and `.idx` files) and go on where an earlier writer ended or died. Its readers
read every generation.
"""

from bushel.compat.granular import sources
from bushel.compat.granular.formats import decoders, encoders
from bushel.compat.granular.reader import DatasetReader, ShardedDatasetReader
from bushel.compat.granular.v24.bag import BagReader, BagWriter
from bushel.compat.granular.v24.loader import Loader
from bushel.compat.granular.v24.writer import DatasetWriter, ShardedDatasetWriter

__all__ = [
    "BagReader",
    "BagWriter",
    "DatasetReader",
    "DatasetWriter",
    "Loader",
    "ShardedDatasetReader",
    "ShardedDatasetWriter",
    "decoders",
    "encoders",
    "sources",
]

"""Granular 0.24 on Bushel: `import bushel.compat.granular.v24 as granular`."""

from bushel.compat.granular.reader import ShardedDatasetReader
from bushel.compat.granular.v24 import formats as formats
from bushel.compat.granular.v24 import sources

from .datasets import (
    BagReader,
    BagWriter,
    DatasetReader,
    DatasetWriter,
    Loader,
    ShardedDatasetWriter,
)
from .formats import decoders, encoders

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

"""`mxnet.io`: `im2rec`, and iterators over record files and arrays."""

from bushel.compat.mxnet.base import DataBatch, DataDesc, DataIter

from .array_iter import NDArrayIter, PrefetchingIter
from .im2rec import Im2recParams, im2rec
from .record_iter import ImageRecordIter

__all__ = [
    "DataBatch",
    "DataDesc",
    "DataIter",
    "Im2recParams",
    "ImageRecordIter",
    "NDArrayIter",
    "PrefetchingIter",
    "im2rec",
]

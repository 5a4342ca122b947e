"""`mxnet.io`: `im2rec`, and iterators over record files and arrays."""

from bushel.compat.mxnet.base import DataBatch, DataDesc, DataIter
from bushel.compat.mxnet.io.array_iter import NDArrayIter, PrefetchingIter
from bushel.compat.mxnet.io.im2rec import Im2recParams, im2rec
from bushel.compat.mxnet.io.record_iter import ImageRecordIter

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

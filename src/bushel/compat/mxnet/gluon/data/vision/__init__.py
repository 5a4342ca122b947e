"""`mxnet.gluon.data.vision`: datasets of images, and transforms."""

from bushel.compat.mxnet.gluon.data.datasets import ImageRecordDataset
from bushel.compat.mxnet.gluon.data.vision import transforms

__all__ = ["ImageRecordDataset", "transforms"]

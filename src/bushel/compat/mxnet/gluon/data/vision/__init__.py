"""`mxnet.gluon.data.vision`: datasets of images, and transforms."""

from bushel.compat.mxnet.gluon.data.vision import transforms
from bushel.compat.mxnet.gluon.data.vision.datasets import ImageRecordDataset

__all__ = ["ImageRecordDataset", "transforms"]

"""`mxnet.gluon.data.vision`: datasets of images, and transforms."""

from bushel.compat.mxnet.gluon.data.vision import transforms

from .datasets import ImageFolderDataset, ImageRecordDataset

__all__ = ["ImageFolderDataset", "ImageRecordDataset", "transforms"]

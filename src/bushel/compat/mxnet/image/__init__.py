"""`mxnet.image`: functions of images, augmenters, and an iterator in Python."""

from bushel.compat.mxnet.image import augment, functions, rotate
from bushel.compat.mxnet.image.augment import *  # noqa: F403
from bushel.compat.mxnet.image.functions import *  # noqa: F403
from bushel.compat.mxnet.image.iterator import ImageIter
from bushel.compat.mxnet.image.rotate import *  # noqa: F403

__all__ = ["ImageIter", *augment.__all__, *functions.__all__, *rotate.__all__]

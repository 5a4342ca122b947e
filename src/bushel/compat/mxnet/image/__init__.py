"""`mxnet.image`: functions of images, augmenters, and an iterator in Python."""

from bushel.compat.mxnet.image import augment, functions

from .augment import *  # noqa: F403
from .functions import *  # noqa: F403
from .iterator import ImageIter

__all__ = ["ImageIter", *augment.__all__, *functions.__all__]

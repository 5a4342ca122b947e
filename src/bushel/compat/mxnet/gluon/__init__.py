"""`mxnet.gluon`: datasets and transforms, and the base class of transforms of one's own."""

from bushel.compat.mxnet.gluon import data
from bushel.compat.mxnet.gluon.block import Block, HybridBlock

__all__ = ["Block", "HybridBlock", "data"]

"""MXNet's data modules without MXNet: `import bushel.compat.mxnet as mx`.

`recordio`, `io` (with `im2rec`, as its design document has it), `image`, `gluon.data`, and of `nd`
the functions that data programs call: see docs/compat-mxnet.md.
"""

from bushel.compat.mxnet import gluon, image, io, ndarray, recordio
from bushel.compat.mxnet import image as img
from bushel.compat.mxnet import ndarray as nd

from .base import MXNetError, NDArray

__version__ = "1.9.1"
"""The version of MXNet for which this stands."""

__all__ = ["MXNetError", "NDArray", "gluon", "image", "img", "io", "nd", "ndarray", "recordio"]

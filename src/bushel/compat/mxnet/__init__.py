"""MXNet's data modules without MXNet: `import bushel.compat.mxnet as mx`.

`recordio`, `io` (with `im2rec`, as its design document has it), `image` and `gluon.data`: see docs/compat-mxnet.md.
"""

from bushel.compat.mxnet import gluon, image, io, recordio
from bushel.compat.mxnet import image as img
from bushel.compat.mxnet.base import MXNetError, NDArray, array

__all__ = ["MXNetError", "NDArray", "array", "gluon", "image", "img", "io", "recordio"]

"""MXNet's data modules without MXNet: `import bushel.compat.mxnet as mx`.

`recordio`, `io` (with `im2rec`, as its design document has it), `image` and `gluon.data`. docs/compat-mxnet.md has a
table of what there is and what differs.
"""

from bushel.compat.mxnet import gluon, image, io, recordio
from bushel.compat.mxnet import image as img
from bushel.compat.mxnet.base import MXNetError
from bushel.compat.mxnet.ndarray import NDArray, array

__all__ = ["MXNetError", "NDArray", "array", "gluon", "image", "img", "io", "recordio"]

"""Tensors of other libraries as arrays, without importing these libraries."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

NO_TENSORS = frozenset(
    {np.ndarray, str, bytes, memoryview, bool, int, float, complex, list, tuple, dict, type(None)}
)
"""Types of values that `as_array` returns as they are."""

_CPU = 1  # DLPack's number for memory of the host
_NAMED_ALIKE = frozenset(
    ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"]
    + ["float16", "float32", "float64", "complex64", "complex128"]
)


def as_array(value: Any) -> Any:
    """Return a tensor as an array that shares its memory, and every other value as it is.

    A tensor has a shape, a type and `__array__` or DLPack, as in torch (which are detached from
    their graph), JAX and TensorFlow have. Tensors in the memory of a device, and of types that
    NumPy lacks, such as torch's bfloat16, stay tensors.
    """
    if type(value) in NO_TENSORS or isinstance(value, np.ndarray | np.generic):
        return value
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return value
    if is_torch(value):
        name = str(value.dtype).removeprefix("torch.")
        is_dense = value.device.type == "cpu" and str(value.layout) == "torch.strided"
        if not is_dense or name not in _NAMED_ALIKE:
            return value
        return value.detach().resolve_conj().resolve_neg().numpy()
    if hasattr(value, "__array__") and not hasattr(value, "__cuda_array_interface__"):
        array = np.asarray(value)
    elif hasattr(value, "__dlpack__") and value.__dlpack_device__()[0] == _CPU:
        array = np.from_dlpack(value)
    else:
        return value
    return value if array.dtype.kind in "OUS" else array


def is_torch(value: Any) -> bool:
    """Return whether a value is a tensor of torch, without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)

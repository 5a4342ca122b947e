"""Arrays: NumPy's, with the one method that every MXNet program calls on them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "NDArray", "array"]

Array: TypeAlias = npt.NDArray[Any]


class NDArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array that can be asked for a NumPy array."""

    def asnumpy(self) -> Array:
        """The same memory as a plain NumPy array."""
        return self.view(np.ndarray)

    def asscalar(self) -> Any:
        """The one number that it holds."""
        return self.item()


def array(source_array: Any, dtype: Any = None) -> NDArray:
    """A copy as an `NDArray`; what is no array yet becomes float32, as in MXNet."""
    if dtype is None:
        dtype = source_array.dtype if isinstance(source_array, np.ndarray) else np.float32
    return np.array(source_array, dtype).view(NDArray)

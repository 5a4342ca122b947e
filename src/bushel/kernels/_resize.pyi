"""Kernels for images: resizing. `_kernels` documents their rules."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

def resize(
    image: NDArray[np.uint8],
    geometry: NDArray[np.int32],
    out: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32],
    layout: Literal["HWC", "CHW"] = "HWC",
    table: NDArray[np.uint8] | NDArray[np.float16] | NDArray[np.float32] | None = None,
) -> None:
    """Crop, resize and flip a decoded image, as `decode_jpegs` does.

    Args:
        image: uint8[height, width, channels], C-contiguous, with 1 to 4 channels.
        geometry: int32[1, 10], as in `decode_jpegs`.
        out: As in `decode_jpegs`, with n = 1 and the channels of the image, or three for a grey one.
        layout: As in `decode_jpegs`.
        table: As in `decode_jpegs`.

    Raises:
        TypeError: An argument has another type, dtype or number of dimensions.
        ValueError: Shapes do not match, or the box is not inside the image.
    """

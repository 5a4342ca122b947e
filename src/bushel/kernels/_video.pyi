"""Kernels for frames of videos. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def yuv420_to_rgb(
    luma: Buffer,
    cb: Buffer,
    cr: Buffer,
    luma_stride: int,
    chroma_stride: int,
    matrix: int,
    out: NDArray[np.uint8],
) -> None:
    """Convert a frame of limited range to RGB, as swscale does it on x86: without interpolation of chroma.

    Args:
        luma: Rows of luma.
        cb: Rows of blue chroma, at half the width and height.
        cr: Rows of red chroma.
        luma_stride: Bytes from a row of luma to the next one.
        chroma_stride: The same of both planes of chroma.
        matrix: 601 or 709, the number of the ITU's recommendation.
        out: uint8[height, width, 3], written to; the height is even.

    Raises:
        ValueError: A plane is smaller than its frame, the height is odd, or the matrix is unknown.
        TypeError: ``out`` is not such an array.
    """

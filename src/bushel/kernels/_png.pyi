"""Kernels for PNG. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

def unfilter_png(filtered: Buffer, rows: int, row: int, pixel: int) -> NDArray[np.uint8]:
    """Undo the filters of PNG (3rd edition, section 9).

    Args:
        filtered: Rows, each a byte with the number of its filter, and filtered bytes.
        rows: Number of rows.
        row: Bytes of a row, without the number of its filter; a multiple of ``pixel``.
        pixel: Bytes of a pixel, 1 to 4; 1 for pixels of less than a byte.

    Returns:
        uint8[rows × row].

    Raises:
        ValueError: A filter is unknown, or ``filtered`` has another size.
    """

def colour_png(
    indices: NDArray[np.uint8], palette: NDArray[np.uint8], channels: int
) -> NDArray[np.uint8]:
    """Replace indices of a palette by its colours.

    Args:
        indices: uint8[pixels].
        palette: uint8[colours × 4].
        channels: How many of the 4 bytes of a colour to take: 3 or 4.

    Returns:
        uint8[pixels × channels].

    Raises:
        ValueError: An index is not in the palette.
    """

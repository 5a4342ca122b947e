"""Turning the hue of colours, in the colour space HLS (Joblove and Greenberg 1978)."""

from __future__ import annotations

import numpy as np

from bushel.compat.mxnet.ndarray import Array

__all__ = ["shifted_hue"]


def shifted_hue(image: Array, turns: float) -> Array:
    """Turn the hue; lightness and saturation stay.

    Args:
        image: HxWx3, RGB, 0 to 255.
        turns: By so many whole circles.

    Returns:
        float32[height, width, 3], 0 to 255.
    """
    rgb = image.astype(np.float32) / 255
    high, low = rgb.max(2), rgb.min(2)
    chroma = high - low
    middle = (high + low) / 2
    red, green, blue = np.moveaxis(rgb, 2, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        sixths = np.select(
            [chroma == 0, high == red, high == green],
            [np.float32(0), (green - blue) / chroma, (blue - red) / chroma + 2],
            (red - green) / chroma + 4,
        )
    sixths = (sixths + np.float32(6 * turns)) % 6
    # Each channel is a trapezoid over the circle, of the height of the chroma, in the middle around the lightness.
    place = (sixths[:, :, None] + np.array([0, 4, 2], np.float32)) % 6
    shape = np.clip(np.abs(place - 3) - 1, 0, 1)
    shifted: Array = (middle[:, :, None] + chroma[:, :, None] * (shape - np.float32(0.5))) * 255
    return shifted

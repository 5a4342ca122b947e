"""Depths of a camera as LeRobot stores them: codes of 12 bits in a grey video, which stand for metres."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from bushel._runtime.arrays import F32
from bushel.errors import SpecError

FORMAT = "gray12le"
"""FFmpeg's name of the pixel format of the codes."""

_HIGHEST = 4095


def depth_type(minimum: float, maximum: float, shift: float, logarithmic: bool) -> str:
    """Return the parameters of codec `frame` for a depth camera. Lengths are in metres.

    Examples:
        >>> from bushel.codecs.depth import depth_type
        >>> depth_type(0.01, 10, 3.5, True)
        'depth,0.01,10.0,3.5,log'
    """
    scale = ("linear", "log")[logarithmic]
    return f"depth,{float(minimum)!r},{float(maximum)!r},{float(shift)!r},{scale}"


@lru_cache(maxsize=64)
def metres_of_codes(codec: str) -> F32 | None:
    """Return float32[4096], the metres of each code; None if the codec is not of a depth camera.

    The arithmetic is that of LeRobot's `dequantize_depth`, step for step, so that every bit is the
    same.

    Args:
        codec: Such as `frame(depth,0.01,10.0,3.5,log)`.

    Raises:
        SpecError: The parameters are other numbers.
    """
    arguments = codec.partition("(")[2].removesuffix(")")
    if not arguments.startswith("depth"):
        return None
    texts = arguments.split(",")
    scale_name = texts[-1]
    try:
        numbers = list(map(float, texts[1:-1]))
    except ValueError:
        numbers = []
    is_log = scale_name == "log"
    is_finite = len(numbers) == 3 and all(map(math.isfinite, numbers))
    if not (is_finite and numbers[0] < numbers[1] and (is_log or scale_name == "linear")):
        raise SpecError(
            f"codec {codec!r}: the parameters of a depth camera are its least and greatest depth "
            "and the shift in metres, and 'log' or 'linear', as in 'frame(depth,0.01,10.0,3.5,log)'"
        )
    minimum, maximum, shift = numbers
    if is_log and minimum + shift <= 0:
        raise SpecError(f"codec {codec!r}: the logarithm needs a least depth plus shift above 0")
    lowest, highest = minimum, maximum
    if is_log:
        lowest, highest = math.log(minimum + shift), math.log(maximum + shift)
    metres = np.empty(_HIGHEST + 1, np.float32)
    np.multiply(np.arange(_HIGHEST + 1, dtype=np.uint16), (highest - lowest) / _HIGHEST, out=metres)
    np.add(metres, lowest, out=metres)
    if is_log:
        np.exp(metres, out=metres)
        np.subtract(metres, shift, out=metres)
    return np.clip(metres, minimum, maximum, out=metres)

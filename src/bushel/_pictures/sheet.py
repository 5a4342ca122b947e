"""Contact sheets: many samples in one picture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bushel._pictures.notebook import Readable, sample_pixels
from bushel.errors import BushelError

_GAP, _TEXT = 8, 14
_PAPER, _INK, _BAD = (250, 249, 246), (60, 56, 50), (168, 50, 31)


def contact_sheet(
    dataset: Readable,
    field: str,
    captions: Sequence[str],
    *,
    columns: int,
    side: int,
    first: int = 0,
) -> tuple[Any, int]:
    """Draw samples, in rows, with a caption below each.

    What cannot be read or decoded is an empty frame with a red caption.

    Returns:
        A Pillow image, and the number of samples that could not be drawn.
    """
    from PIL import Image, ImageDraw

    wide, high = side + _GAP, side + _TEXT + _GAP
    rows = max(1, -(-len(captions) // columns))
    sheet = Image.new("RGB", (columns * wide + _GAP, rows * high + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    bad = 0
    for number, caption in enumerate(captions):
        left, top = _GAP + number % columns * wide, _GAP + number // columns * high
        colour = _INK
        try:
            pixels = sample_pixels(dataset, first + number, field, side)
        except (BushelError, OSError):
            pixels, colour, bad = None, _BAD, bad + 1
        if pixels is None:
            draw.rectangle((left, top, left + side - 1, top + side - 1), outline=colour)
        else:
            height, width = pixels.shape[:2]
            place = (left + (side - width) // 2, top + (side - height) // 2)
            sheet.paste(Image.fromarray(np.ascontiguousarray(pixels)), place)
        draw.text((left, top + side + 1), _fitting(draw, caption, side), fill=colour)
    return sheet, bad


def _fitting(draw: Any, text: str, width: int) -> str:
    """Return the end of a text that fits. The end of a key distinguishes it better than its beginning."""
    text = text.encode("latin-1", "replace").decode("latin-1")  # what Pillow's built-in font has
    if draw.textlength(text) <= width:
        return text
    while text and draw.textlength("..." + text) > width:
        text = text[1:]
    return "..." + text

"""Decode JPEGs with Bushel, Pillow and OpenCV by turns in one process: each has a libjpeg of its own."""

from __future__ import annotations

import io

import cv2
import numpy as np
from PIL import Image

from bushel.codecs import get_codec


def main() -> None:
    """Compare the pixels of the three."""
    rng = np.random.default_rng(0)
    for number in range(20):
        shape = (int(rng.integers(16, 400)), int(rng.integers(16, 400)), 3)
        smooth = cv2.resize(rng.integers(0, 256, (8, 8, 3), np.uint8), shape[1::-1], interpolation=cv2.INTER_CUBIC)
        data = io.BytesIO()
        Image.fromarray(smooth).save(data, "JPEG", progressive=number % 2 == 1)  # libjpeg decodes progressive ones
        jpeg = data.getvalue()
        ours = get_codec("jpg").decode(jpeg)
        pillow = np.asarray(Image.open(io.BytesIO(jpeg)))
        opencv = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        np.testing.assert_array_equal(ours, pillow)
        assert np.abs(ours.astype(int) - opencv).max() <= 4
    print("Bushel, Pillow and OpenCV decode by turns")


if __name__ == "__main__":
    main()

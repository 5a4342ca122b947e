"""Decode JPEGs with Bushel, Pillow, OpenCV, and simplejpeg and torchvision if they are there, by turns in one process.

Each has a libjpeg of its own, some with the same names of functions.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from PIL import Image

from bushel.codecs import get_codec


def _opencv(jpeg: bytes) -> Any:
    found = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert found is not None
    return found[..., ::-1]


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """Return the decoders that are here, by the names of their packages."""
    found: dict[str, Callable[[bytes], Any]] = {
        "Pillow": lambda jpeg: np.asarray(Image.open(io.BytesIO(jpeg))),
        "OpenCV": _opencv,
    }
    if importlib.util.find_spec("simplejpeg"):
        import simplejpeg

        found["simplejpeg"] = simplejpeg.decode_jpeg
    if importlib.util.find_spec("torchvision"):
        import torch
        from torchvision.io import decode_jpeg

        found["torchvision"] = lambda jpeg: (
            decode_jpeg(torch.frombuffer(bytearray(jpeg), dtype=torch.uint8)).permute(1, 2, 0).numpy()
        )
    return found


def main() -> None:
    """Compare the pixels of all."""
    others = decoders()
    rng = np.random.default_rng(0)
    for number in range(20):
        shape = (int(rng.integers(16, 400)), int(rng.integers(16, 400)), 3)
        smooth = cv2.resize(rng.integers(0, 256, (8, 8, 3), np.uint8), shape[1::-1], interpolation=cv2.INTER_CUBIC)
        data = io.BytesIO()
        Image.fromarray(smooth).save(data, "JPEG", progressive=number % 2 == 1)  # libjpeg decodes progressive ones
        jpeg = data.getvalue()
        ours = get_codec("jpg").decode(jpeg)
        for name, decode in others.items():
            # Pillow and Bushel use the same algorithms; other versions of libjpeg round chroma in another way.
            difference = int(np.abs(ours.astype(int) - decode(jpeg)).max())
            assert difference <= (0 if name == "Pillow" else 4), (name, number, difference)
    print(f"Bushel, {', '.join(others)} decode by turns")


if __name__ == "__main__":
    main()

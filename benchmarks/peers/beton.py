"""Write JPEGs unchanged into a beton. FFCV's own field expects pixels and would encode them again."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES
from ffcv.writer import DatasetWriter
from PIL import Image


class StoredField(RGBImageField):  # type: ignore[misc]
    """An image field whose values are the bytes of JPEGs."""

    def encode(self, destination: Any, image: bytes, malloc: Callable[[int], tuple[int, Any]]) -> None:
        """Write a row of metadata, and the bytes."""
        with Image.open(io.BytesIO(image)) as header:
            destination["width"], destination["height"] = header.size
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["data_ptr"], storage = malloc(len(image))
        storage[:] = np.frombuffer(image, np.uint8)


def write(path: Path, photos: Iterable[bytes]) -> None:
    """Write a beton with the field `image`."""
    samples = [(data,) for data in photos]
    DatasetWriter(str(path), {"image": StoredField()}, num_workers=1).from_indexed_dataset(samples)

"""tf.data over JPEG files, with its decoding of crops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import crop
import tensorflow as tf


def prepare(path: str, variant: str) -> None:
    """Do nothing: nothing is kept between epochs."""


def _load(path: Any) -> Any:
    data = tf.io.read_file(path)
    begin, size, _ = tf.image.sample_distorted_bounding_box(
        tf.image.extract_jpeg_shape(data),
        tf.zeros([1, 0, 4]),
        min_object_covered=0,
        aspect_ratio_range=(3 / 4, 4 / 3),
        area_range=(0.08, 1),
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    top, left, _ = tf.unstack(begin)
    height, width, _ = tf.unstack(size)
    image = tf.image.decode_and_crop_jpeg(data, tf.stack([top, left, height, width]), channels=3)
    image = tf.image.resize(image, (crop.SIDE, crop.SIDE))
    return tf.cast(tf.image.random_flip_left_right(image), tf.uint8)


def epoch(path: str, variant: str, seed: int) -> Iterator[Any]:
    """Yield shuffled batches."""
    paths = sorted(map(str, Path(path).glob("*.jpg")))
    stream = tf.data.Dataset.from_tensor_slices(paths).shuffle(len(paths), seed=seed)
    stream = stream.map(_load, num_parallel_calls=tf.data.AUTOTUNE).batch(crop.BATCH).prefetch(tf.data.AUTOTUNE)
    yield from stream.as_numpy_iterator()

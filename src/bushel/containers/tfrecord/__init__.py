"""TFRecord, read where it lies."""

from bushel.containers.tfrecord.container import CONTAINER

__all__ = ["CONTAINER"]

"""TFRecord, read in place."""

from bushel.containers.tfrecord.container import CONTAINER

__all__ = ["CONTAINER"]

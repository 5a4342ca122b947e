"""MXNet RecordIO files, of raw records and of images."""

from bushel.containers.recordio.container import CONTAINER

__all__ = ["CONTAINER"]

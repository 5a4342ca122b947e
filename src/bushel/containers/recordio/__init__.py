"""MXNet RecordIO files, raw and of images."""

from bushel.containers.recordio.container import CONTAINER

__all__ = ["CONTAINER"]

"""ArrayRecord, read where it lies."""

from bushel.containers.arrayrecord.container import CONTAINER

__all__ = ["CONTAINER"]

"""ArrayRecord, read in place."""

from bushel.containers.arrayrecord.container import CONTAINER

__all__ = ["CONTAINER"]

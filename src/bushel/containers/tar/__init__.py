"""WebDataset shards: tar archives whose neighbouring members make a sample."""

from bushel.containers.tar.container import CONTAINER

__all__ = ["CONTAINER"]

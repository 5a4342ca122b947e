"""Parquet: https://parquet.apache.org/docs/file-format/."""

from bushel.containers.parquet.container import CONTAINER

__all__ = ["CONTAINER"]

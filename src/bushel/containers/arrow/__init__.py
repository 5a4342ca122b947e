"""Arrow IPC: https://arrow.apache.org/docs/format/Columnar.html."""

from bushel.containers.arrow.container import CONTAINER

__all__ = ["CONTAINER"]

"""LitData: https://github.com/Lightning-AI/litData."""

from bushel.containers.litdata.container import CONTAINER

__all__ = ["CONTAINER"]

"""`mxnet.gluon`: datasets and transforms, and the base classes of user-defined transforms."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from bushel.compat.mxnet.gluon import data

__all__ = ["Block", "HybridBlock", "data"]


class Block:
    """Calls `forward`, which a subclass defines."""

    def __call__(self, *args: Any) -> Any:
        return self.forward(*args)

    def forward(self, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define forward")


class HybridBlock(Block):
    """Calls `hybrid_forward` with the module `numpy` as its first argument, in place of MXNet's module."""

    def forward(self, *args: Any) -> Any:
        return self.hybrid_forward(np, *args)

    def hybrid_forward(self, F: ModuleType, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define hybrid_forward")

"""Base classes of transforms of one's own, which programs for MXNet derive from."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

__all__ = ["Block", "HybridBlock"]


class Block:
    """Calls `forward`."""

    def __call__(self, *args: Any) -> Any:
        """Transform a value."""
        return self.forward(*args)

    def forward(self, *args: Any) -> Any:
        """To be defined by the class that is derived."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward")


class HybridBlock(Block):
    """Calls `hybrid_forward` with the module `numpy` as its first argument, where MXNet gives one of its own."""

    def forward(self, *args: Any) -> Any:
        """Transform a value."""
        return self.hybrid_forward(np, *args)

    def hybrid_forward(self, F: ModuleType, *args: Any) -> Any:
        """To be defined by the class that is derived."""
        raise NotImplementedError(f"{type(self).__name__} defines no hybrid_forward")

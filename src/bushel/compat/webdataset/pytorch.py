"""PyTorch's classes where it is installed: a dataset must be an `IterableDataset` for its `DataLoader` to stream it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

__all__ = ["DataLoader", "IterableDataset", "is_tensor"]

if TYPE_CHECKING:

    class IterableDataset:
        """PyTorch's, or an empty class where there is none."""

    class DataLoader:
        """PyTorch's."""

        def __init__(self, *args: Any, **kw: Any) -> None: ...
        def __iter__(self) -> Iterator[Any]: ...

else:
    try:
        from torch.utils.data import DataLoader, IterableDataset
    except ModuleNotFoundError:

        class IterableDataset:
            """Stands for PyTorch's where there is none."""

        class DataLoader:
            """Says that there is no PyTorch."""

            def __init__(self, *args: Any, **kw: Any) -> None:
                raise ModuleNotFoundError("a WebLoader is PyTorch's DataLoader: `pip install torch`")


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of PyTorch, which then has been imported already."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)

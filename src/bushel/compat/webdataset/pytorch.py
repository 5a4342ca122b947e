"""PyTorch's classes if it is installed, which make its `DataLoader` stream a dataset; placeholders if not."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    class IterableDataset:
        """PyTorch's class, or an empty one."""

    class DataLoader:
        """PyTorch's class, or one that raises."""

        def __init__(self, *args: Any, **kw: Any) -> None: ...
        def __iter__(self) -> Iterator[Any]: ...

else:
    try:
        from torch.utils.data import DataLoader, IterableDataset
    except ModuleNotFoundError:

        class IterableDataset:
            """Placeholder without PyTorch."""

        class DataLoader:
            """Placeholder without PyTorch."""

            def __init__(self, *args: Any, **kw: Any) -> None:
                raise ModuleNotFoundError("WebLoader needs PyTorch: run `pip install torch`")


def is_tensor(value: object) -> bool:
    """Return whether a value is a PyTorch tensor, without importing PyTorch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)

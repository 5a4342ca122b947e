"""torchdata: a loader as a node of `torchdata.nodes`, with its state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bushel.errors import needed_by
from bushel.loader.loader import Loader

with needed_by("bushel.integrations.torchdata_nodes", "torchdata"):
    from torchdata.nodes import BaseNode

__all__ = ["LoaderNode"]


class LoaderNode(BaseNode[Any]):  # type: ignore[misc] # torchdata is an extra, which the checker does not follow
    """The batches of a `bushel.Loader` as a node: `torchdata.nodes.Loader(LoaderNode(loader))` is one epoch per `for`.

    Its state is the loader's, so an epoch is resumed at the next batch without reading the earlier
    ones.

    Args:
        loader: The loader.

    Examples:
        >>> import torchdata.nodes
        >>> from bushel.integrations.torchdata_nodes import LoaderNode
        >>> loader = torchdata.nodes.Loader(LoaderNode(bushel.Loader(ds, 4)))
        >>> [len(batch["label"]) for batch in loader]
        [4, 4, 4]
    """

    _STATE = "loader"

    def __init__(self, loader: Loader) -> None:
        super().__init__()
        self._loader = loader
        self._batches: Iterator[Any] = iter(())

    def reset(self, initial_state: dict[str, Any] | None = None) -> None:
        """Start the next epoch, or continue from a state."""
        super().reset(initial_state)
        if initial_state is not None:
            self._loader.load_state_dict(initial_state.get(self._STATE, {}))
        self._batches = iter(self._loader)

    def next(self) -> Any:
        """Return the next batch."""
        return next(self._batches)

    def get_state(self) -> dict[str, Any]:
        """Return the state of the loader."""
        return {self._STATE: self._loader.state_dict()}

"""GulpIO's adapters as sources."""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from bushel.errors import FormatError
from bushel.sources.base import Sample
from bushel.spec import KEY


class AdapterLike(Protocol):
    """The protocol of GulpIO's adapters."""

    def __len__(self) -> int:
        """Return the number of items."""
        ...

    def iter_data(self, slice_element: slice | None = None, /) -> Iterator[Mapping[str, Any]]:
        """Yield items with `id`, `frames` (RGB or grey arrays, or JPEG bytes) and `meta` (a dict)."""
        ...


class Adapter:
    """The items of an adapter: the fields `frames` and `meta`; the key is the id.

    The adapter yields one item at a time, to one thread at a time, since adapters keep state while
    they iterate. `processes=` runs several copies of one.

    Args:
        adapter: The adapter.

    Attributes:
        spec: `frames` as a sequence of JPEGs, and `meta` as JSON.

    Examples:
        >>> from bushel.sources import Adapter
        >>> class Grey:  # as GulpIO calls it
        ...     def __len__(self):
        ...         return 3
        ...     def iter_data(self, part):
        ...         for number in range(*part.indices(3)):
        ...             yield {"id": number, "frames": [np.full((8, 8), number, np.uint8)], "meta": {"label": number}}
        >>> bushel.pack(Adapter(Grey()), "grey/", container="gulp").samples
        3
    """

    spec: Mapping[str, str] = {"frames": "jpg[]", "meta": "json"}

    def __init__(self, adapter: AdapterLike) -> None:
        self._adapter = adapter
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"_adapter": self._adapter}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def __len__(self) -> int:
        return len(self._adapter)

    def __getitem__(self, position: int) -> Sample:
        if not 0 <= position < len(self):
            raise IndexError(f"position {position} is out of range for {len(self)} samples")
        with self._lock:
            # A copy, because some adapters cut their own list down to the requested slice.
            items = list(copy.copy(self._adapter).iter_data(slice(position, position + 1)))
        if len(items) != 1 or not len(items[0]["frames"]):
            raise FormatError(f"the adapter returned no frames for item {position}")
        [item] = items
        return {KEY: str(item["id"]), "frames": list(item["frames"]), "meta": dict(item["meta"])}

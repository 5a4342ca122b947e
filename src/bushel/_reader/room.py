"""Memory that a caller lends to a read, for the stored bytes of some fields of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bushel._runtime.structs import Struct


class Room(Struct, frozen=True):
    """Where the stored bytes of some fields go, so that a batch needs no bytes object for each.

    Attributes:
        names: The fields. Their values may become read-only memoryviews; bytes are as good.
        take: Returns uint8 of at least that many bytes; None for bytes objects.
    """

    names: frozenset[str]
    take: Callable[[int], npt.NDArray[np.uint8] | None]

"""Memory that a caller lends to a read, for the stored bytes of some fields of a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bushel._runtime.structs import Struct


class Room(Struct, frozen=True):
    """Where the stored bytes of some fields go, so that a batch needs no bytes object for each."""

    names: frozenset[str]  # the fields; their values may become read-only memoryviews; bytes are as good
    # returns uint8 of at least that many bytes; None for bytes objects
    take: Callable[[int], npt.NDArray[np.uint8] | None]

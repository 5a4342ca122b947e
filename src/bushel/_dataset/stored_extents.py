"""What a read of many samples will ask of the storage, before it is done."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bushel._dataset.reader import Reader
from bushel._index.read_plan import Elements
from bushel.storage import Extents, File

__all__ = ["stored_extents"]


def stored_extents(
    reader: Reader, positions: npt.NDArray[np.int64], wanted: Mapping[str, Elements], *, parts: bool
) -> list[tuple[list[File], Extents]]:
    """Return the extents that `Reader.read(decode=False, parts=parts)` reads together, with the files that they count.

    Raises:
        FormatError: A shard has changed, or damage touches one of the samples.
    """
    groups = reader.readable(positions)
    rest = reader.unknown(groups, wanted) if parts else wanted
    plan = reader.plan(groups, len(positions), rest, parts=parts)
    return [([reader.file(*each) for each in batch.files], batch.extents) for batch in plan.batches]

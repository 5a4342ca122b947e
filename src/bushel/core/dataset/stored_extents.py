"""What a read of many samples will ask of the storage, before it is done."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from bushel.core.dataset.reader import Reader
from bushel.core.dataset.shards import readable
from bushel.core.index.read_plan import Elements, plan_read
from bushel.storage import Extents, File

__all__ = ["stored_extents"]


def stored_extents(
    reader: Reader, positions: npt.NDArray[np.int64], wanted: Mapping[str, Elements], *, parts: bool
) -> list[tuple[list[File], Extents]]:
    """Return the extents that `Reader.read(decode=False, parts=parts)` reads together, with the files that they count.

    The list is empty if samples are read shard by shard, because only some shards have checksums.

    Raises:
        FormatError: A shard has changed, or damage touches one of the samples.
    """
    groups = readable(reader.shards, reader.starts, reader.groups(positions))
    rest = reader._known.unknown(groups, wanted) if parts else wanted
    if (verify := reader._verifies(groups, rest)) is None:
        return []
    plan = plan_read(groups, len(positions), rest, checksums=verify, parts=parts and not reader.verify)
    files = [reader.file(shard, number) for shard, number in plan.files]
    return [(files, extents) for extents in plan.extents]

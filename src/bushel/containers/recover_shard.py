"""Recovering the intact samples of a damaged shard, container by container (docs/integrity.md)."""

from __future__ import annotations

from bushel._index.table import Shard
from bushel.errors import FormatError, SpecError
from bushel.spec import Spec

from .base import ReadOptions
from .recovery import Fault, Recovered
from .registry import get_container


def recover_shard(
    container: str, shard: Shard, spec: Spec | None, fault: Fault
) -> Recovered | None:
    """Return a table of the intact samples of a shard, or None if no sample is intact or can be located.

    Args:
        container: Name of the container.
        shard: The files of the shard.
        spec: Its fields if they are known, or None.
        fault: Called with an error for everything that is left out.

    Raises:
        OSError: A file cannot be read.
    """
    reader = get_container(container)
    missing = [path for path in shard.paths if not path.exists()]
    if missing:
        fault(FormatError("without this file, its shard has no intact sample", missing[0]))
        return None
    try:
        try:
            return reader.recover(shard, ReadOptions(spec=spec, recorded=spec or ()), fault)
        except SpecError:
            return reader.recover(shard, ReadOptions(), fault)
    except (FormatError, SpecError) as error:
        fault(error if isinstance(error, FormatError) else FormatError(str(error), shard.path(0)))
        return None

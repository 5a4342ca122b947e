"""Recovering the intact samples of a damaged shard, container by container (docs/integrity.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bushel.containers.bag.recover import recover as recover_bag
from bushel.containers.base import ReadOptions, Shard
from bushel.containers.ffrecord.recover import recover as recover_ffrecord
from bushel.containers.gulp.recover import recover as recover_gulp
from bushel.containers.recordio.recover import recover as recover_recordio
from bushel.containers.recovery import Fault, Recovered
from bushel.containers.tar.recover import recover as recover_tar
from bushel.errors import FormatError, SpecError
from bushel.spec import Spec

__all__ = ["recover_shard"]


def recover_shard(container: str, shard: Shard, spec: Spec | None, fault: Fault) -> Recovered | None:
    """Return a table of the intact samples of a shard; None if there are none, or none can be located.

    Args:
        container: Name of the container.
        shard: The files of the shard.
        spec: Its fields if they are known, or None.
        fault: Called with an error for everything that is left out.

    Raises:
        OSError: A file cannot be read.
    """
    recover = _CONTAINERS.get(container)
    if recover is None:
        fault(FormatError(f"samples of a damaged {container} cannot be recovered", file=str(shard.path(0))))
        return None
    missing = [name for name in shard.files if not (shard.root / name).exists()]
    if missing:
        fault(FormatError("without this file, its shard has no intact sample", file=str(shard.root / missing[0])))
        return None
    try:
        try:
            return recover(shard, ReadOptions(spec=spec), fault)
        except SpecError:
            return recover(shard, ReadOptions(), fault)
    except (FormatError, SpecError) as error:
        fault(error if isinstance(error, FormatError) else FormatError(str(error), file=str(shard.path(0))))
        return None


_CONTAINERS: Mapping[str, Callable[[Shard, ReadOptions, Fault], Recovered]] = {
    "bag": recover_bag,
    "ffrecord": recover_ffrecord,
    "gulp": recover_gulp,
    "recordio": recover_recordio,
    "tar": recover_tar,
}

"""Shards with a damaged structure: the samples that can be read, and the errors of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._index.shard import Shard
from bushel._index.table import ShardIndex
from bushel._runtime.arrays import Bools
from bushel._runtime.messages import count, few, warn
from bushel.containers.base import ReadOptions
from bushel.containers.registry import get_container, recovery_of
from bushel.errors import CorruptError, DamagedWarning, FormatError, SpecError
from bushel.spec import Spec
from bushel.storage import is_local

from .caller_fields import with_recorded_names

if TYPE_CHECKING:
    from bushel.containers.recovery import Fault, Recovered

HOW_TO_REPAIR = (
    "`bushel verify` lists the damage, and `bushel repair` "
    "writes the intact samples to a new dataset"
)

_REMOTE = 1 << 26
"""Largest remote shard in bytes that is looked through for intact samples, which can take several passes."""


class Damage(Struct, frozen=True):
    """The damage of a shard."""

    error: FormatError  # the error at which indexing it ended
    # bool[samples], whether a sample can be read; the rows of the others have the extents of
    # another sample
    whole: Bools
    lost: int  # number of samples that are known to have existed and have no row
    # by row, the errors of samples that are known to have one of their own
    errors: Mapping[int, FormatError]

    @property
    def unreadable(self) -> int:
        """Number of samples in the table that cannot be read."""
        return int(np.count_nonzero(~self.whole))

    def error_of(self, row: int, key: str) -> FormatError:
        """Return the error of a sample that cannot be read."""
        error = self.errors.get(row, self.error)
        reason = ", because the structure of its shard is damaged"
        details: dict[str, Any] = {**error.details, "hint": HOW_TO_REPAIR}
        if isinstance(error, CorruptError):
            details["key"], reason = key, ""
        return type(error)(f"sample {key!r} cannot be read{reason}: {error.message}", **details)

    def describe(self) -> str:
        """Describe the samples that can be read, in words."""
        unreadable, samples = self.unreadable, count(len(self.whole), "sample")
        first = f"{samples} can be read"
        if unreadable:
            first = f"{unreadable:,} of {samples} cannot be read"
        if self.lost:
            return f"{first}, and at least {self.lost:,} {'is' if self.lost == 1 else 'are'} lost"
        if unreadable:
            return first
        return f"{first}, and others may be lost"


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
    missing = [path for path in shard.paths if not path.exists()]
    if missing:
        fault(FormatError("without this file, its shard has no intact sample", missing[0]))
        return None
    recover = recovery_of(container)
    try:
        try:
            return recover(shard, ReadOptions(spec=spec, recorded=spec or ()), fault)
        except SpecError:
            return recover(shard, ReadOptions(), fault)
    except (FormatError, SpecError) as error:
        fault(error if isinstance(error, FormatError) else FormatError(str(error), shard.path(0)))
        return None


def recovered_table(
    container: str, shard: Shard, options: ReadOptions, error: FormatError, known: ShardIndex | None
) -> tuple[ShardIndex, Damage]:
    """Return a table of a damaged shard, and which of its samples can be read.

    Args:
        container: Name of the container.
        shard: The shard.
        options: The user's declarations about the data.
        error: The error at which indexing it ended.
        known: A recorded table, whose fields and names of classes it gets, or None.

    Raises:
        FormatError: `error`, if no sample can be located; or a declared type does not fit.
        OSError: A file cannot be read.
    """
    from bushel.containers.recovery import with_gaps

    try:
        size = sum(int(path.stat().st_size) for path in shard.paths)
        # damaged records of a file whose tables are whole are found in a pass or two
        if size > _REMOTE and not (is_local(shard.root) or isinstance(error, CorruptError)):
            raise error
    except FileNotFoundError:  # which is the error
        raise error from None
    from traceback import clear_frames

    clear_frames(error.__traceback__)  # which hold what indexing had read
    declared, faults, recovered = options.spec or {}, list[FormatError](), None
    # the types of text follow from all of its values
    if known is not None and not get_container(container).stores_text:
        recovered = recover_shard(container, shard, {**known.spec, **declared}, faults.append)
    # other data, or other names, may have had those fields
    if recovered is None or not declared.keys() <= recovered.index.fields.keys():
        recovered = recover_shard(container, shard, options.spec, faults.append)
    # a declared type that does not fit whole records is found beside the damaged ones
    if recovered is None and isinstance(error, CorruptError) and faults[-1].offset is not None:
        raise faults[-1]
    if (
        recovered is None
        or not recovered.whole.any()
        or not declared.keys() <= recovered.index.fields.keys()
    ):
        raise error
    errors, recovered = recovered.errors, with_gaps(recovered)
    index = replace(recovered.index, container=container)
    if known is not None:
        index = with_recorded_names(index, known)
    reason = FormatError(error.message, error.file, error.offset)  # without its traceback
    rows = np.flatnonzero(~recovered.whole).tolist()  # the gaps, where each has an error of its own
    return index, Damage(
        reason, recovered.whole, max(recovered.lost, 0), dict(zip(rows, errors, strict=False))
    )


def warn_damaged(damages: Sequence[Damage]) -> None:
    """Warn the caller of `bushel.open` that shards are damaged."""
    named = few([f"{damage.error} ({damage.describe()})" for damage in damages], separator="; ")
    warn(f"the dataset is damaged: {named}. {HOW_TO_REPAIR}.", DamagedWarning)

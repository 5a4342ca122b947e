"""The options of a writer, and when a shard is full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast, get_args

from msgspec import Struct
from msgspec.structs import force_setattr

from bushel._index.names import names_of
from bushel._runtime.arrays import check_count
from bushel.storage import parse_bytes

Mode = Literal["create", "append", "resume", "overwrite"]

_SHARD_BYTES = 1 << 30
"""Size of a shard of a folder if the caller gives none."""


class WriterOptions(Struct, frozen=True, kw_only=True):
    """The arguments that decide how a dataset is written. `bushel.Writer` describes its arguments of these names.

    Attributes:
        container: Name of the container; None to derive it from the path or from the dataset there.
        mode: `create`, `append`, `resume` or `overwrite`.
        shard_samples: Number of samples in a shard, or None.
        shard_bytes: Number of bytes in a shard, as a number or as text; 0 for a folder of one
            shard; None for 1 GiB if `shard_samples` is None, too.
        generation: Generation of a bag, or None.
        expected: Number of samples that will be appended, which some containers use.
        folders: Paths of empty folders; None if samples are not files of a folder.
        sync: Whether to wait until a finished shard is on disk.
        labels: Names of classes by field; None keeps the names of the existing dataset.
        seek: Whether to make seek tables.
        columns: Columns to record in the index; None for the usual ones.
        forget_removed: Whether `overwrite` drops the lists of removed samples.
        first_number: Number that the first sample gets as its key if it has no key, where the
            container needs keys.

    Raises:
        TypeError: A number is not a whole one.
        ValueError: The mode is unknown, or a shard has less than one sample or a malformed size.
    """

    container: str | None = None
    mode: Mode = "create"
    shard_samples: int | None = None
    shard_bytes: int | str | None = None
    generation: str | None = None
    expected: int | None = None
    folders: tuple[str, ...] | None = None
    sync: bool = True
    labels: Mapping[str, Sequence[str]] | None = None
    seek: bool = False
    columns: tuple[str, ...] | None = None
    first_number: int = 0
    forget_removed: bool = False

    def __post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            modes = ", ".join(map(repr, get_args(Mode)))
            raise ValueError(f"invalid mode={self.mode!r}: write one of {modes}")
        if self.shard_samples is not None:
            samples = check_count("shard_samples", self.shard_samples, least=1)
            force_setattr(self, "shard_samples", samples)
        if self.shard_bytes is not None:
            force_setattr(self, "shard_bytes", parse_bytes(self.shard_bytes))

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> WriterOptions:
        """Return the arguments of a function, as `locals()` has them at its beginning; others are skipped."""
        options = {name: arguments[name] for name in cls.__struct_fields__ if name in arguments}
        if options.get("columns") is not None:
            options["columns"] = names_of(options["columns"])
        if options.get("folders") is not None:
            options["folders"] = tuple(options["folders"])
        return cls(**options)

    @property
    def divides(self) -> bool:
        """Whether the caller wants several shards, which one file cannot be."""
        return bool(self.shard_samples or self.shard_bytes)

    def limits(self, *, single: bool) -> ShardLimits:
        """Return the size at which a shard is full. One file has no limit."""
        size, estimated = self.shard_bytes, self.shard_bytes is None
        if estimated and not (single or self.shard_samples):
            size = _SHARD_BYTES
        return ShardLimits(self.shard_samples, cast("int", size) or None, estimated=estimated)


class ShardLimits(Struct, frozen=True):
    """The size at which a shard is finished and the next one is started."""

    samples: int | None  # number of samples, or None
    bytes: int | None  # number of bytes that the sample which fills a shard may exceed, or None
    # whether few datasets have that many bytes, so that all samples may fit into one shard
    estimated: bool = False

    def expected(self, total: int | None, written: int, before: int | None) -> int | None:
        """Return the number of samples that the next shard will probably get, or None if unknown.

        Args:
            total: Number of samples of all shards, if known.
            written: Number of samples of the shards so far.
            before: Number of samples of the last one of them, None without any.
        """
        if total is None or (before is None and self.bytes is not None and not self.estimated):
            return None
        counts = [max(total - written, 0), self.samples or total]
        if before is not None and self.bytes is not None:
            counts.append(before)
        return min(counts)

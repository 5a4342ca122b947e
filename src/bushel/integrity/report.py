"""What a verification found: values only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from bushel.errors import CorruptError, FormatError

__all__ = ["Findings", "Kind", "Problem", "Report", "Warn"]

Warn = Literal["stale", "unfinished"]
Kind = Literal["format", "missing", "read", "checksum", "index", "key", "decode", Warn]
"""What sort of problem it is:

- `format`: the structure of a file contradicts itself, or that of another file;
- `missing`: a file or a shard is not there;
- `read`: the system could not read a file;
- `checksum`: stored bytes are not those that were written;
- `index`: Bushel's index is damaged, or the files say something else than when it was made;
- `key`: two samples have the same key;
- `decode`: stored bytes do not decode;
- `stale` (a warning): the index is older than the data, so it could not be compared with them;
- `unfinished` (a warning): the remains of a write that was interrupted.
"""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: Path of the file, or None.
        offset: Byte offset in that file, or None.
        key: Key of the sample concerned, or None.
        field: Name of the field concerned, or None.
        kind: What sort of problem it is.
        message: What was expected and what was found.
    """

    file: str | None
    offset: int | None
    key: str | None
    field: str | None
    kind: Kind
    message: str

    @property
    def warning(self) -> bool:
        """Whether the data may be whole all the same."""
        return self.kind in ("stale", "unfinished")

    def __str__(self) -> str:
        where = "" if self.file is None else f"{self.file}: " if self.offset is None else f"{self.file}@{self.offset}: "
        names = (("sample", self.key), ("field", self.field))
        what = ", ".join(f"{word} {name!r}" for word, name in names if name is not None)
        return f"{self.kind}: {where}{what}{': ' if what else ''}{self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    """What `bushel.verify` found.

    Attributes:
        problems: The problems, shard by shard.
        samples: Samples whose place in the files is known.
        shards: Shards that could be told apart.
        bytes_checked: Stored bytes that were compared with a checksum.
        checksums_checked: Whether every field of every shard was compared with a checksum.
        more: Number of problems that were found and are not listed.
    """

    problems: tuple[Problem, ...]
    samples: int
    shards: int
    bytes_checked: int
    checksums_checked: bool
    more: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; warnings do not count."""
        return self.more == 0 and all(problem.warning for problem in self.problems)


@dataclass(slots=True)
class Findings:
    """Problems while they are being collected: the first `room` are kept, the others counted.

    Attributes:
        room: How many are kept.
        problems: Problems, each with the number of its sample in the shard when only that is known of it: a sample
            without a key is known by its position in the dataset, which a shard alone cannot tell.
        more: Number of those not kept.
    """

    room: int
    problems: list[tuple[Problem, int | None]] = field(default_factory=list)
    more: int = 0

    def add(self, problem: Problem, sample: int | None = None) -> None:
        """Take in one problem, unless another look at the same bytes has found it already."""
        if len(self.problems) < self.room:
            if (problem, sample) not in self.problems:
                self.problems.append((problem, sample))
        elif not problem.warning:
            self.more += 1

    def fault(self, error: FormatError, kind: Kind = "format") -> None:
        """Take in what an error says, except that `bushel verify` should be run."""
        hint = None if error.hint is None or "bushel verify" in error.hint else error.hint
        message = error.message if hint is None else f"{error.message} ({hint})"
        if isinstance(error.__cause__, FileNotFoundError):
            kind = "missing"
        if isinstance(error, CorruptError):
            self.add(Problem(error.file, error.offset, error.key, error.field, "checksum", message))
        else:
            self.add(Problem(error.file, error.offset, None, None, kind, message))

    def fail(self, error: OSError, file: str) -> None:
        """Take in that the system could not read a file."""
        name = error.filename if isinstance(error.filename, str) else file
        self.add(Problem(name, None, None, None, "read", error.strerror or str(error)))

    def extend(self, other: Findings, first: int) -> None:
        """Take in the findings of a shard whose first sample is number `first` of the dataset."""
        for problem, sample in other.problems:
            self.add(problem if sample is None else replace(problem, key=str(first + sample)))
        self.more += other.more

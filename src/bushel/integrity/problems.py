"""Problems of a dataset, and the result of a verification."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from msgspec import Struct

from bushel._index.shard import Keys
from bushel._runtime.messages import count
from bushel._runtime.public import public
from bushel.errors import CorruptError, FormatError

Warning = Literal["stale", "unfinished", "unchecked"]
Kind = Literal[
    "format",
    "missing",
    "stray",
    "incomplete",
    "read",
    "checksum",
    "appended",
    "replaced",
    "index",
    "key",
    "labels",
    "decode",
    Warning,
]
"""The kind of a problem:

- `format`: the structure of a file contradicts itself or another file;
- `missing`: a file or a shard does not exist;
- `stray`: a shard that the manifest of the dataset does not list;
- `incomplete`: the writer of the dataset has not finished;
- `read`: the operating system could not read a file;
- `checksum`: stored bytes do not match their checksum;
- `appended`: samples were added to a shard after it was indexed;
- `replaced`: a shard was replaced after it was indexed, and lacks samples or values that it had;
- `index`: Bushel's index is damaged, or the files contradict it;
- `key`: two samples have the same key;
- `labels`: a number stands for different classes in two shards, so the dataset cannot be opened as
  one;
- `decode`: stored bytes cannot be decoded;
- `stale` (a warning): the files changed after they were indexed, and the index shows no difference;
- `unfinished` (a warning): files of an interrupted write;
- `unchecked` (a warning): a part of the index cannot be made again, as a package is not installed.
"""


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of a dataset.

    Attributes:
        file: Path of the file, or None.
        offset: Byte offset in that file, or None.
        key: Key of the sample, or None.
        field: Name of the field, or None.
        kind: Kind of the problem.
        message: The expected and the found value, in words.

    Examples:
        >>> shard = Path("train/shard-000000.tar")
        >>> data = bytearray(shard.read_bytes())
        >>> data[1700] ^= 1  # damage the first photo
        >>> size = shard.write_bytes(data)
        >>> problem = bushel.verify("train/").problems[0]
        >>> problem.kind, problem.key, problem.field
        ('checksum', 'cat/0', 'image')
    """

    file: str | None
    offset: int | None
    key: str | None
    field: str | None
    kind: Kind
    message: str

    @property
    def warning(self) -> bool:
        """Whether the data may still be intact."""
        return self.kind in get_args(Warning)

    def __str__(self) -> str:
        at = "" if self.offset is None else f"@{self.offset}"
        where = "" if self.file is None else f"{self.file}{at}: "
        names = (("sample", self.key), ("field", self.field))
        what = ", ".join(f"{word} {name!r}" for word, name in names if name is not None)
        return f"{self.kind}: {where}{what}{': ' * bool(what)}{self.message}"


@public("bushel.integrity")
@dataclass(frozen=True, slots=True)
class VerifyResult:
    """The result of `bushel.verify`.

    Attributes:
        problems: The problems, shard by shard.
        samples: Number of samples whose extents are known.
        shards: Number of shards that were found.
        bytes_checked: Number of stored bytes that were compared with a checksum.
        checksums_checked: Whether every field of every shard was compared with a checksum.
        more: Number of problems that are not listed.
        bytes_total: Number of stored bytes of all fields.
        compared: Whether comparing with checksums was requested.

    Examples:
        >>> result = bushel.verify("train/")
        >>> result.ok, result.verdict, result.bytes_unchecked
        (True, 'ok', 0)
    """

    problems: tuple[Problem, ...]
    samples: int
    shards: int
    bytes_checked: int
    checksums_checked: bool
    more: int = 0
    bytes_total: int = 0
    compared: bool = True

    @property
    def ok(self) -> bool:
        """Whether no problems were found; warnings do not count. See `verdict` for whether all bytes were compared."""
        return self.more == 0 and all(problem.warning for problem in self.problems)

    @property
    def bytes_unchecked(self) -> int:
        """Number of stored bytes that were not compared with a checksum."""
        return max(self.bytes_total - self.bytes_checked, 0)

    @property
    def verdict(self) -> str:
        """The result in words: `ok` only if nothing is wrong and all values were compared with a checksum."""
        if not self.ok:
            wrong = sum(not problem.warning for problem in self.problems) + self.more
            return count(wrong, "problem")
        if any(problem.kind == "unchecked" for problem in self.problems):
            return "intact, but parts of the index were not compared"
        if not self.bytes_unchecked and (self.checksums_checked or not self.samples):
            return "ok"
        if not self.bytes_unchecked:  # all values are empty
            return (
                f"intact, but no value {'has' if self.compared else 'was compared with'} a checksum"
            )
        if self.compared:
            what = "have no checksum to compare with"
        else:
            what = "were not compared with a checksum"
        return f"intact, but {self.bytes_unchecked:,} of {self.bytes_total:,} bytes {what}"

    def __repr__(self) -> str:
        compared = f"{self.bytes_checked:,} bytes compared with checksums"
        return (
            f"<VerifyResult: {self.verdict}; {count(self.samples, 'sample')} "
            f"in {count(self.shards, 'shard')}, {compared}>"
        )

    def _repr_html_(self) -> str:
        from bushel._pictures.notebook import facts_html

        compared = f"{self.bytes_checked:,} of {self.bytes_total:,}"
        facts = [
            ("samples", f"{self.samples:,}"),
            ("shards", f"{self.shards:,}"),
            ("bytes compared with checksums", compared),
        ]
        rows = [
            (
                "warning: " * problem.warning + problem.kind,
                problem.file or "",
                "" if problem.offset is None else f"{problem.offset:,}",
                problem.key or "",
                problem.field or "",
                problem.message,
            )
            for problem in self.problems[:_SHOWN]
        ]
        more = len(self.problems) - len(rows) + self.more
        if rows:
            rows.insert(0, ("problem", "file", "offset", "sample", "field", "message"))
        note = f"<div>{more:,} more are not shown</div>" * (more > 0)
        return facts_html(f"Verified: {self.verdict}", facts, rows, note)


_SHOWN = 50  # number of problems that a notebook shows


class Findings(Struct):
    """A collection of problems: the first `room` are kept, the others are counted."""

    room: int  # number of problems to keep
    # problems, each with the number of its sample in the shard if the sample has no key: such a
    # sample is named by its position in the dataset, which depends on the other shards
    problems: list[tuple[Problem, int | None]] = []
    more: int = 0  # number of problems that were not kept
    # fields and samples of values of the shard whose damage was found
    damaged: set[tuple[str, int]] = set()

    def add(self, problem: Problem, sample: int | None = None) -> None:
        """Add a problem, unless it has been found before."""
        if len(self.problems) < self.room:
            if (problem, sample) not in self.problems:
                self.problems.append((problem, sample))
        elif not problem.warning:
            self.more += 1

    def add_file(
        self,
        file: object,
        kind: Kind,
        message: str,
        *,
        key: str | None = None,
        field: str | None = None,
    ) -> None:
        """Add a problem of a file, a folder or a shard, or of a key or a field that is the only thing wrong in it."""
        self.add(Problem(None if file is None else str(file), None, key, field, kind, message))

    def add_value(
        self,
        keys: Keys | None,
        sample: int | None,
        place: tuple[str, int | None],
        field: str | None,
        kind: Kind,
        message: str,
    ) -> None:
        """Add a problem of a value of a shard, given the shard's keys, the sample, and the file and offset."""
        key = None if keys is None or sample is None else keys[sample]
        self.add(Problem(*place, key, field, kind, message), sample if key is None else None)

    def add_error(self, error: FormatError, kind: Kind = "format") -> None:
        """Add the problem that an error reports, without its advice to run `bushel verify`."""
        message, key, field = error.message, None, None
        if error.hint is not None and "bushel verify" not in error.hint:
            message += f" ({error.hint})"
        if isinstance(error.__cause__, FileNotFoundError):
            kind = "missing"
        if isinstance(error, CorruptError):
            kind, key, field = "checksum", error.key, error.field
        self.add(Problem(error.file, error.offset, key, field, kind, message))

    def add_shard(self, other: Findings, first: int) -> None:
        """Add the findings of a shard whose first sample has the position `first` in the dataset."""
        for problem, sample in other.problems:
            self.add(problem if sample is None else replace(problem, key=str(first + sample)))
        self.more += other.more

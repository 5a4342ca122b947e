"""Compare the rest of a shard with its index: names of fields and classes, first and last bytes."""

from __future__ import annotations

from collections.abc import Sequence

from bushel._dataset.open.tables import stamp_of
from bushel._index.table import ShardIndex
from bushel.containers.base import Shard
from bushel.integrity.problems import Findings, Problem
from bushel.storage import File

_MEND = "`bushel repair` writes the samples again, with the names of the index"


def check_names(shard: Shard, before: ShardIndex, built: ShardIndex, found: Findings) -> None:
    """Report fields and classes whose names in the files differ from the index.

    The index may have more classes, as samples that were appended bring new ones along.
    """
    new, gone = [
        [name for name in one.fields if name not in other.fields] for one, other in ((built, before), (before, built))
    ]
    if new and gone:
        message = f"the files have {', '.join(map(repr, new))} where the index has {', '.join(map(repr, gone))}"
        found.add_file(shard.path(0), "index", f"the names of fields differ: {message}")
    for field, names in built.labels.items():
        pairs = enumerate(zip(before.labels.get(field, ()), names, strict=False))
        if (wrong := next(((number, *pair) for number, pair in pairs if pair[0] != pair[1]), None)) is not None:
            number, known, other = wrong
            message = f"class {number} is {known!r} in the index, but {other!r} in the file: {_MEND}"
            found.add(Problem(str(shard.path(0)), None, None, field, "index", message))


def check_first_and_last(kept: ShardIndex, files: Sequence[File], found: Findings) -> None:
    """Report files whose checksum differs from the index, which fits them by size and time, if nothing else was found.

    A byte that no value and no checksum covers was changed: of a header, or of a comment.
    """
    for stamp, file in zip(kept.files, files, strict=True) if not found.problems else ():
        if stamp.crc32 is not None and stamp_of(file) != stamp.crc32:
            message = (
                "bytes that belong to no value differ from the index, although the modification time is unchanged; "
                f"all values with checksums are intact: {_MEND}"
            )
            found.add_file(file.path, "index", message)

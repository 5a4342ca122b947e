"""`gulp2_sanity_check`."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bushel.compat.gulpio2 import sanity_utils
from bushel.compat.gulpio2.chunk import GulpChunk
from bushel.compat.gulpio2.errors import GulpWarning
from bushel.containers.gulp.naming import chunk_names, chunk_number
from bushel.errors import FormatError

__all__ = ["gulp2_sanity_check"]

_CHECKS = (
    ("Check for empty meta files", sanity_utils.check_meta_file_size_larger_zero),
    ("Check for empty data files", sanity_utils.check_data_file_size_larger_zero),
    ("Check data file size equals size in meta file", sanity_utils.check_data_file_size),
)


@dataclass(frozen=True, slots=True)
class _Readable:
    """The chunks that can be checked."""

    found: Sequence[GulpChunk]

    def chunks(self) -> Iterator[GulpChunk]:
        return iter(self.found)


def gulp2_sanity_check(arguments: list[str]) -> int:
    """Check a gulp directory; the names of files that fail are printed.

    Returns:
        0, or 1 if a check failed.

    Raises:
        FileNotFoundError: There is no such directory, or no gulp file in it.
    """
    parser = argparse.ArgumentParser(
        prog="bushel gulp2_sanity_check",
        description="Check that the files of a gulp directory are there, have content, and fit each other, and that "
        "no id appears twice. The exit code is 1 when a check fails. `bushel verify DIR` checks more, "
        "`bushel verify --decode` every frame.",
    )
    parser.add_argument("gulp_directory", help="where the gulp files are")
    folder = Path(parser.parse_args(arguments).gulp_directory)
    data, tables = chunk_names(folder)
    if not data and not tables:
        raise FileNotFoundError(f"{folder} holds no gulp files (data_0.gulp, meta_0.gmeta, ...)")
    chunks, broken = _open(folder, data, tables)
    readable = _Readable(chunks)
    results = [("Check that files come in pairs that can be opened", broken)]
    results += [(message, check(readable)) for message, check in _CHECKS]
    twice = sanity_utils.check_for_duplicate_ids(readable)
    results.append(("Check presence of duplicate ids", twice))
    for message, failures in results:
        sanity_utils.check_for_failures({"message": message, "failures": failures})
    for id_ in twice:
        print(f"    {id_!r} is in {', '.join(chunk.meta_file_path for chunk in chunks if id_ in chunk)}")
    return 1 if any(failures for _, failures in results) else 0


def _open(folder: Path, data: list[str], tables: list[str]) -> tuple[list[GulpChunk], list[str]]:
    """The chunks that can be opened, and the files that cannot, each with the reason."""
    partners = {chunk_number(folder, name): name for name in tables}
    chunks, broken = [], []
    for name in data:
        partner = partners.pop(chunk_number(folder, name), None)
        if partner is None:
            broken.append(f"{folder / name}: no .gmeta file belongs to it")
            continue
        try:
            with warnings.catch_warnings(category=GulpWarning, action="ignore"):  # a check of its own tells of it
                chunk = GulpChunk(folder / name, folder / partner)
            chunk.check()
        except FormatError as error:
            broken.append(str(error))
        else:
            chunks.append(chunk)
    broken += [f"{folder / name}: no .gulp file belongs to it" for name in partners.values()]
    return chunks, broken

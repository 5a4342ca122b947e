"""`gulp2_sanity_check`."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bushel.compat.gulpio2 import GulpChunk, sanity_utils
from bushel.compat.gulpio2.errors import GulpWarning
from bushel.containers.gulp import chunk_names, chunk_number
from bushel.errors import FormatError

_CHECKS = {
    "Check for empty meta files": sanity_utils.check_meta_file_size_larger_zero,
    "Check for empty data files": sanity_utils.check_data_file_size_larger_zero,
    "Check data file size equals size in meta file": sanity_utils.check_data_file_size,
    "Check presence of duplicate ids": sanity_utils.check_for_duplicate_ids,
}


def gulp2_sanity_check(arguments: list[str]) -> int:
    """Check a gulp directory, print the files that fail, and return 1 if there are any."""
    parser = argparse.ArgumentParser(
        prog="bushel gulp2_sanity_check",
        description="Check that the files of a gulp directory have content and match "
        "each other, and that no id appears twice. The exit code is 1 if a check "
        "fails. `bushel verify DIR` checks more, `bushel verify --decode` every frame.",
    )
    parser.add_argument("gulp_directory", help="folder of the gulp files")
    folder = Path(parser.parse_args(arguments).gulp_directory)
    data, tables = chunk_names(folder)
    if not data and not tables:
        raise FileNotFoundError(f"{folder} holds no gulp files (data_0.gulp, meta_0.gmeta, ...)")
    chunks, broken = _open(folder, data, tables)
    readable: Any = SimpleNamespace(chunks=lambda: iter(chunks))
    failures = {"Check that files come in pairs that can be opened": broken}
    failures |= {message: check(readable) for message, check in _CHECKS.items()}
    for message, failed in failures.items():
        sanity_utils.check_for_failures({"message": message, "failures": failed})
    for id_ in failures["Check presence of duplicate ids"]:
        print(
            f"    {id_!r} is in "
            f"{', '.join(chunk.meta_file_path for chunk in chunks if id_ in chunk)}"
        )
    return 1 if any(failures.values()) else 0


def _open(folder: Path, data: list[str], tables: list[str]) -> tuple[list[GulpChunk], list[str]]:
    """Return the chunks that can be opened, and the files that cannot, each with the reason."""
    partners = {chunk_number(folder, name): name for name in tables}
    chunks, broken = [], []
    for name in data:
        partner = partners.pop(chunk_number(folder, name), None)
        if partner is None:
            broken.append(f"{folder / name}: no .gmeta file belongs to it")
            continue
        try:
            # another check reports empty files
            with warnings.catch_warnings(category=GulpWarning, action="ignore"):
                chunk = GulpChunk(folder / name, folder / partner)
            chunk.check()
        except FormatError as error:
            broken.append(str(error))
        else:
            chunks.append(chunk)
    broken += [f"{folder / name}: no .gulp file belongs to it" for name in partners.values()]
    return chunks, broken

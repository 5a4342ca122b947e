"""Writing any sequence of bytes into FFRecord files."""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

from typing_extensions import Buffer

from bushel.compat.ffrecord.fileio import FileWriter, PathLike
from bushel.core.parallel import cpu_count

__all__ = ["dump"]

_PROCESSES = 16


class Records(Protocol):
    """What `dump` writes: records by number."""

    def __len__(self) -> int:
        """Number of records."""
        ...

    def __getitem__(self, index: int, /) -> Buffer:
        """One record."""
        ...


def dump(dataset: Records, fname: PathLike, nfiles: int, verbose: bool = False) -> None:
    """Write records into one file, or into the files `PART_00000.ffr` and so on of a folder.

    Several files are written by up to 16 processes, which are forked and so share the dataset as it is.

    Args:
        dataset: The records; anything with a length and bytes by number.
        fname: The file, ending in `.ffr`; with several files the folder.
        nfiles: Number of files. There are fewer, and a warning, where the records do not fill so many.
        verbose: Whether to print the name of each finished file.

    Raises:
        ValueError: `nfiles` is less than 1.
        Exception: What the dataset or the writer raised, in the first file in which one did. Files that are finished
            stay.
    """
    if nfiles < 1:
        raise ValueError(f"records go into 1 file or more, not {nfiles}")
    n = len(dataset)
    if nfiles == 1:
        _write(dataset, range(n), Path(fname), verbose)
        return
    each = max(-(-n // nfiles), 1)
    stretches = [range(start, min(start + each, n)) for start in range(0, n, each)] or [range(0)]
    if len(stretches) != nfiles:
        warnings.warn(f"Split into {len(stretches)} files rather than {nfiles} files", stacklevel=2)
    folder = Path(fname)
    folder.mkdir(parents=True, exist_ok=True)
    workers = min(_PROCESSES, len(stretches), max(cpu_count(), 2))
    with ProcessPoolExecutor(workers, get_context("fork"), _inherit, (dataset,)) as pool:
        parts = [
            pool.submit(_write_inherited, rows, folder / f"PART_{number:05d}.ffr", verbose)
            for number, rows in enumerate(stretches)
        ]
        for part in parts:
            part.result()


_inherited: list[Records] = []  # of a forked process: a dataset need not be picklable


def _inherit(dataset: Records) -> None:
    _inherited.append(dataset)


def _write_inherited(rows: range, path: Path, verbose: bool) -> None:
    _write(_inherited[0], rows, path, verbose)


def _write(dataset: Records, rows: range, path: Path, verbose: bool) -> None:
    with FileWriter(path, len(rows)) as writer:
        for row in rows:
            writer.write_one(dataset[row])
    if verbose:
        print(f"{path}: {len(rows)} samples", flush=True)

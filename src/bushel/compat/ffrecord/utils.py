"""Write any sequence of bytes into FFRecord files."""

from __future__ import annotations

import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path
from typing import Protocol

from typing_extensions import Buffer

from bushel.loader import cpu_count

from .fileio import FileWriter, PathLike

_PROCESSES = 16


class Records(Protocol):
    """A sequence of records: a length, and bytes by number."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Buffer: ...


def dump(dataset: Records, fname: PathLike, nfiles: int, verbose: bool = False) -> None:
    """Write records into a file, or into `nfiles` files `PART_00000.ffr`, …, of the folder `fname`.

    Up to 16 processes write several files. They are forked, so the dataset need not be picklable.
    If the records do not fill all files, there are fewer, and a warning. If the dataset or the
    writer fails, finished files stay.
    """
    if nfiles < 1:
        raise ValueError(f"nfiles must be at least 1, not {nfiles}")
    n = len(dataset)
    if nfiles == 1:
        _write(dataset, range(n), Path(fname), verbose)
        return
    size = max(-(-n // nfiles), 1)
    parts = [range(start, min(start + size, n)) for start in range(0, n, size)] or [range(0)]
    if len(parts) != nfiles:
        warnings.warn(f"Split into {len(parts)} files rather than {nfiles} files", stacklevel=2)
    folder = Path(fname)
    folder.mkdir(parents=True, exist_ok=True)
    workers = min(_PROCESSES, len(parts), max(cpu_count(), 2))
    with ProcessPoolExecutor(workers, get_context("fork"), _inherit, (dataset,)) as pool:
        paths = [folder / f"PART_{number:05d}.ffr" for number in range(len(parts))]
        list(pool.map(_write_inherited, parts, paths, repeat(verbose)))


_inherited: list[Records] = []  # the dataset, in a forked process


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

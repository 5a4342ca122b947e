"""Benchmark of the index of formats that are read in place, beside `cat` of the same files: CPU time and memory.

    python benchmarks/indexing.py --out indexing.json     150,000 samples of 8 KB, from files in memory
    python benchmarks/indexing.py --count 600000          5 GB each
    python benchmarks/indexing.py --small                 a tenth of them, fewer rounds

Each measurement is a process of its own, in turns: `bushel.open(..., index="memory")`, whose table is not stored, and
`bushel.index`, which stores it with checksums. Rates are bytes of the files by CPU time, so that other work on the
machine disturbs them little. Memory is the peak of pages that belong to no file. `text_lines.py` has JSON lines and
CSV. The packages that write come from `python interop/environments.py foreign`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure import (
    SCRATCH,
    Timing,
    cat,
    console,
    how_to_make,
    in_turns,
    interpreter,
    options_parser,
    run_watched,
    save,
    show,
)

KINDS = (
    "tar",
    "zip",
    "parquet",
    "arrow",
    "mds",
    "litdata",
    "tfrecord",
    "tfrecord-short",
    "arrayrecord-plain",
    "megatron",
    "npy",
)
SCRIPT = Path(__file__).resolve().parent / "peers" / "peer_foreign.py"
ENVIRONMENTS = {kind: None if kind in ("tar", "zip", "parquet", "arrow") else "foreign" for kind in KINDS}
"""Who writes a dataset: this interpreter, whose package pyarrow two need, or the environment of the packages."""
SHORT = 16
"""Records of 180 bytes for each sample of 8 KB."""


def files(folder: Path) -> list[Path]:
    """Return the files of a dataset."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and ".bushel" not in path.parts)


def measure_one(way: str, folder: Path) -> None:
    """Print the CPU seconds of one opening."""
    import bushel

    def work(of: Path) -> None:
        spec = {"data": "bytes"} if "array" in of.name else None
        if way == "open":
            bushel.open(of, index="memory", spec=spec)
        else:
            bushel.index(of, spec=spec, force=True)

    work(folder.with_name(f"{folder.name}-tiny"))  # imports
    shutil.rmtree(folder / ".bushel", ignore_errors=True)
    cpu = time.process_time()
    work(folder)
    print(json.dumps({"cpu": time.process_time() - cpu}))


def measured(way: str, folder: Path, memory: dict[str, int], _: int) -> Timing:
    """Open or index a dataset in a process of its own; the items are bytes."""
    if way == "cat":
        return cat(files(folder))
    printed, anonymous = run_watched([sys.executable, __file__, "--one", way, str(folder)])
    key = f"{way}, {folder.name}"
    memory[key] = max(memory.get(key, 0), anonymous)
    cpu = json.loads(printed.splitlines()[-1])["cpu"]
    return Timing(sum(path.stat().st_size for path in files(folder)), cpu, cpu)


def write(kind: str, folder: Path, count: int) -> None:
    """Write a dataset, unless it is there."""
    if not folder.exists():
        subprocess.run([interpreter(ENVIRONMENTS[kind]), SCRIPT, "write", kind, folder, str(count)], check=True)


def main() -> int:
    """Measure, and print or save."""
    parser = options_parser(__doc__, "a tenth of the samples, and fewer rounds")
    parser.add_argument("--rounds", type=int, help="default: 3")
    parser.add_argument("--count", type=int, default=150_000, help="samples of 8 KB; default: 150,000")
    parser.add_argument("--only", action="append", choices=KINDS)
    parser.add_argument("--keep", action="store_true", help="keep the files for another run")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FOLDER"), help="only this measurement")
    options = parser.parse_args()
    if options.one:
        measure_one(options.one[0], Path(options.one[1]))
        return 0
    skipped = {kind: how_to_make(own) for kind, own in ENVIRONMENTS.items() if not interpreter(own).exists()}
    if find_spec("pyarrow") is None:
        skipped |= dict.fromkeys(("parquet", "arrow"), "pyarrow is not installed")
    count = options.count // 10 if options.small else options.count
    results: dict[str, Any] = {}
    memory: dict[str, int] = {}
    for kind in options.only or KINDS:
        if kind in skipped:
            console.print(f"{kind}: {skipped[kind]}")
            continue
        folder = SCRATCH / f"indexing-{count}" / kind
        write(kind, folder, count * SHORT if kind == "tfrecord-short" else count)
        write(kind, folder.with_name(f"{kind}-tiny"), 8)
        ways: dict[str, Callable[[int], Timing]] = {
            way: partial(measured, way, folder, memory) for way in ("cat", "open", "stored")
        }
        results[kind] = in_turns(ways, options.rounds or (2 if options.small else 3))
        show(f"{kind}: bytes by CPU time", "bytes", results[kind], ["cat"])
        for way in ("open", "stored"):
            console.print(f"{way}: {memory[f'{way}, {kind}'] / 1e6:,.0f} MB not of files")
        if not options.keep:
            shutil.rmtree(folder)
    save(options.out, {**results, "memory": memory}, skipped)
    return 0


if __name__ == "__main__":
    sys.exit(main())

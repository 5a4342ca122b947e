"""Benchmark of the first opening of JSON lines and CSV: CPU time and memory of making the index, and of reading all.

    python benchmarks/text_lines.py --out lines.json
    python benchmarks/text_lines.py --small                 a tenth of the bytes, fewer rounds

Each measurement is a process that reads one file, which is in memory: `cat`, the index of Bushel, which is not stored,
the same stored with checksums as `bushel index` does, and packages that read the whole file into memory. Memory is the
peak of resident pages, and that of pages that are not of files. Rates are bytes of the file by CPU time, so that other
work on the machine disturbs them little.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import bushel
from measure import SCRATCH, Timing, cat, in_turns, options_parser, run_watched, save, show

FILES = {"text.jsonl": 300, "short.jsonl": 8, "rows.csv": 8}
"""Files, and the words of text in each of their lines."""
WAYS = ("cat", "bushel", "stored", "pyarrow", "polars")
ROWS = 4000


def write(path: Path, words: int, size: int) -> None:
    """Write a file of at least this size: lines that are repeated."""
    rng = random.Random(path.name)
    known = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 10))) for _ in range(5000)]
    lines = []
    for number in range(ROWS):
        text = " ".join(rng.choices(known, k=words))
        if path.suffix == ".csv":
            lines.append(f'{number},"{text}, and more",{number % 10},{rng.random()}')
        else:
            tags = {"url": f"https://example.com/{number}", "tags": [1, 2, 3]}
            text = f'{text}\n"quoted"' if number % 3 == 0 else text
            row = {"id": number, "text": text, "label": number % 10, "score": rng.random(), "meta": tags}
            lines.append(json.dumps(row))
    block = ("\n".join(lines) + "\n").encode()
    with path.open("wb") as file:
        if path.suffix == ".csv":
            file.write(b"id,text,label,score\n")
        for _ in range(-(-size // len(block))):
            file.write(block)


def read(way: str, path: Path) -> int:
    """Index or read a file, and return the number of rows."""
    if way in ("bushel", "stored"):
        shutil.rmtree(path.parent / ".bushel", ignore_errors=True)
    if way == "bushel":
        return len(bushel.open(path, index="memory"))
    if way == "stored":
        return len(bushel.index(path))
    if way == "polars":
        polars: Any = import_module("polars")
        height: int = (polars.read_csv if path.suffix == ".csv" else polars.read_ndjson)(path).height
        return height
    from pyarrow import csv
    from pyarrow import json as lines

    rows: int = (csv.read_csv if path.suffix == ".csv" else lines.read_json)(path).num_rows
    return rows


def measure_one(way: str, path: Path) -> None:
    """Print the CPU seconds of one reading, and the peak of resident memory."""
    read(way, path.with_name(f"tiny-{path.name}"))  # imports
    cpu = time.process_time()
    read(way, path)
    cpu = time.process_time() - cpu
    peak = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    print(json.dumps({"cpu": cpu, "peak": peak}))


def measured(way: str, path: Path, memory: dict[str, Any], number: int) -> Timing:
    """Read a file in a process of its own."""
    if way == "cat":
        return cat([path])
    printed, anonymous = run_watched([sys.executable, __file__, "--one", way, str(path)])
    found = json.loads(printed)
    memory[f"{way}, {path.name}"] = {"peak": found["peak"], "anonymous": anonymous}
    return Timing(path.stat().st_size, found["cpu"], found["cpu"])


def main() -> None:
    """Measure all files."""
    parser = options_parser(__doc__, "fewer rounds")
    parser.add_argument("--one", nargs=2, metavar=("WAY", "FILE"), help="only this measurement")
    options = parser.parse_args()
    if options.one:
        measure_one(options.one[0], Path(options.one[1]))
        return
    skipped = {way: "not installed" for way in WAYS[3:] if find_spec(way) is None}
    results: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    folder = SCRATCH / "lines"
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in FILES.items():
        path = folder / name
        write(path.with_name(f"tiny-{name}"), words, 1)
        write(path, words, 40_000_000 if options.small else 200_000_000)
        ways: dict[str, Callable[[int], Timing]] = {
            way: partial(measured, way, path, memory) for way in WAYS if way not in skipped
        }
        rates = in_turns(ways, 2 if options.small else 3)
        show(f"{name}: bytes by CPU time", "bytes", rates, ["cat"])
        results[name] = rates
    for way, own in memory.items():
        print(f"{way}: {own['peak'] / 1e6:,.0f} MB, {own['anonymous'] / 1e6:,.0f} MB not of files")
    save(options.out, {**results, "memory": memory}, skipped)


if __name__ == "__main__":
    main()

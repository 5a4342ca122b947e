"""Benchmark of how the Loader scales over processors: photos, tokens and clips, with threads and with worker processes.

    python benchmarks/scaling.py --out scaling.json        1, 2, 4, 8 and 16 processors, as far as the machine has them
    python benchmarks/scaling.py --small                   a tenth of the data, fewer rounds

A setting of N processors is a process that may run on N processors only, with N threads (`workers=N`) or N worker
processes of one thread each (`processes=N, workers=1`). The settings take turns, and the first epoch of each is not
counted. "of N×" is the rate divided by N times the rate with one processor and threads: 1 is perfect scaling.
Simultaneous multithreading makes the second half of a machine's processors count for less than the first: the table
names the number of cores beside the number of processors.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import bushel
import crops
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop
from measure import SCRATCH, Rate, Timing, console, in_turns, options_parser, save

PROCESSORS = (1, 2, 4, 8, 16, 32, 64)
KINDS = ("photos", "tokens", "clips")
TOKENS = 4096
SIDE = 224


@dataclass(frozen=True, slots=True)
class Setting:
    """One contestant: its data, on how many processors, with threads or with worker processes."""

    kind: str
    processors: int
    processes: bool

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.kind}, {self.processors} {'processes' if self.processes else 'threads'}"


def fill(kind: str, small: bool) -> Path:
    """Write the dataset of a kind if it does not exist."""
    if kind != "tokens":
        case = next(case for case in crops.CASES if case.name == ("photos" if kind == "photos" else "clips of 16"))
        return crops.fill(case, case.images // 10 if small else case.images, None) / "plain"
    count = 10_000 if small else 100_000
    path = SCRATCH / f"tokens-{count}"
    if not path.exists():
        console.print(f"writing {path.name}")
        rows = np.random.default_rng(0).integers(0, 50_000, (count, TOKENS), np.uint16)
        with bushel.Writer(path, {"tokens": "array"}, container="bag", mode="overwrite") as writer:
            for row in rows:
                writer.append({"tokens": row})
    return path


def epochs(kind: str, path: Path, processors: int, processes: bool) -> Iterator[tuple[int, bushel.Loader]]:
    """Load epochs without end; yield the number of items of each, and the loader."""
    image: list[Any] = [RandomResizedCrop(SIDE), RandomHorizontalFlip()]
    options: dict[str, Any] = {"workers": 1, "processes": processors} if processes else {"workers": processors}
    if kind == "photos":
        options["transforms"] = {"image": image}
    elif kind == "clips":
        options |= {"transforms": {"frames": [EachFrame(image)]}, "collate": {"frames": "stack"}}
    batch = {"photos": 128, "clips": 8, "tokens": 256}[kind]
    loader = bushel.Loader(bushel.open(path), batch, shuffle=True, seed=0, **options)
    while True:
        items = 0
        for arrays in loader:
            [values] = (value for value in arrays.values() if isinstance(value, np.ndarray) and value.dtype.kind == "u")
            items += values.shape[0] * (values.shape[1] if kind == "clips" else 1)
        yield items, loader


def serve(kind: str, path: Path, processors: int, processes: bool) -> None:
    """Measure an epoch for each line of standard input. This is the process of a setting."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    running = epochs(kind, path, processors, processes)
    next(running)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), _cpu()
        items, loader = next(running)
        done = asdict(Timing(items, time.perf_counter() - wall, _cpu() - cpu))
        print(json.dumps(done), flush=True)


def _cpu() -> float:
    """Return the CPU seconds of this process and of its worker processes, those that have ended too."""
    ended = os.times()
    own = time.process_time() + ended.children_user + ended.children_system
    tick = os.sysconf("SC_CLK_TCK")
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended
        if int(fields[1]) == os.getpid():
            own += (int(fields[11]) + int(fields[12])) / tick
    return own


class Serving:
    """The process of a setting."""

    def __init__(self, setting: Setting, path: Path) -> None:
        command = [sys.executable, __file__, "--serve", setting.kind, str(path), str(setting.processors)]
        self._process = subprocess.Popen(
            [*command, *(["--processes"] if setting.processes else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, number: int) -> Timing:
        """Measure one epoch."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process of a setting ended with {self._process.wait()}")
        return Timing(**json.loads(line))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def show(kind: str, settings: list[Setting], rates: dict[str, Rate]) -> None:
    """Print the rates of a kind and how far each is from perfect scaling."""
    items = {"photos": "photos", "clips": "frames", "tokens": "rows"}[kind]
    table = Table("", title=f"{kind} ({_cores()})", title_justify="left")
    for heading in (f"{items}/s", "slowest", "fastest", "CPU µs", "÷ 1 thread", "of N×"):
        table.add_column(heading, justify="right")
    one = rates[Setting(kind, 1, processes=False).name].rate
    for setting in settings:
        rate = rates[setting.name]
        speedup = rate.rate / one
        figures = (rate.rate, rate.lowest, rate.highest)
        cpu = "" if rate.cpu_us is None else f"{rate.cpu_us:,.1f}"
        ratios = (f"{speedup:.2f}", f"{speedup / setting.processors:.2f}")
        table.add_row(setting.name, *(f"{figure:,.0f}" for figure in figures), cpu, *ratios)
    console.print(table)


def _cores() -> str:
    """Return the number of processors and, where the system says it, of the cores that they share."""
    siblings = {path.read_text() for path in Path("/sys/devices/system/cpu").glob("cpu*/topology/thread_siblings_list")}
    processors = len(os.sched_getaffinity(0))
    return f"{processors} processors, {len(siblings)} cores" if siblings else f"{processors} processors"


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Scaling of the Loader over processors.", "a tenth of the data, fewer rounds")
    parser.add_argument(
        "--kinds", nargs="+", choices=("photos", "tokens", "clips"), default=["photos", "tokens", "clips"]
    )
    parser.add_argument("--serve", nargs=3, metavar=("KIND", "PATH", "PROCESSORS"), help=argparse.SUPPRESS)
    parser.add_argument("--processes", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        kind, path, processors = options.serve
        serve(kind, Path(path), int(processors), options.processes)
        return
    available = len(os.sched_getaffinity(0))
    counts = [count for count in PROCESSORS if count <= available]
    results: dict[str, Any] = {}
    for kind in options.kinds:
        path = fill(kind, options.small)
        settings = [Setting(kind, count, processes) for processes in (False, True) for count in counts]
        running = {setting.name: Serving(setting, path) for setting in settings}
        try:
            rates = in_turns(running, 2 if options.small else 5)
        finally:
            for serving in running.values():
                serving.close()
        show(kind, settings, rates)
        results[kind] = rates
    skipped = {f"{count} processors": f"there are {available}" for count in PROCESSORS[:5] if count > available}
    if shutil.which("lscpu"):
        results["lscpu"] = subprocess.run(["lscpu"], check=True, capture_output=True, text=True).stdout
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()

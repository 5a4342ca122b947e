"""Benchmark of how the Loader scales over processors: photos, tokens and clips, with threads and with worker processes.

    python benchmarks/scaling.py --out scaling.json        1, 2, 4, 8 and 16 processors, as far as the machine has them
    python benchmarks/scaling.py --small                   a tenth of the data, fewer rounds

A setting of N processors is a process that may run on N processors only, with N threads (`threads=N`) or N worker
processes of one thread each (`processes=N, threads=1`). The settings take turns, and the first epoch of each is not
counted. "of N×" is the rate divided by N times the rate with one processor and threads: 1 is perfect scaling.
With `--kinds pauses`, a pause of half a millisecond per photo, in which no thread needs a processor or the interpreter,
takes the place of the decoder. So a machine with few processors shows how far the interpreter lets threads scale, as
long as their work beside decoding fits on it. It is a model: real threads share caches, too.

Simultaneous multithreading, shared caches and a clock that falls under load make a machine's last processors count for
less than its first: "kernel alone" is N processes that decode photos from memory without a Loader, the limit.
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
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.table import Table

import bushel
import crops
from bushel.kernels import jpeg_header
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop
from bushel.transforms.fused import plan_decode
from images import BATCH, kernel
from measure import SCRATCH, Rate, Timing, console, in_turns, options_parser, save

PROCESSORS = (1, 2, 4, 8, 16, 32, 64)
KINDS = ("photos", "tokens", "clips", "pauses")
WAYS = ("threads", "processes", "kernel alone")
KERNEL_SECONDS = 2
PAUSE_SECONDS = 0.0005
TOKENS = 4096
SIDE = 224


@dataclass(frozen=True, slots=True)
class Setting:
    """One contestant: its data, on how many processors, and one of `WAYS`."""

    kind: str
    processors: int
    way: str

    @property
    def name(self) -> str:
        """Name in tables."""
        return f"{self.kind}, {self.processors} {self.way}"


def fill(kind: str, small: bool) -> Path:
    """Write the dataset of a kind if it does not exist."""
    if kind != "tokens":
        case = next(case for case in crops.CASES if case.name == ("clips of 16" if kind == "clips" else "photos"))
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


def epochs(kind: str, path: Path, processors: int, processes: bool) -> Iterator[int]:
    """Load epochs without end; yield the number of items of each."""
    image: list[Any] = [RandomResizedCrop(SIDE), RandomHorizontalFlip()]
    options: dict[str, Any] = {"threads": 1, "processes": processors} if processes else {"threads": processors}
    if kind in ("photos", "pauses"):
        options["transforms"] = {"image": image}
    elif kind == "clips":
        options |= {"transforms": {"frames": [EachFrame(image)]}, "collate": {"frames": "stack"}}
    batch = {"photos": 128, "clips": 8, "tokens": 256, "pauses": 128}[kind]
    dataset = bushel.open(path)
    times = (max(1, processors // 2) if processors > 2 else processors) * (5 if kind == "tokens" else 1)
    repeated = dataset[np.tile(np.arange(len(dataset)), times)]
    loader = bushel.Loader(repeated, batch, shuffle=True, seed=0, **options)
    while True:
        items = 0
        for arrays in loader:
            [values] = (value for value in arrays.values() if isinstance(value, np.ndarray) and value.dtype.kind == "u")
            items += values.shape[0] * (values.shape[1] if kind == "clips" else 1)
        yield items


def pause(datas: list[bytes], *_: object, **__: object) -> list[Any]:
    """Take the time of a decoder, without a processor."""
    time.sleep(PAUSE_SECONDS * len(datas))
    return []


def kernels(path: Path, processors: int) -> Iterator[int]:
    """Decode photos in processes, and yield how many of them were decoded each time."""
    datas = [sample["image"] for sample in bushel.open(path).read(range(BATCH), decode=False)]
    plan = plan_decode([RandomResizedCrop(SIDE), RandomHorizontalFlip()])
    rng = np.random.Generator(np.random.Philox(0))
    rows = np.array([plan.geometry(*jpeg_header(data)[:2], rng).row for data in datas], np.int32)
    with ProcessPoolExecutor(processors) as pool:
        while True:
            yield sum(pool.map(_decoded, [datas] * processors, [rows] * processors))


def _decoded(datas: list[bytes], rows: npt.NDArray[np.int32]) -> int:
    """Decode a batch again and again for some seconds, and return the number of photos."""
    run, photos, start = kernel(datas, rows), 0, time.perf_counter()
    while time.perf_counter() - start < KERNEL_SECONDS:
        run()
        photos += len(datas)
    return photos


def serve(kind: str, path: Path, processors: int, way: str) -> None:
    """Measure an epoch for each line of standard input. This is the process of a setting."""
    if kind == "pauses":
        setattr(bushel.kernels, "decode_jpegs", pause)  # noqa: B010
    else:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:processors])
    running: Iterator[int] = (
        kernels(path, processors) if way == "kernel alone" else epochs(kind, path, processors, way == "processes")
    )
    next(running)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), _cpu()
        items = next(running)
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
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", setting.kind, str(path), str(setting.processors), setting.way],
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
    items = {"clips": "frames", "tokens": "rows"}.get(kind, "photos")
    table = Table("", title=f"{kind} ({_cores()})", title_justify="left")
    for heading in (f"{items}/s", "slowest", "fastest", "CPU µs", "÷ 1 thread", "of N×"):
        table.add_column(heading, justify="right")
    for setting in settings:
        one = rates[Setting(kind, 1, "kernel alone" if setting.way == "kernel alone" else "threads").name].rate
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
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=["photos", "tokens", "clips"])
    parser.add_argument("--counts", nargs="+", type=int, default=PROCESSORS, help="numbers of processors")
    parser.add_argument("--serve", nargs=4, metavar=("KIND", "PATH", "PROCESSORS", "WAY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        kind, path, processors, way = options.serve
        serve(kind, Path(path), int(processors), way)
        return
    available = len(os.sched_getaffinity(0))
    counts = [count for count in options.counts if count <= available]
    results: dict[str, Any] = {}
    for kind in options.kinds:
        path = fill(kind, options.small)
        ways = {"photos": WAYS, "pauses": WAYS[:1]}.get(kind, WAYS[:2])
        numbers = options.counts if kind == "pauses" else counts
        settings = [Setting(kind, number, way) for way in ways for number in numbers]
        running = {setting.name: Serving(setting, path) for setting in settings}
        try:
            rates = in_turns(running, 2 if options.small else 3)
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

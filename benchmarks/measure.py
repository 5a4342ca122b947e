"""Helpers of all benchmarks: rounds in turns, medians, the machine, and results as JSON and as a table."""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
SCRATCH = ROOT / ".bench"

console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)


@dataclass(frozen=True, slots=True)
class Timing:
    """One measurement.

    Attributes:
        items: Number of items.
        wall: Seconds.
        cpu: CPU seconds of all threads, or None if another program did not report them.
    """

    items: int
    wall: float
    cpu: float | None


@dataclass(frozen=True, slots=True)
class Rate:
    """The median of several measurements.

    Attributes:
        rate: Items per second.
        lowest: The slowest round, items per second.
        highest: The fastest round, items per second.
        cpu_us: CPU time per item in microseconds, or None.
        rounds: Number of measurements.
    """

    rate: float
    lowest: float
    highest: float
    cpu_us: float | None
    rounds: int


def options_parser(description: str | None, small: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every benchmark: `--out`, and `--small`, which `small` describes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--small", action="store_true", help=small)
    return parser


def interpreter(environment: str | None) -> Path:
    """Return the path of the Python of an environment in `.interop`, which may not exist; of this one for None."""
    return Path(sys.executable) if environment is None else ROOT / ".interop" / environment / "bin" / "python"


def how_to_make(environment: str | None) -> str:
    """Return why packages are not measured: the command that makes their environment."""
    return f"python interop/environments.py {environment} makes its environment"


class InEnvironment:
    """The measurements in an environment of `.interop`, or, without one, in this interpreter."""

    __slots__ = ()

    environment: str | None

    @property
    def python(self) -> Path:
        """Path of the interpreter."""
        return interpreter(self.environment)

    @property
    def missing(self) -> str | None:
        """Why it cannot be measured here; None if it can."""
        return None if self.python.exists() or self.environment is None else how_to_make(self.environment)


def installed(environments: Mapping[str, str]) -> tuple[dict[str, Path], dict[str, str]]:
    """Return the interpreters of packages whose environments are there; and why the others are not measured."""
    pythons = {name: interpreter(environment) for name, environment in environments.items()}
    there = {name: python for name, python in pythons.items() if python.exists()}
    return there, {name: how_to_make(one) for name, one in environments.items() if name not in there}


def run_packer(command: Sequence[str], out: Path) -> dict[str, Any]:
    """Run a packer that writes `out`, remove that, and return the JSON in the last line that it printed."""
    shutil.rmtree(out) if out.is_dir() else out.unlink(missing_ok=True)
    os.sync()  # data of other programs that are not written yet would take time of this one
    done: dict[str, Any] = json.loads(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1]
    )
    shutil.rmtree(out) if out.is_dir() else out.unlink()
    return done


def run_watched(command: Sequence[str]) -> tuple[str, int]:
    """Run a program, and return what it printed and its peak of memory that is not of files, in bytes (Linux).

    The peak is looked for every 5 ms from outside, so that it costs the program nothing.

    Raises:
        subprocess.CalledProcessError: The program failed.
    """
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            if found := status.read_text().partition("RssAnon:")[2]:  # a process that ends has no memory left
                most = max(most, int(found.split()[0]) * 1024)
            time.sleep(0.005)
        printed = process.stdout.read() if process.stdout is not None else ""
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return printed, most


def cat(paths: Sequence[Path]) -> Timing:
    """Measure the CPU time of `cat` of files, also as the seconds of the timing; the items are bytes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["cat", *map(str, paths)], stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Timing(sum(path.stat().st_size for path in paths), cpu, cpu)


class Serving:
    """A reader in a process of its own, which measures a round for each number that it is given.

    It prints `ready`, and then for each line on its standard input a JSON object with `items`, `wall` and `cpu`.

    Args:
        command: The command that starts it.

    Attributes:
        answer: What it printed for the last round.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self.answer: dict[str, Any] = {}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self._line() != "ready":
            raise RuntimeError(f"{' '.join(command[1:])} did not start: status {self._process.wait()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def __call__(self, number: int) -> Timing:
        """Measure a round."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n")
        self._process.stdin.flush()
        self.answer = json.loads(self._line())
        return Timing(self.answer["items"], self.answer["wall"], self.answer["cpu"])


def in_turns(contestants: Mapping[str, Callable[[int], Timing]], rounds: int) -> dict[str, Rate]:
    """Measure A, B, C, A, B, C, …, so that a disturbance affects all of them, and return medians.

    Args:
        contestants: Name to a function of the number of the round.
        rounds: Number of measurements of each.
    """
    timings: dict[str, list[Timing]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, measure in contestants.items():
            timings[name].append(measure(number))
    return {name: _median(measured) for name, measured in timings.items()}


def _median(timings: Sequence[Timing]) -> Rate:
    rates = [timing.items / timing.wall for timing in timings]
    cpu = [timing.cpu / timing.items * 1e6 for timing in timings if timing.cpu is not None]
    return Rate(statistics.median(rates), min(rates), max(rates), statistics.median(cpu) if cpu else None, len(timings))


def machine() -> dict[str, Any]:
    """Return a description of the machine and the software."""
    model = "unknown"
    if Path("/proc/cpuinfo").exists():
        names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": model,
        "processors": len(os.sched_getaffinity(0)),
        "load": os.getloadavg()[0],
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def show(title: str, unit: str, rates: Mapping[str, Rate], against: Sequence[str]) -> None:
    """Print the rates, fastest first, and the ratio of each to those named in `against`."""
    against = [name for name in against if name in rates]
    table = Table("", title=title, title_justify="left")
    for heading in (f"{unit}/s", "slowest", "fastest", "CPU µs", *(f"÷ {name}" for name in against)):
        table.add_column(heading, justify="right")
    for name, rate in sorted(rates.items(), key=lambda item: -item[1].rate):
        cpu = "" if rate.cpu_us is None else f"{rate.cpu_us:,.2f}"
        ratios = [f"{rate.rate / rates[other].rate:.2f}" for other in against]
        table.add_row(name, *(f"{value:,.0f}" for value in (rate.rate, rate.lowest, rate.highest)), cpu, *ratios)
    console.print(table)


def save(path: Path | None, results: Mapping[str, Any], skipped: Mapping[str, str]) -> None:
    """Write the results as JSON with a description of the machine. Print the skipped measurements and the reasons."""
    for name, reason in skipped.items():
        console.print(f"skipped: {name} ({reason})")
    if path is None:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "results": results, "skipped": dict(skipped)}
    path.write_text(json.dumps(document, indent=2, default=_plain) + "\n")
    console.print(f"written to {path}")


def _plain(value: Any) -> Any:
    return asdict(value) if isinstance(value, Rate) else str(value)

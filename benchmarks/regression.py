"""Compare the CPU time of this version with that of another one, and fail if a case takes more.

    scripts/bench_check.sh origin/main

installs both and runs this. The two take turns, each in a new process, so that a machine whose speed changes slows
both; the medians of CPU times are compared, and the shortest ones. A time on the wall is not, since the machines of CI
are shared. Each version reads data that it wrote itself. A case is done once before it is measured, so that imports do
not count; one that the other version cannot do, or a package is missing for, is left out, and said.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 9
LIMIT = 1.15
"""How much more CPU time than the other version a case may take."""


def run_case(name: str, data: Path) -> float:
    """Run a case in this process; returns its CPU time in seconds, with that of its processes and without imports."""
    import regression_cases

    case = regression_cases.CASES[name]
    case(data)
    start = os.times()
    case(data)
    end = os.times()
    return sum(end[:4]) - sum(start[:4])


def called(python: str, *options: str, cwd: Path) -> str:
    """Run this script with an interpreter, in a process of its own, and return its output."""
    command = [python, str(Path(__file__).absolute()), *options]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=cwd).stdout


@dataclass(frozen=True, slots=True)
class Compared:
    """CPU times of a case with the other version, and with this one, in seconds."""

    before: list[float]
    now: list[float]

    @property
    def ratio(self) -> float:
        """The median with this version by that with the other one."""
        return statistics.median(self.now) / statistics.median(self.before)

    @property
    def least(self) -> float:
        """The ratio of the shortest times, to which work that others do on the machine adds least."""
        return min(self.now) / min(self.before)

    def slower(self, limit: float) -> bool:
        """Return whether this version takes more than `limit` times as long, by both."""
        return min(self.ratio, self.least) > limit


def compare(base: str, ours: str, folder: Path, rounds: int, only: Sequence[str]) -> dict[str, Compared]:
    """Run the cases with both versions in turns, and print the results."""
    pythons = {"before": base, "now": ours}
    for version, python in pythons.items():
        (folder / version).mkdir()
        called(python, "--make", "--data", str(folder / version), cwd=folder)
    names = json.loads(called(ours, "--list", cwd=folder))
    found = {}
    for name in only or names:
        try:
            called(base, "--case", name, "--data", str(folder / "before"), cwd=folder)
        except subprocess.CalledProcessError as error:
            print(f"{name:14} left out: {error.stderr.strip().splitlines()[-1]}", flush=True)
            continue
        times: dict[str, list[float]] = {version: [] for version in pythons}
        for turn in range(rounds):
            for version in pythons if turn % 2 == 0 else reversed(pythons):
                printed = called(pythons[version], "--case", name, "--data", str(folder / version), cwd=folder)
                times[version].append(float(printed.split()[-1]))
        own = found[name] = Compared(**times)
        before, now = statistics.median(own.before), statistics.median(own.now)
        print(f"{name:14} {before:8.3f} s before, {now:8.3f} s now: {own.ratio:.3f}, least {own.least:.3f}", flush=True)
    return found


def main() -> int:
    """Run one case, or compare two versions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", help="Python of the environment with the other version")
    parser.add_argument("--ours", default=sys.executable, help="Python of the environment with this version")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limit", type=float, default=LIMIT)
    parser.add_argument("--only", action="append", default=[], help="a case; may be repeated (default: all)")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--list", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case is not None:
        print(run_case(options.case, options.data))
        return 0
    if options.make or options.list:
        import regression_cases

        if options.list:
            print(json.dumps(list(regression_cases.CASES)))
        else:
            regression_cases.make(options.data)
        return 0
    if options.base is None:
        parser.error("--base is missing")
    with tempfile.TemporaryDirectory() as folder:
        base, ours = (str(Path(each).absolute()) for each in (options.base, options.ours))
        found = compare(base, ours, Path(folder), options.rounds, options.only)
    slower = [name for name, own in found.items() if own.slower(options.limit)]
    print(json.dumps({"slower": slower, "limit": options.limit}))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

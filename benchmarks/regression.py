"""Compare the CPU time of this version with that of another one, and fail if a case takes more.

    scripts/bench_check.sh origin/main

installs both and runs this. The two take turns, each in a new process, so that a machine whose speed changes slows
both; the medians of CPU times are compared, and the shortest ones. A time on the wall is not, since the machines of CI
are shared. Each version reads data that it wrote itself. A case is done once before it is measured, so that imports do
not count. A case that seems slower is measured again, and both measurements count together. A case that the other
version cannot do is an error: write it so that it runs under the names of both.
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
REPEATS = 3
"""How often a case that seems slower is measured again, for as many rounds."""

LIMIT = 1.05
"""How much more CPU time than the other version a case may take."""

SLOWER_FOR_A_REASON = {"verify": 1.3, "convert": 1.3}
"""Cases that do more than they did: verify compares whole tables, and convert checks what it copies."""


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
    ended = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    if ended.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {ended.returncode}:\n{ended.stderr}")
    return ended.stdout


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


@dataclass(frozen=True, slots=True)
class Versions:
    """The interpreters of both versions, and the folder with the data of each."""

    pythons: dict[str, str]
    folder: Path

    def make(self) -> None:
        """Let each version write the data that it reads."""
        for version, python in self.pythons.items():
            (self.folder / version).mkdir()
            called(python, "--make", "--data", str(self.folder / version), cwd=self.folder)

    def run(self, version: str, case: str) -> float:
        """Run a case with a version; returns its CPU time in seconds."""
        options = ("--case", case, "--data", str(self.folder / version))
        return float(called(self.pythons[version], *options, cwd=self.folder).split()[-1])

    def measure(self, case: str, compared: Compared, rounds: int) -> None:
        """Run a case with both versions in turns, and note the times."""
        for turn in range(rounds):
            for version in ("before", "now") if turn % 2 == 0 else ("now", "before"):
                getattr(compared, version).append(self.run(version, case))


def compare(base: str, ours: str, folder: Path, rounds: int, only: Sequence[str], limit: float) -> list[str]:
    """Run the cases with both versions, and print the results; returns the names of those that are slower."""
    versions = Versions({"before": base, "now": ours}, folder)
    versions.make()
    slower = []
    for name in only or json.loads(called(ours, "--list", cwd=folder)):
        allowed = max(limit, SLOWER_FOR_A_REASON.get(name, 0))
        compared = Compared([], [])
        versions.measure(name, compared, rounds)
        for _ in range(REPEATS):
            if compared.slower(allowed):
                versions.measure(name, compared, rounds)
        before, now = statistics.median(compared.before), statistics.median(compared.now)
        times = f"{before:8.3f} s before, {now:8.3f} s now: {compared.ratio:.3f}, least {compared.least:.3f}"
        print(f"{name:14} {times}, {len(compared.now)} rounds", flush=True)
        if compared.slower(allowed):
            slower.append(name)
    return slower


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
        base, ours = (str(Path(python).absolute()) for python in (options.base, options.ours))
        slower = compare(base, ours, Path(folder), options.rounds, options.only, options.limit)
    print(json.dumps({"slower": slower, "limit": options.limit}))
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())

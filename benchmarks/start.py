"""Benchmark of the start: importing a package, a first open, and the help of its command; whole processes, in turns.

    python benchmarks/start.py [--python VENV/bin/python] [--small] [--out results.json]

Each process starts, does one thing and ends; its CPU time is that of all its threads. `python -c pass` is what the
interpreter takes, so it is to be subtracted from the rows of imports. The interpreter that is measured (`--python`)
has Bushel as a wheel installs it, `httpx[cli]` and polars; what it does not have is skipped. The first process of each
is not measured, as it compiles what it imports: PYTHONDONTWRITEBYTECODE must not be set.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import bushel
from measure import SCRATCH, Timing, console, in_turns, options_parser, save, show

OPEN = "import bushel; bushel.open({path!r}).close()"
SCAN = "import polars; polars.scan_csv({path!r}).collect_schema()"


def main() -> None:
    """Write the data, measure all processes in turns and print."""
    parser = options_parser(__doc__, "5 rounds instead of 41")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="interpreter that has the packages")
    options = parser.parse_args()
    if os.environ.get("PYTHONDONTWRITEBYTECODE"):
        parser.exit(2, "unset PYTHONDONTWRITEBYTECODE, or each process compiles what it imports\n")
    folder = _write(SCRATCH / "start")
    skipped: dict[str, str] = {}
    contestants: dict[str, Callable[[int], Timing]] = {}
    for name, arguments in commands(folder).items():
        command = [str(options.python), *arguments]
        tried = subprocess.run(command, capture_output=True, text=True, check=False)
        if tried.returncode:
            skipped[name] = (tried.stderr.strip().splitlines() or [f"status {tried.returncode}"])[-1]
        else:
            contestants[name] = partial(_process, command)
    rates = in_turns(contestants, 5 if options.small else 41)
    show("whole processes", "processes", rates, ["python -c pass"])
    for name, rate in rates.items():
        console.print(f"{name}: {1e3 / rate.rate:.1f} ms, {(rate.cpu_us or 0) / 1e3:.1f} ms of CPU time")
    save(options.out, {"start": rates}, skipped)


def commands(folder: Path) -> dict[str, list[str]]:
    """Return the arguments of the interpreter for each process, by its name in the table."""
    programs = {
        "python -c pass": "pass",
        "import numpy": "import numpy",
        "import bushel": "import bushel",
        "import httpx": "import httpx",
        "import polars": "import polars",
        "import bushel and the first open": OPEN.format(path=str(folder / "tar")),
        "import polars and the first scan": SCAN.format(path=str(folder / "numbers.csv")),
    }
    tools = ("bushel", "httpx")
    helped = {f"{tool} --help": f"import sys; sys.argv[1:] = ['--help']; {HELPS[tool]}" for tool in tools}
    return {name: ["-c", program] for name, program in (programs | helped).items()}


HELPS = {
    "bushel": "from bushel.cli import main; main()",
    "httpx": "import httpx; httpx.main()",
}
"""What the installed command of each package runs."""


def _write(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    with bushel.Writer(folder / "tar", {"label": "int"}, container="tar", sync=False) as writer:
        for number in range(8):
            writer.append({"label": number}, key=str(number))
    (folder / "numbers.csv").write_text("label\n" + "".join(f"{number}\n" for number in range(8)))
    return folder


def _process(command: Sequence[str], number: int) -> Timing:
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    seconds, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Timing(1, seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    main()

"""Benchmark of formats that are read in place: shuffled epochs beside each one's own loader.

python benchmarks/foreign.py --out foreign.json     20,000 samples of 8 KB, in memory
python benchmarks/foreign.py --small                a tenth of them, fewer rounds

Every loader runs in its own process, in turns; the first epoch of each is not counted. CPU time is that of the process
and its children. The packages come from `python interop/environments.py foreign`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from measure import SCRATCH, Rate, Timing, console, how_to_make, in_turns, interpreter, options_parser, save, show

KINDS = ("mds", "litdata", "tfrecord", "arrayrecord", "arrayrecord-plain", "megatron", "npy", "folder")
ROWS = ("megatron", "npy")
LIMITS = {"arrayrecord": "limit: zstd", "folder": "limit: system calls"}
SCRIPT = Path(__file__).resolve().parent / "peers" / "peer_foreign.py"
ENVIRONMENT = "foreign"


def run(python: Path, *arguments: str) -> str:
    """Run the script, and return its output."""
    command = [str(python), str(SCRIPT), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} exited with {done.returncode}:\n{done.stderr}")
    return done.stdout


def epoch(python: Path, work: str, kind: str, folder: Path, _: int) -> Timing:
    """Measure an epoch."""
    found = json.loads(run(python, work, kind, str(folder)).splitlines()[-1])
    return Timing(found["items"], found["wall"], found["cpu"])


def main() -> int:
    """Measure, and print or save."""
    parser = options_parser(__doc__, "a tenth of the samples, and fewer rounds")
    parser.add_argument("--rounds", type=int, help="default: 5")
    parser.add_argument("--only", action="append", choices=KINDS)
    options = parser.parse_args()
    python = interpreter(ENVIRONMENT)
    if not python.exists():
        console.print(how_to_make(ENVIRONMENT))
        return 1
    samples, rounds = (2_000, 2) if options.small else (20_000, 5)
    rounds = options.rounds or rounds
    results: dict[str, dict[str, Rate]] = {}
    for kind in options.only or KINDS:
        folder = SCRATCH / f"foreign-{samples}" / kind
        if not folder.exists():
            run(python, "write", kind, str(folder), str(samples))
        copy = folder.with_name(f"{kind}-bushel")  # its table is not in the way of the other's reader
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy)
        own = {
            "its own loader": partial(epoch, python, "read", kind, folder),
            "Bushel": partial(epoch, Path(sys.executable), "bushel", kind, copy),
        }
        if kind in ROWS:
            own["Bushel, threads=0"] = partial(epoch, Path(sys.executable), "bushel-0", kind, copy)
        if kind in LIMITS:
            own[LIMITS[kind]] = partial(epoch, Path(sys.executable), "limit", kind, folder)
        results[f"{kind}: epochs"] = in_turns(own, rounds)
        show(f"{kind}: epochs", "samples", results[f"{kind}: epochs"], ["its own loader"])
    save(options.out, results, {})
    return 0


if __name__ == "__main__":
    sys.exit(main())

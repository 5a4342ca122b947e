"""Benchmark of writing small records and photos from memory, one by one and as columns, against the originals.

    python benchmarks/appending.py --out appending.json    200,000 records of 200 bytes, 2,000 photos of 110 KB
    python benchmarks/appending.py --small                 a tenth of them, fewer rounds

Nothing waits for the disk. FFRecord is not on PyPI: it takes part if it is built in `.interop/ffrecord`.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from measure import SCRATCH, Rate, Timing, console, how_to_make, in_turns, interpreter, options_parser, save, show

SCRIPT = Path(__file__).resolve().parent / "peers" / "append_records.py"
ENVIRONMENTS = {
    "granular": "peers",
    "webdataset": "webdataset",
    "ffrecord": "ffrecord",
    "gulpio2": "gulpio2",
    "mxnet": "mxnet",
    "bagz": "peers",
}
ORIGINALS = {
    "bag": "granular",
    "tar": "webdataset",
    "ffrecord": "ffrecord",
    "gulp": "gulpio2",
    "recordio": "mxnet",
}
"""Container to the package that it comes from."""
PACKAGES = (
    *ENVIRONMENTS,
    *(f"append:{container}" for container in ORIGINALS),
    *(f"extend:{container}" for container in ORIGINALS if container != "gulp"),
)


def writing(package: str, python: Path, form: str, count: int, length: int) -> Callable[[int], Timing]:
    """Return a measurement of one package."""

    def measure(number: int) -> Timing:
        path = SCRATCH / f"appending-{os.getpid()}"
        command = [str(python), str(SCRIPT), package, form, str(path), str(count), str(length)]
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        return Timing(done["records"], done["wall"], done["cpu"])

    return measure


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Writing samples from memory.", "a tenth of the samples, fewer rounds")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    part, rounds = (10, 3) if options.small else (1, 7)
    skipped: dict[str, str] = {}
    results: dict[str, dict[str, Rate]] = {}
    for form, count, length in (("records", 200_000, 200), ("photos", 2_000, 110_000)):
        contestants = {}
        for package in PACKAGES:
            environment = None if ":" in package else ENVIRONMENTS[package]
            python = interpreter(environment)
            if not python.exists():
                skipped[package] = how_to_make(environment)
            elif form == "records" or not package.startswith("extend:"):
                less = 10 if package == "webdataset" and form == "records" else 1
                contestants[package] = writing(package, python, form, count // part // less, length)
        rates = in_turns(contestants, options.rounds or rounds)
        results[f"{form} of {length} bytes"] = rates
        show(f"writing {form} of {length} bytes", form, rates, ())
        for container, original in ORIGINALS.items():
            own, other = rates[f"append:{container}"].cpu_us, rates[original].cpu_us if original in rates else None
            if own and other:
                console.print(
                    f"append, {container}: {own:.2f} µs of CPU time, {original} {other:.2f}: {other / own:.2f}×"
                )
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()

"""Benchmark of the drop-ins against the originals: the same script with another import.

python benchmarks/dropins.py --out dropins.json        all with an environment in .interop
python benchmarks/dropins.py gulpio2 mxnet             only these
python benchmarks/dropins.py --small                   less data, fewer rounds

Each script ``peers/dropin_NAME.py`` is run as ``python SCRIPT PACKAGE FOLDER [--small]``: with the original in its
own environment (`make interop-env`), and with ``bushel.compat.NAME`` here. It writes its data into the folder if they
do not exist, measures, and prints a line of JSON per case: name, items, seconds, CPU seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure import SCRATCH, Rate, Timing, how_to_make, in_turns, interpreter, options_parser, save, show

PEERS = Path(__file__).resolve().parent / "peers"


@dataclass(frozen=True, slots=True)
class DropIn:
    """A drop-in and its original.

    Attributes:
        name: Name of the script and of the module in `bushel.compat`.
        original: Name of the original package.
        environment: Environment in which it is installed.
    """

    name: str
    original: str
    environment: str


DROP_INS = (
    DropIn("gulpio2", "gulpio2", "gulpio2"),
    DropIn("granular", "granular", "granular-b"),
    DropIn("mxnet", "mxnet", "mxnet"),
    DropIn("webdataset", "webdataset", "webdataset"),
)


def run(python: Path, package: str, name: str, small: bool) -> dict[str, Timing]:
    """Run a script once.

    Raises:
        RuntimeError: It failed. The message is its output.
    """
    folder = SCRATCH / f"dropin-{name}{'-small' if small else ''}"
    command = [
        str(python),
        str(PEERS / f"dropin_{name}.py"),
        package,
        str(folder),
        *(["--small"] if small else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-4000:]}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {line.get("case", name): Timing(line["items"], line["seconds"], line["cpu_seconds"]) for line in lines}


def compare(drop_in: DropIn, rounds: int, small: bool) -> dict[str, dict[str, Rate]]:
    """Run both in turns. Return the rates of the original and of Bushel for each case."""
    sides = {
        drop_in.original: (interpreter(drop_in.environment), drop_in.original),
        "bushel": (Path(sys.executable), f"bushel.compat.{drop_in.name}"),
    }
    for python, package in sides.values():  # makes the data, and fills caches
        run(python, package, drop_in.name, small)
    measured: dict[str, list[dict[str, Timing]]] = defaultdict(list)
    for _ in range(rounds):
        for side, (python, package) in sides.items():
            measured[side].append(run(python, package, drop_in.name, small))
    return {
        case: in_turns({side: _replay([one[case] for one in runs]) for side, runs in measured.items()}, rounds)
        for case in measured["bushel"][0]
    }


def _replay(timings: Sequence[Timing]) -> Callable[[int], Timing]:
    return timings.__getitem__


def _results(chosen: Sequence[DropIn], rounds: int, small: bool, skipped: dict[str, str]) -> Iterator[tuple[str, Any]]:
    for drop_in in chosen:
        if not interpreter(drop_in.environment).exists():
            skipped[drop_in.name] = how_to_make(drop_in.environment)
            continue
        for case, rates in compare(drop_in, rounds, small).items():
            show(f"{drop_in.name}: {case}", "items", rates, [drop_in.original])
            yield f"{drop_in.name}: {case}", {**rates, "ratio": _ratio(rates, drop_in.original)}


def _ratio(rates: Mapping[str, Rate], original: str) -> float:
    return round(rates["bushel"].rate / rates[original].rate, 2)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Drop-ins against the originals.", "less data, fewer rounds")
    parser.add_argument("names", nargs="*", help="only these")
    options = parser.parse_args()
    known = {drop_in.name: drop_in for drop_in in DROP_INS}
    if unknown := set(options.names) - set(known):
        parser.error(f"no drop-in {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    skipped: dict[str, str] = {}
    chosen = [known[name] for name in options.names] or list(DROP_INS)
    save(options.out, dict(_results(chosen, 3 if options.small else 5, options.small, skipped)), skipped)


if __name__ == "__main__":
    main()

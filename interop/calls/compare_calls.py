"""Make the same random calls with an original package and with its drop-in, and compare what they give.

    python interop/calls/compare_calls.py                      every original whose environment exists
    python interop/calls/compare_calls.py gulpio2 --seed 7 8   one of them, with other random calls
    python interop/calls/compare_calls.py gulpio2 --only "GulpDirectory('d')['a']"
                                                               this call, and what both sides give
    python interop/calls/compare_calls.py gulpio2 --reasons    the documented differences that were met, too

Each original has a file here, ``NAME_calls.py``: `SETUP` (how it is imported), `ASSETS` (a script that writes files by
it), and `TEMPLATES` and `TABLES` (of which `grammar` makes random calls). The only accepted differences are
those of ``documented.py``, each with words that stand on the page of the drop-in. Above each difference, the output has
a command that repeats its call. The exit status is 1 if another difference was found.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import resource
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import environments  # noqa: E402 a script of the folder above
from alike import alike  # noqa: E402 beside this file
from documented import DOCUMENTED  # noqa: E402
from grammar import statements  # noqa: E402
from original import Setup  # noqa: E402

ORIGINALS = tuple(DOCUMENTED)
CALLS = 2000
MEMORY = Path("/dev/shm")
"""If it exists, the folder of a run is made in it."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A call, and what it gave on both sides."""

    call: str
    original: Mapping[str, Any]
    dropin: Mapping[str, Any]

    def kind(self) -> str:
        """Return the function and the classes of the errors."""
        what = (str(one.get("raises", ["gives"])[0]) for one in (self.original, self.dropin))
        return f"{self.call.split('(')[0][-40:]}: {', '.join(what)}"


@dataclass(slots=True)
class Report:
    """The result of a comparison."""

    name: str
    compared: Sequence[Compared]
    alike: int = 0
    documented: dict[str, list[Compared]] = field(default_factory=dict)
    different: list[Compared] = field(default_factory=list)
    seconds: float = 0.0

    def line(self) -> str:
        """Return the numbers in one line."""
        documented = sum(map(len, self.documented.values()))
        return (
            f"{self.name}: {len(self.compared)} calls, {self.alike} alike, {documented} documented, "
            f"{len(self.different)} different, {self.seconds:.0f} s of CPU"
        )


def compare(name: str, calls: int, seed: int, only: Sequence[str] = ()) -> Report:
    """Make calls on both sides and compare them.

    Args:
        name: One of `ORIGINALS`.
        calls: How many: the signatures of all public names, then random calls.
        seed: Seed of the random calls.
        only: Make these calls instead.
    """
    module = importlib.import_module(f"{name}_calls")
    setup: Setup = module.SETUP
    before = _seconds_of_children()
    with tempfile.TemporaryDirectory(prefix="bushel-calls-", dir=MEMORY if MEMORY.is_dir() else None) as scratch:
        folder = Path(scratch)
        assets = folder / "assets"
        assets.mkdir()
        python = environments.python_of(setup.environment)
        script = "import os\nimport numpy as np\n" + module.ASSETS
        command = [str(python), "-W", "ignore", "-c", script]
        done = subprocess.run(command, cwd=assets, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"the files for {name} could not be made:\n{done.stderr}")
        made = list(only)
        if not only:
            made = [f"signature({each!r})" for each in _public(setup, folder, python)]
            random_ones = statements(random.Random(seed), module.TEMPLATES, module.TABLES)
            made += itertools.islice(random_ones, max(calls - len(made), 0))
        originals = _outcomes(setup, made, folder, "original", python)
        dropins = _outcomes(setup, made, folder, "dropin", Path(sys.executable))
    report = _report(name, [Compared(*each) for each in zip(made, originals, dropins, strict=True)])
    report.seconds = _seconds_of_children() - before
    return report


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _settings(setup: Setup, folder: Path, side: str, made: Sequence[str]) -> dict[str, Any]:
    root = environments.ENVIRONMENTS / setup.environment
    return {
        "package": setup.package,
        "modules": list(setup.modules),
        "mapped": dict(setup.mapped) if side == "dropin" else None,
        "interop": str(HERE.parent),
        "prelude": setup.prelude,
        "commands": {name: str(root / path) for name, path in setup.commands.items()},
        "assets": str(folder / "assets"),
        "place": str(folder / "place"),  # the same on both sides, because some outcomes name paths
        "results": str(folder / f"{side}.jsonl"),
        "calls": list(made),
    }


def _run(settings: Mapping[str, Any], folder: Path, python: Path) -> str:
    """Run ``run_calls.py`` with an interpreter, and return the results."""
    path = folder / "settings.json"
    path.write_text(json.dumps(settings), "utf-8")
    command = [str(python), "-W", "ignore", str(HERE / "run_calls.py"), str(path)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "MXNET_CPU_WORKER_NTHREADS": "1"}
    environment.pop("PYTHONPATH", None)
    with open(folder / "log.txt", "w+b") as log:
        done = subprocess.run(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, check=False
        )
    if done.returncode:
        raise RuntimeError((folder / "log.txt").read_text("utf-8", "replace")[-3000:])
    return Path(settings["results"]).read_text("utf-8")


def _public(setup: Setup, folder: Path, python: Path) -> list[str]:
    names: list[str] = json.loads(_run(_settings(setup, folder, "public", []), folder, python))
    return names


def _outcomes(setup: Setup, made: Sequence[str], folder: Path, side: str, python: Path) -> list[dict[str, Any]]:
    written = _run(_settings(setup, folder, side, made), folder, python)
    return [json.loads(line) for line in written.splitlines()]


def _report(name: str, compared: Sequence[Compared]) -> Report:
    report = Report(name, compared)
    for each in compared:
        if alike(each.original, each.dropin):
            report.alike += 1
            continue
        outcomes = each.call, each.original, each.dropin
        known = next((one.words for one in DOCUMENTED[name] if one.explains(*outcomes)), None)
        (report.different if known is None else report.documented.setdefault(known, [])).append(each)
    return report


def _shown(outcome: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in outcome.items() if value not in ({}, [], "") and name not in ("number",)}
    return json.dumps(kept, ensure_ascii=False)[:600]


def _lines(name: str, compared: Sequence[Compared], most: int) -> Iterator[str]:
    """Yield commands that repeat the calls, and what these gave; `most` calls of each kind."""
    groups: dict[str, list[Compared]] = {}
    for each in compared:
        groups.setdefault(each.kind(), []).append(each)
    for kind, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(found)} × {kind}"
        for each in found[:most]:
            yield f"python interop/calls/compare_calls.py {name} --only {shlex.quote(each.call)}"
            yield f"      original {_shown(each.original)}\n      drop-in  {_shown(each.dropin)}"


def _reasons(report: Report, most: int) -> Iterator[str]:
    for words, found in sorted(report.documented.items(), key=lambda item: -len(item[1])):
        yield f"== {len(found)} documented: {words}"
        yield from _lines(report.name, found, most)


def _names(asked: Sequence[str]) -> Iterator[str]:
    """Yield the originals that have an environment; of those that were not asked for, say so."""
    for name in asked or ORIGINALS:
        environment = importlib.import_module(f"{name}_calls").SETUP.environment
        if environments.is_current(environment):
            yield name
            continue
        advice = f"there is no environment {environment}: run `python interop/environments.py {environment}`"
        if asked:
            raise SystemExit(f"{name}: {advice}")
        print(f"{name}: {advice}", flush=True)


def main() -> int:
    """Compare the originals of the command line. Return 1 if there are differences that no page describes."""
    parser = argparse.ArgumentParser(description="Compare random calls of originals and drop-ins.")
    parser.add_argument("name", nargs="*", help=f"one or more of: {', '.join(ORIGINALS)} (default: all that exist)")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"number of calls of each ({CALLS})")
    parser.add_argument(
        "--seed", type=int, nargs="+", default=[0], help="seeds of the random calls, one run for each (0)"
    )
    parser.add_argument("--only", nargs="+", default=[], metavar="CALL", help="make these calls instead of random ones")
    parser.add_argument("--reasons", action="store_true", help="show documented differences, too")
    parser.add_argument("--show", type=int, default=3, help="differences of each kind to show (3)")
    options = parser.parse_args()
    reports = []
    for name, seed in itertools.product(_names(options.name), options.seed):
        report = compare(name, options.calls, seed, options.only)
        reports.append(report)
        for line in _reasons(report, options.show) if options.reasons else ():
            print(line)
        for line in _lines(name, report.compared if options.only else report.different, options.show):
            print(line)
        print(f"{report.line()}, seed {seed}", flush=True)
    return 1 if any(report.different for report in reports) else 0


if __name__ == "__main__":
    sys.exit(main())

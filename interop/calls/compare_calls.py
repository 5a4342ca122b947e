"""Make the same random calls with an original package and with its drop-in, and compare what they give.

    python interop/calls/compare_calls.py                      every original whose environment exists
    python interop/calls/compare_calls.py gulpio2 --seed 7     one of them, with other random calls

Each original has a file here, ``NAME_calls.py``: `SETUP` (how it is imported), `ASSETS` (a script that writes files with
the original), `TEMPLATES` and `TABLES` (of which `grammar` makes random calls) and `DOCUMENTED`, the only differences that
are accepted, each with words that stand on the page of the drop-in. The exit status is 1 if another difference was found.
"""

# ruff: noqa: E501 calls are easier to read in one line
from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import environments  # noqa: E402 a script of the folder above
from grammar import statements  # noqa: E402 beside this file

ORIGINALS = ("bags", "ffrecord", "granular_b", "granular_c", "gulpio2", "mxnet", "webdataset")
CALLS = 2000
PATIENCE = 90.0
"""Seconds after which a process that gives no further outcome is ended: the call hangs in compiled code."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How an original is called.

    Attributes:
        package: Its import name.
        environment: Its environment in `.interop`.
        mapped: The modules of the drop-in, by the modules of the original.
        prelude: Statements before each call, on both sides.
        page: The page of the drop-in in `docs/`.
        modules: The modules whose public names are compared; all if empty.
        commands: Scripts of the command lines, relative to the environment.
    """

    package: str
    environment: str
    mapped: Mapping[str, str]
    prelude: str
    page: str
    modules: tuple[str, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Documented:
    """A difference that a page describes.

    Attributes:
        words: Words of the page.
        call: Pattern that is found in the call; any call if empty.
        original: Pattern that is found in the JSON of the original's outcome.
        dropin: Pattern that is found in the JSON of the drop-in's outcome.
    """

    words: str
    call: str = ""
    original: str = ""
    dropin: str = ""

    def explains(self, call: str, original: str, dropin: str) -> bool:
        """Return whether this is the difference between two outcomes."""
        pairs = ((self.call, call), (self.original, original), (self.dropin, dropin))
        return all(re.search(pattern, text, re.DOTALL) for pattern, text in pairs)


@dataclass(slots=True)
class Report:
    """The result of a comparison."""

    calls: int = 0
    alike: int = 0
    documented: Counter[str] = field(default_factory=Counter)
    different: list[tuple[str, Any, Any]] = field(default_factory=list)


def compare(name: str, calls: int, seed: int) -> Report:
    """Make calls on both sides and compare them."""
    module = importlib.import_module(f"{name}_calls")
    setup: Setup = module.SETUP
    with tempfile.TemporaryDirectory(prefix="bushel-calls-") as scratch:
        folder = Path(scratch)
        assets = folder / "assets"
        assets.mkdir()
        python = environments.python_of(setup.environment)
        done = subprocess.run(
            [str(python), "-W", "ignore", "-c", "import os\nimport numpy as np\n" + module.ASSETS],
            cwd=assets,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the files for {name} could not be made:\n{done.stderr}")
        made = [f"signature({name!r})" for name in _public(setup, folder, python)]
        random_ones = statements(random.Random(seed), module.TEMPLATES, module.TABLES)
        made += itertools.islice(random_ones, max(calls - len(made), 0))
        sides = {}
        for side, interpreter in (("original", python), ("dropin", Path(sys.executable))):
            sides[side] = _outcomes(setup, made, folder, side, interpreter)
    return _report(made, sides["original"], sides["dropin"], module.DOCUMENTED)


def _settings(setup: Setup, folder: Path, side: str, made: Sequence[str]) -> dict[str, Any]:
    root = environments.ENVIRONMENTS / setup.environment
    return {
        "package": setup.package,
        "modules": list(setup.modules),
        "mapped": None if side == "original" else dict(setup.mapped),
        "interop": str(HERE.parent),
        "prelude": setup.prelude,
        "commands": {name: str(root / path) for name, path in setup.commands.items()},
        "assets": str(folder / "assets"),
        "place": str(folder / "place"),  # the same on both sides, because some outcomes name paths
        "results": str(folder / f"{side}.jsonl"),
        "calls": list(made),
    }


def _start(settings: Mapping[str, Any], folder: Path, python: Path, first: int) -> subprocess.Popen[bytes]:
    path = folder / "settings.json"
    path.write_text(json.dumps(settings), "utf-8")
    log = open(folder / "log.txt", "ab")  # noqa: SIM115 the process writes to it
    command = [str(python), "-W", "ignore", str(HERE / "run_calls.py"), str(path), str(first)]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "MXNET_CPU_WORKER_NTHREADS": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)


def _public(setup: Setup, folder: Path, python: Path) -> list[str]:
    settings = _settings(setup, folder, "original", [])
    process = _start(settings, folder, python, -1)
    if process.wait(PATIENCE * 2):
        raise RuntimeError((folder / "log.txt").read_text("utf-8", "replace")[-3000:])
    path = Path(settings["results"])
    names: list[str] = json.loads(path.read_text("utf-8"))
    path.unlink()
    return names


def _outcomes(setup: Setup, made: Sequence[str], folder: Path, side: str, python: Path) -> list[dict[str, Any]]:
    """Make the calls on one side. A process that a call kills, or in which it hangs, is replaced by another one."""
    settings = _settings(setup, folder, side, made)
    results = Path(settings["results"])
    results.touch()
    found: list[dict[str, Any]] = []
    while len(found) < len(made):
        process = _start(settings, folder, python, len(found))
        before, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(0.2)
            if (size := results.stat().st_size) != before:
                before, since = size, time.monotonic()
            if time.monotonic() - since > PATIENCE:
                process.kill()
        found = [json.loads(line) for line in results.read_text("utf-8").splitlines()]
        if len(found) < len(made):
            log = (folder / "log.txt").read_text("utf-8", "replace")[-2000:]
            if process.returncode and process.returncode > 0:
                raise RuntimeError(f"{side}, {made[len(found)]}: {log}")
            ended = {"number": len(found), "given": [], "kills": process.returncode, "files": {}, "printed": ""}
            found.append(ended)
            with open(results, "a", encoding="utf-8") as file:
                file.write(json.dumps(ended) + "\n")
    return found


def alike(original: Mapping[str, Any], dropin: Mapping[str, Any]) -> bool:
    """Return whether two outcomes are the same, or the drop-in's error is of the original's class, too."""
    if any(original.get(name) != dropin.get(name) for name in ("hangs", "kills", "printed", "files", "removed")):
        return False
    if "no signature found" in str(original.get("message")):
        return "AttributeError" not in dropin.get("raises", ())
    if "raises" in original:
        return original["given"] == dropin["given"] and original["raises"][0] in dropin.get("raises", ())
    if "raises" in dropin:
        return False
    one, other = original["given"], dropin["given"]
    if len(one) == len(other) == 1 and isinstance(one[0], list) and one[0][:1] == ["signature"]:
        return _accepts(other[0], one[0][1])
    return bool(one == other)


def _flat(described: Any) -> str:
    return json.dumps(described).replace('"tuple"', '"list"')  # as defaults they mean the same


def _accepts(found: Any, wanted: Sequence[Any]) -> bool:
    """Return whether a function with the parameters `found` takes the arguments that `wanted` takes."""
    if not isinstance(found, list) or found[:1] != ["signature"]:
        return False
    given = {name: (kind, default) for name, kind, default in found[1]}
    if _flat(found) == _flat(["signature", wanted]):
        return True
    if [kind for _, kind, _ in wanted] == ["POSITIONAL_OR_KEYWORD", "VAR_POSITIONAL", "VAR_KEYWORD"]:
        return True  # it hands all on to a function that is compared as well
    order = [name for name, kind, _ in found[1] if kind == "POSITIONAL_OR_KEYWORD"]
    expected = [name for name, kind, _ in wanted if kind == "POSITIONAL_OR_KEYWORD"]
    for name, kind, default in wanted:
        if kind in ("VAR_POSITIONAL", "VAR_KEYWORD"):
            if kind not in {each for each, _ in given.values()}:
                return False
        elif name == "self" or default == "needed" and name in given:
            continue
        elif name not in given or _flat(given[name][1]) != _flat(default):
            return False
    more = set(given) - {name for name, *_ in wanted}
    if expected[:1] == ["self"]:  # whatever the drop-in calls it
        more.discard(order[0] if order else "")
        order, expected = order[1:], expected[1:]
    return order[: len(expected)] == expected and all(
        given[name][1] != "needed" or given[name][0].startswith("VAR") for name in more
    )


def _report(
    made: Sequence[str],
    originals: Iterable[Mapping[str, Any]],
    dropins: Iterable[Mapping[str, Any]],
    documented: Sequence[Documented],
) -> Report:
    report = Report(len(made))
    for call, original, dropin in zip(made, originals, dropins, strict=True):
        if alike(original, dropin):
            report.alike += 1
            continue
        texts = call, json.dumps(original), json.dumps(dropin)
        known = next((one for one in documented if one.explains(*texts)), None)
        if known is not None:
            report.documented[known.words] += 1
        else:
            report.different.append((call, original, dropin))
    return report


def _shown(outcome: Mapping[str, Any]) -> str:
    kept = {name: value for name, value in outcome.items() if value not in ({}, [], "") and name not in ("number",)}
    return json.dumps(kept, ensure_ascii=False)[:600]


def _lines(report: Report, most: int) -> Iterator[str]:
    groups: dict[str, list[tuple[str, Any, Any]]] = {}
    for code, original, dropin in report.different:
        what = str(original.get("raises", ["gives"])[0]), str(dropin.get("raises", ["gives"])[0])
        groups.setdefault(f"{code.split('(')[0][-40:]}: {what}", []).append((code, original, dropin))
    for name, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"{len(found)} × {name}"
        for code, original, dropin in found[:most]:
            yield f"    {code}\n      original {_shown(original)}\n      drop-in  {_shown(dropin)}"


def main() -> int:
    """Compare the originals of the command line. Return 1 if there are differences that no page describes."""
    parser = argparse.ArgumentParser(description="Compare random calls of originals and drop-ins.")
    parser.add_argument("name", nargs="*", help=f"one or more of: {', '.join(ORIGINALS)} (default: all that exist)")
    parser.add_argument("--calls", type=int, default=CALLS, help=f"number of calls of each ({CALLS})")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random calls (0)")
    parser.add_argument("--show", type=int, default=3, help="differences of each kind to show (3)")
    options = parser.parse_args()
    different = 0
    for name in options.name or ORIGINALS:
        environment = importlib.import_module(f"{name}_calls").SETUP.environment
        if not options.name and not environments.is_current(environment):
            print(f"{name}: there is no environment {environment}: run `make interop-env`", flush=True)
            continue
        report = compare(name, options.calls, options.seed)
        for line in _lines(report, options.show):
            print(line)
        explained = sum(report.documented.values())
        print(
            f"{name}: {report.calls} calls, {report.alike} alike, {explained} documented, {len(report.different)} "
            f"different",
            flush=True,
        )
        different += len(report.different)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())

"""Two writers of one target, interleaved: `python -m tests.faults.race`, with the library of `shim.c`.

The first writer is stopped before one of its changes of the file system; the second one starts, and ends, or is stopped
too; then both go on. What is left must be what one of the two orders leaves in which one writer ends before the other
starts, or, if one writer was refused because the other was open, what the other leaves alone.
"""

from __future__ import annotations

import argparse
import errno
import faulthandler
import hashlib
import importlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.faults.jobs import SUFFIXES
from tests.faults.shim import Shim, ran_with_library
from tests.faults.ways import JPEG, WAYS, options_of, prepare_sources, spec_of, write
from tests.faults.whole import comparable

import bushel
from bushel.storage import lock

__all__ = ["STATES", "TARGETS", "main"]

STATES = ("nothing", "a dataset", "an interrupted write")
TARGETS = [
    f"{container}{suffix}"
    for container in ("bag", "tar", "ffrecord", "gulp", "recordio")
    for suffix in ("", SUFFIXES.get(container, "/"))
    if suffix != "/"
]
"""A container, and the suffix if the target is one file."""
DONE, IN_USE, REFUSED, BROKEN = range(4)
"""Exit codes: written; refused as another writer is open; refused for what is there; anything else."""
_PATIENCE = 120.0


@dataclass(frozen=True)
class Outcome:
    """How two writers ended, and a digest of the files that are there then."""

    codes: tuple[int | None, int | None]
    files: str


@dataclass(frozen=True)
class Race:
    """Two writers of one target.

    Attributes:
        target: One of `TARGETS`.
        state: One of `STATES`: what is there before.
        ways: How both write: two of `WAYS`.
    """

    target: str
    state: str
    ways: tuple[str, str]

    def __str__(self) -> str:
        return f"{self.ways[0]} and {self.ways[1]}, {self.target}, {self.state}"


class Track:
    """Runs races below a folder.

    Args:
        base: The folder.
        shim: The preloaded library.
    """

    def __init__(self, base: Path, shim: Shim) -> None:
        self._base, self._shim = base, shim
        self._before: dict[tuple[str, str], Path] = {}
        self._known: dict[Race, tuple[set[Outcome], int]] = {}

    def run(self, race: Race, first_stop: int, second_stop: int = 0) -> str | None:
        """Run a race, and return what is wrong with its outcome, or None.

        Args:
            race: The writers.
            first_stop: The change before which the first writer is stopped.
            second_stop: The change before which the second one is stopped; 0 to let it end.
        """
        allowed, _ = self.expected(race)
        root = self._copy(race)
        try:
            outcome = self._interleaved(race, root, first_stop, second_stop)
        except TimeoutError as error:
            return f"{race}, stopped at {first_stop} and {second_stop}: {error}: {self._said()}"
        if outcome in allowed:
            shutil.rmtree(root)
            return None
        same = [codes for codes, files in ((each.codes, each.files) for each in allowed) if files == outcome.files]
        return (
            f"{race}, stopped at {first_stop} and {second_stop}: exit codes {outcome.codes}, files as after {same}, "
            f"allowed {sorted(map(str, (each.codes for each in allowed)))} in {root}: {self._said()}"
        )

    def _said(self) -> str:
        """Return the errors that both writers did not expect."""
        return "; ".join(path.read_text()[-1500:] for path in sorted(self._base.glob("said-*")))

    def expected(self, race: Race) -> tuple[set[Outcome], int]:
        """Return the outcomes that are allowed, and the number of changes that the first writer makes alone."""
        if race not in self._known:
            allowed, changes = set(), 0
            for order in ((0,), (1,), (0, 1), (1, 0)):
                root = self._copy(race)
                codes: list[int | None] = [None, None]
                for which in order:
                    codes[which] = self._alone(race, root, which)
                    if order == (0,):
                        changes = int((self._base / "changes").read_text())
                if len(order) == 1:
                    codes[1 - order[0]] = IN_USE
                assert BROKEN not in codes, (
                    f"{race}, one after the other: {codes}: {(self._base / 'said-0').read_text()}"
                )
                allowed.add(Outcome((codes[0], codes[1]), _digest(root)))
                shutil.rmtree(root)
            self._known[race] = allowed, changes
        return self._known[race]

    def _copy(self, race: Race) -> Path:
        """Return a new folder in the state of a race."""
        key = race.target, race.state
        if key not in self._before:
            before = Path(tempfile.mkdtemp(dir=self._base, prefix="before-"))
            self._before[key] = before
            sources = self._sources(race.target.partition(".")[0])
            if not sources.exists():
                _in_fork(lambda: prepare_sources(sources, race.target.partition(".")[0]))
            if race.state != "nothing":
                pid = os.fork()
                if pid == 0:
                    self._prepare(race, before)
                assert os.waitpid(pid, 0)[1] == (0 if race.state == "a dataset" else signal.SIGKILL)
        root = Path(tempfile.mkdtemp(dir=self._base, prefix="root-"))
        return Path(shutil.copytree(self._before[key], root, dirs_exist_ok=True))

    def _sources(self, container: str) -> Path:
        return self._base / f"sources-{container}"

    def _prepare(self, race: Race, root: Path) -> None:
        path, container = _path(race, root), race.target.partition(".")[0]
        try:
            if race.state == "a dataset":
                write(path, container, "create", "old", root)
                os._exit(0)
            writer = bushel.Writer(path, spec_of(container), container=container, **options_of(path))
            for number in range(5):
                writer.append({"data": JPEG if container == "gulp" else b"old", "label": number}, key=f"old{number}")
            writer.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        finally:
            traceback.print_exc()
            os._exit(1)

    def _alone(self, race: Race, root: Path, which: int) -> int:
        code = _wait(self._begin(race, root, which, 0))
        assert code is not None
        modules = self._base / "modules"
        for name in modules.read_text().split() if modules.exists() else ():  # once here, not once in each fork
            if name not in sys.modules:
                with suppress(ImportError):
                    importlib.import_module(name)
        return code

    def _interleaved(self, race: Race, root: Path, first_stop: int, second_stop: int) -> Outcome:
        codes: list[int | None] = [None, None]
        pids = [0, 0]
        for which, stop in enumerate((first_stop, second_stop)):
            pids[which] = self._begin(race, root, which, stop)
            codes[which] = _wait(pids[which])
        for which in (0, 1):
            if codes[which] is None:
                os.kill(pids[which], signal.SIGCONT)
                codes[which] = _wait(pids[which])
        return Outcome((codes[0], codes[1]), _digest(root))

    def _begin(self, race: Race, root: Path, which: int, stop: int) -> int:
        said = self._base / f"said-{which}"
        said.unlink(missing_ok=True)
        pid = os.fork()
        if pid:
            return pid
        code = BROKEN
        try:
            warnings.simplefilter("ignore")
            faulthandler.register(signal.SIGUSR1, open(said, "w"))  # noqa: SIM115 - until this process ends
            lock._PATIENCE = 0.05  # one that joins a run and is stopped would be waited for
            self._shim.log(root, Path("/dev/null"))
            self._shim.stop(stop)
            container = race.target.partition(".")[0]
            code = _code_of(
                lambda: write(_path(race, root), container, race.ways[which], "ab"[which], self._sources(container))
            )
            if not stop:
                (self._base / "changes").write_text(str(self._shim.changes))
                (self._base / "modules").write_text("\n".join(sys.modules))
        except BaseException:
            said.write_text(traceback.format_exc())
        finally:
            os._exit(code)


def _code_of(work: Callable[[], None]) -> int:
    try:
        work()
    except bushel.errors.InUseError:
        return IN_USE
    except (bushel.BushelError, FileExistsError, FileNotFoundError) as error:
        if isinstance(error, FileNotFoundError) and error.errno == errno.ENOENT:  # of the system, not of Bushel
            raise
        return REFUSED
    return DONE


def _path(race: Race, root: Path) -> Path:
    _, dot, suffix = race.target.partition(".")
    return root / f"out{dot}{suffix}"


def _wait(pid: int) -> int | None:
    """Wait until a process ends or is stopped, and return its exit code, or None if it is stopped."""
    give_up = time.monotonic() + _PATIENCE
    pause = 0.0002
    while time.monotonic() < give_up:
        found, status = os.waitpid(pid, os.WUNTRACED | os.WNOHANG)
        if found:
            return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.01)
    os.kill(pid, signal.SIGUSR1)
    time.sleep(0.5)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise TimeoutError(f"a writer waits for more than {_PATIENCE:.0f} seconds")


def _in_fork(work: Callable[[], None]) -> None:
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    assert os.waitpid(pid, 0)[1] == 0


def _digest(root: Path) -> str:
    return hashlib.sha256(repr(sorted(comparable(root).items())).encode()).hexdigest()[:16]


def _races(targets: Sequence[str], ways: Sequence[str]) -> list[Race]:
    pairs = [pair for pair in itertools.product(WAYS, WAYS) if set(pair) & set(ways)]
    return [Race(target, state, pair) for target in targets for state in STATES for pair in pairs]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run races, and print how they ended. Return 1 if an outcome is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.race", description=__doc__)
    parser.add_argument("--count", type=int, default=0, help="number of pairs (default: all, at every change)")
    parser.add_argument("--stops", type=int, default=0, help="stops in each pair (default: all; with --count 2)")
    parser.add_argument("--ways", default=",".join(WAYS), help="only pairs with one of these (default: all)")
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"with commas (default: {','.join(TARGETS)})")
    parser.add_argument("--seed", default="0", help="seed of the choice (default: 0)")
    given = parser.parse_args(arguments)
    if (code := ran_with_library("tests.faults.race", arguments)) is not None:
        return code
    rng = random.Random(given.seed)
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="bushel-races-", dir=memory if os.access(memory, os.W_OK) else None))
    track, failures, ran = Track(base, Shim()), list[str](), Counter[str]()
    races = _races(given.targets.split(","), given.ways.split(","))
    most = given.stops or (2 if given.count else None)
    if given.count:
        races = rng.sample(races, min(given.count, len(races)))
    for race in races:
        changes = track.expected(race)[1]
        stops = [(stop, 0) for stop in range(1, changes + 1)]
        stops += [(stop, rng.randint(1, 30)) for stop in range(1, changes + 1)]
        for first, second in rng.sample(stops, min(most, len(stops))) if most else stops:
            ran[race.state] += 1
            if (wrong := track.run(race, first, second)) is not None:
                failures.append(wrong)
        if len(failures) >= 10:
            break
    print(f"{sum(ran.values())} races, {len(failures)} wrong")
    print("\n".join(failures), flush=True)
    if not failures:
        shutil.rmtree(base)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())

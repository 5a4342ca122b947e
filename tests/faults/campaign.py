"""Kill programs that write datasets, lose what they had not synced, and resume them: `python -m tests.faults.campaign`.

Each trial writes one dataset with a job of `jobs.py`. The process is killed before a random change of the file system,
the folder becomes what a power cut would have left (`crash.py`), what is there is checked, and the next process resumes
until one gets to the end. Then the dataset must be that of an undisturbed run, also after another power cut.
"""

from __future__ import annotations

import argparse
import errno
import hashlib
import importlib
import json
import logging
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.faults.crash import LOSSES, Disk, lose_unsynced
from tests.faults.jobs import JOBS, Job, data_path
from tests.faults.shim import Shim, ran_with_library
from tests.faults.whole import check_state, comparable, note_samples

import bushel

__all__ = ["main"]

_MOST_RUNS = 12
_FAILED = 3
"""Exit code of a process that ended with an error that it should end with."""


@dataclass
class Summary:
    """What a campaign against one job did.

    Attributes:
        kills: Number of kills.
        trials: Number of datasets.
        losses: Number of kills after which something of each kind was lost.
        failures: What went wrong.
    """

    kills: int = 0
    trials: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


_ERRORS = {
    "disk full": ("write create names", errno.ENOSPC),
    "quota exceeded": ("write create names", errno.EDQUOT),
    "EIO on write": ("write", errno.EIO),
    "EIO on fsync": ("sync", errno.EIO),
    "EIO on read": ("read", errno.EIO),
    "read-only": ("write create names", errno.EROFS),
    "ESTALE": ("open create read write sync names stat", errno.ESTALE),
}


@dataclass(frozen=True)
class Fault:
    """System calls that fail.

    Attributes:
        name: Which ones, from `_ERRORS`.
        after: How many are made before.
        times: How many fail; -1: all from then on.
    """

    name: str
    after: int
    times: int

    @classmethod
    def choose(cls, rng: random.Random, calls: int) -> Fault:
        """Return one."""
        return cls(rng.choice(list(_ERRORS)), int(calls * rng.random() ** 2), rng.choice([1, -1]))

    def __str__(self) -> str:
        return f"{self.name} after {self.after} calls, {self.times} times"

    def run(self, shim: Shim, folder: Path, work: Callable[[], None]) -> None:
        """Call a function with the fault, and exit with `_FAILED` if it raised a proper error."""
        calls, number = _ERRORS[self.name]
        shim.fail(calls, number, folder, after=self.after, times=self.times)
        try:
            work()
        except OSError as error:
            if error.errno != number or not error.filename:
                raise
            shim.fail("", 0, folder)
            os._exit(_FAILED)
        except bushel.BushelError as error:
            if os.strerror(number) not in str(error) and not isinstance(error.__cause__, OSError):
                raise
            shim.fail("", 0, folder)
            os._exit(_FAILED)
        shim.fail("", 0, folder)


def _age(root: Path, seconds: int) -> None:
    """Move the times of all files, as on a machine whose clock was wrong."""
    for path in root.rglob("*"):
        moved = path.stat().st_mtime_ns - seconds * 10**9
        os.utime(path, ns=(moved, moved))


class Campaign:
    """Trials of one job.

    Args:
        job: The job.
        plan: `kills` or `errors`.
        seed: Decides everything that is random.
        base: A folder for everything.
        shim: The preloaded library.
    """

    def __init__(self, job: Job, plan: str, seed: str, base: Path, shim: Shim) -> None:
        self.job, self.plan, self.seed, self.base, self.shim = job, plan, seed, base, shim
        self.summary = Summary()

    def run(self, kills: int, seconds: float, progress: Callable[[Summary], None], *, first: int = 0) -> Summary:
        """Run trials, from the number `first` on, until there were so many kills, three failures, or the time is over.

        Few system calls of some jobs are those that should fail, so that most of their runs end undisturbed.
        """
        self.summary.trials = first
        end = time.monotonic() + seconds
        while self.summary.kills < kills and len(self.summary.failures) < 3 and time.monotonic() < end:
            rng = random.Random(f"{self.seed}/{self.job.name}/{self.summary.trials}")
            options = self.job.choose(rng)
            work = self.base / f"{self.job.name}-{self.summary.trials}"
            try:
                self._trial(work, options, rng)
            except AssertionError as error:
                self.summary.failures.append(f"trial {self.summary.trials} {options}: {error}")
                print(f"\n{self.job.name}: {self.summary.failures[-1]}", file=sys.stderr, flush=True)
            else:
                shutil.rmtree(work)
            self.summary.trials += 1
            progress(self.summary)
        return self.summary

    def _trial(self, work: Path, options: dict[str, Any], rng: random.Random) -> None:
        sources, before, whole, changes = self._reference(options)
        root, log, said = work / "root", work / "log", work / "said"
        shutil.copytree(before, root, copy_function=shutil.copy2)
        story: list[str] = []
        disk = Disk(root)
        last = False
        for number in range(_MOST_RUNS):
            last = last or number == _MOST_RUNS - 1
            fault = None if last or self.plan == "kills" else Fault.choose(rng, changes)
            kill_at = 0 if last or fault else rng.randint(1, changes)
            loss = "none" if fault else rng.choice(LOSSES)
            jump = rng.choice([0, 0, 3600, -3600])

            def run(
                number: int = number,
                kill_at: int = kill_at,
                fault: Fault | None = fault,
                jump: int = jump,
            ) -> None:
                self.shim.set_clock_back(jump, after=kill_at)
                self.shim.log(root, log, kill_at)
                if fault is None:
                    self.job.run(sources, root, options, number > 0)
                else:
                    fault.run(self.shim, root, lambda: self.job.run(sources, root, options, number > 0))

            code = _in_child(run, said)
            what = f"killed at {kill_at} of {changes}, lost {loss}" if fault is None else str(fault)
            story.append(what if code else f"ended before it was {what}")
            text = said.read_text() if said.exists() else ""
            assert code in (0, _FAILED, -signal.SIGKILL), f"{'; '.join(story)}: exit code {code}: {text}"
            if code == 0 and fault is not None:  # it could do without; what it could not remove, the next run does
                disk.replay(log)
                log.unlink()
                last = True
                continue
            if code == 0:
                break
            self.summary.kills += 1
            self.summary.losses[loss if fault is None else fault.name] += 1
            unseen = lose_unsynced(root, disk, log, loss, rng)
            assert not unseen, f"the shim cannot follow {unseen}"
            if loss != "none":
                disk = Disk(root)
            if jump:
                _age(root, jump)

            def check() -> None:
                self.shim.log(root, log)  # a reader may store an index
                check_state(root, before, whole, data_path(root, options))

            code = _in_child(check, said)
            assert code == 0, f"{'; '.join(story)}: {said.read_text()}"
            disk.replay(log)
            log.unlink()
        _check_same(root, whole, story)
        lose_unsynced(root, disk, log, "all", rng)
        _check_same(root, whole, [*story, "and a power cut after the end"])

    def _reference(self, options: dict[str, Any]) -> tuple[Path, Path, Path, int]:
        """Return the sources, what is there at first, the result of an undisturbed run, and its number of changes."""
        name = hashlib.sha256(json.dumps(options, sort_keys=True).encode()).hexdigest()[:12]
        place = self.base / f"{self.job.name}-{name}"
        sources, before, whole, count = (place / each for each in ("sources", "before", "whole", "changes"))
        if not count.exists():
            for folder in (sources, before):
                folder.mkdir(parents=True)

            def run() -> None:
                self.job.prepare(sources, before, options)
                shutil.copytree(before, whole, copy_function=shutil.copy2)
                self.shim.log(whole, place / "log")
                self.job.run(sources, whole, options, False)
                changes = self.shim.changes
                note_samples(before, whole, data_path(Path(), options))
                (place / "modules").write_text("\n".join(sys.modules))
                count.write_text(str(changes))

            said = place / "said"
            assert _in_child(run, said) == 0, f"an undisturbed run fails: {said.read_text()}"
            for module in (place / "modules").read_text().split():  # imported once here, not once in each fork
                with suppress(ImportError):
                    importlib.import_module(module)
        return sources, before, whole, int(count.read_text())


def _check_same(root: Path, whole: Path, story: Sequence[str]) -> None:
    found, wanted = comparable(root), comparable(whole)
    names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
    assert not names, f"{'; '.join(story)}: these differ from an undisturbed run: {', '.join(names[:5])}"


def _in_child(function: Callable[[], None], said: Path) -> int:
    """Call a function in a fork. Return its exit code, negative for a signal; errors go to a file."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            warnings.simplefilter("ignore")
            logging.disable()
            function()
            code = 0
        except BaseException:
            said.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run campaigns, report progress, print a summary. Return 1 if anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="number of kills or errors for each job (default: 200)")
    parser.add_argument("--seconds", type=float, default=600, help="the most time for each job (default: 600)")
    parser.add_argument("--errors", action="store_true", help="let system calls fail instead of killing")
    parser.add_argument("--trial", type=int, help="one trial again, by its number")
    parser.add_argument("--seed", default="0", help="seed of everything random (default: 0)")
    parser.add_argument("--jobs", default=",".join(JOBS), help=f"jobs, with commas (default: {','.join(JOBS)})")
    parser.add_argument("--folder", type=Path, help="folder for the trials; those that fail are left there")
    parser.add_argument("--quiet", action="store_true", help="print only the summary")
    given = parser.parse_args(arguments)
    if (code := ran_with_library("tests.faults.campaign", arguments)) is not None:
        return code
    shim, failed = Shim(), False
    memory = Path("/dev/shm")  # a disk would only make it slower: the shim knows what is synced
    parent = given.folder or (memory if os.access(memory, os.W_OK) else None)
    base = Path(tempfile.mkdtemp(prefix="bushel-kills-", dir=parent))
    for name in given.jobs.split(","):
        started = time.monotonic()

        def progress(summary: Summary, name: str = name) -> None:
            if not given.quiet:
                line = f"{name}: {summary.kills} of {given.kills}, {summary.trials} datasets"
                print(f"\r{line}, {len(summary.failures)} failures ", end="", file=sys.stderr, flush=True)

        plan = "errors" if given.errors else "kills"
        kills, first = (given.kills, 0) if given.trial is None else (1, given.trial)
        summary = Campaign(JOBS[name], plan, given.seed, base, shim).run(kills, given.seconds, progress, first=first)
        if not given.quiet:
            print(file=sys.stderr)
        losses = ", ".join(f"{loss} {count}" for loss, count in sorted(summary.losses.items()))
        print(
            f"{name}: {summary.kills} {plan} in {summary.trials} datasets ({losses}), "
            f"{len(summary.failures)} failures, {time.monotonic() - started:.0f} s",
            flush=True,
        )
        for failure in summary.failures:
            print(f"  {failure}")
        failed |= bool(summary.failures)
    if failed:
        print(f"what failed is in {base}")
    else:
        shutil.rmtree(base)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

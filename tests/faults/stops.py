"""Stop what writes datasets after each file that gets its name, in this process: `python -m tests.faults.stops`.

`campaign` kills processes at any change, as a power cut does. Here Ctrl-C comes right after a file was renamed, so the
writer still ends as it does then, and every such moment of every job can be tried in a short time.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from tests.faults.jobs import JOBS, SUFFIXES, Job, data_path
from tests.faults.whole import check_state, comparable, note_samples

import bushel
from bushel._runtime.system import exchange_names

__all__ = ["FORMS", "Stops", "forms"]

_STATES = {"incomplete", "unfinished"}


def forms(job: Job) -> list[dict[str, Any]]:
    """Return the options of a job in all combinations."""
    found = []
    for values in itertools.product(*(dict.fromkeys(each) for each in job.choices.values())):
        chosen = {**dict(zip(job.choices, values, strict=True)), **job.fixed}
        lone = chosen.get("single") and (chosen["container"] not in SUFFIXES or chosen.get("parts"))
        if not lone and not (chosen.get("single") and chosen.get("sharded")):
            found.append(chosen)
    return found


FORMS = [(name, options) for name, job in JOBS.items() if name != "pack-processes" for options in forms(job)]
"""Every job that stays in one process, with its options in all combinations."""


class Stops:
    """The stops of one job.

    Args:
        job: The job.
        options: Its options.
        base: An empty folder.
    """

    def __init__(self, job: Job, options: dict[str, Any], base: Path) -> None:
        self.job, self.options, self._base = job, options, base
        self._sources, self._before, self._whole = (base / name for name in ("sources", "before", "whole"))
        for folder in (self._sources, self._before):
            folder.mkdir(parents=True)
        with _quiet():
            job.prepare(self._sources, self._before, options)
            shutil.copytree(self._before, self._whole, copy_function=shutil.copy2)
            with _stopping_after(0) as placed:
                job.run(self._sources, self._whole, options, False)
            note_samples(self._before, self._whole, data_path(Path(), options))
        self.count = placed()

    def check(self, number: int) -> None:
        """Stop the job after so many files got their names, check what is there, and run it again, to its end.

        Raises:
            AssertionError: Something is wrong.
        """
        root = self._base / f"root-{number}"
        shutil.copytree(self._before, root, copy_function=shutil.copy2)
        with _quiet():
            try:
                with _stopping_after(number):
                    self.job.run(self._sources, root, self.options, False)
            except KeyboardInterrupt:
                pass
            else:
                raise AssertionError("it was not stopped")
            path = data_path(root, self.options)
            check_state(root, self._before, self._whole, path)
            self._check_words(path)
            self.job.run(self._sources, root, self.options, True)
        found, wanted = comparable(root), comparable(self._whole)
        names = sorted(name for name in found.keys() | wanted.keys() if found.get(name) != wanted.get(name))
        assert not names, f"{', '.join(names)} differ after the next run"
        shutil.rmtree(root)

    def _check_words(self, path: Path) -> None:
        """Check that `verify` calls the dataset unfinished, nothing else, and that `partial` opens its beginning."""
        try:
            problems = bushel.verify(path).problems
        except (bushel.errors.FormatError, FileNotFoundError) as error:
            _check_says_so(error, path)
        else:
            kinds = {problem.kind for problem in problems}
            assert kinds <= _STATES, f"verify says: {problems}"
        try:
            found = len(bushel.open(path, allow_incomplete=True))
        except (bushel.errors.FormatError, FileNotFoundError) as error:
            _check_says_so(error, path)
            return
        most = max(
            len(json.loads(self._base.joinpath(f"{name}.samples").read_text())[0]) for name in ("before", "whole")
        )
        assert found <= most, f"allow_incomplete=True opens {found} samples"


def _check_says_so(error: Exception, path: Path) -> None:
    there = path.exists() and (not path.is_dir() or any(not each.name.startswith(".") for each in path.iterdir()))
    assert "interrupted" in str(error) or (isinstance(error, FileNotFoundError) and not there), f"{error!r}"


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _stopping_after(number: int) -> Iterator[Callable[[], int]]:
    """Raise KeyboardInterrupt after so many files got their names; 0: never. Yield a function that counts them."""
    count = 0

    def counted(rename: Callable[..., Any]) -> Callable[..., Any]:
        def renamed(source: Any, target: Any, **more: Any) -> Any:
            nonlocal count
            result = rename(source, target, **more)
            if "writers" not in Path(target).parts:  # of locks
                count += 1
                if count == number:
                    raise KeyboardInterrupt
            return result

        return renamed

    with (
        mock.patch("os.rename", counted(os.rename)),
        mock.patch("os.replace", counted(os.replace)),
        mock.patch("os.link", counted(os.link)),
        mock.patch("bushel.storage.publish.exchange_names", counted(exchange_names)),
    ):
        yield lambda: count


def main() -> int:
    """Stop jobs, and print what is wrong. Return 1 if anything is."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.stops", description=__doc__)
    parser.add_argument("--jobs", default=",".join(JOBS), help="jobs, with commas (default: all)")
    parser.add_argument("--most", type=int, default=1000, help="stops of each form (default: all)")
    given = parser.parse_args()
    memory = Path("/dev/shm")
    base = Path(tempfile.mkdtemp(prefix="bushel-stops-", dir=memory if os.access(memory, os.W_OK) else None))
    failed = done = 0
    for place, (name, options) in enumerate(FORMS):
        if name not in given.jobs.split(","):
            continue
        stops = Stops(JOBS[name], options, base / str(place))
        numbers = range(1, stops.count + 1)
        for number in numbers if len(numbers) <= given.most else random.Random(place).sample(numbers, given.most):
            done += 1
            try:
                stops.check(number)
            except Exception:
                failed += 1
                print(f"{name} {options}, stopped after {number} of {stops.count}: {traceback.format_exc(limit=-4)}")
    print(f"{done} stops, {failed} wrong", flush=True)
    if not failed:
        shutil.rmtree(base)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())

"""The writer processes that `tests.conformance.kills` kills: plans from standard input, exit codes to the output."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conformance.kills import COUNT, Plan
from tests.conformance.samples import make_sample
from tests.conformance.target import Target, numbered


def main() -> None:
    """Fork one process for each plan."""
    work = json.load(sys.stdin)
    target = Target(**{**work["target"], "folder": Path(work["target"]["folder"])})
    codes = []
    for plan in work["plans"]:
        pid = os.fork()
        if pid == 0:
            try:
                _write(target, work["spec"], Plan(**plan))
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(1)
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    json.dump(codes, sys.stdout)


def _write(target: Target, spec: dict[str, str], plan: Plan) -> None:
    if plan.renames is not None:
        _kill_after_renames(plan.renames)
    keys = numbered(COUNT)
    with target.writer(plan.name, spec, shard_samples=plan.shard_samples) as writer:
        for number in range(plan.samples):
            writer.append(make_sample(spec, target.seed, number), key=keys[number])
        if plan.within is not None:
            sample = make_sample(spec, target.seed, plan.samples)
            writer.append(
                {**sample, plan.within: _killing_sequence(sample[plan.within])},
                key=keys[plan.samples],
            )
        if plan.renames is None:
            _kill_self()
    _kill_self()


def _kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _killing_sequence(values: list[Any]) -> Iterator[Any]:
    """Return a sequence that kills its reader after the first element."""
    yield from values[:1]
    _kill_self()


def _kill_after_renames(limit: int) -> None:
    """Make the process die before rename number `limit`."""
    renames = 0

    def counted(rename: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            nonlocal renames
            if renames == limit:
                _kill_self()
            renames += 1
            return rename(*arguments, **options)

        return wrapper

    os.rename, os.replace = counted(os.rename), counted(os.replace)


if __name__ == "__main__":
    main()

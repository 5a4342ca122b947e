"""The processes that die in `bushel.testing.kills`: their plans come from standard input, their exit codes go out."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bushel.testing.kills import COUNT, Plan
from bushel.testing.samples import make_sample
from bushel.testing.target import Target, numbered


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
        _count_renames(plan.renames)
    keys = numbered(COUNT)
    with target.writer(plan.name, spec, shard_samples=plan.shard_samples) as writer:
        for number in range(plan.samples):
            writer.append(make_sample(spec, target.seed, number), key=keys[number])
            if number + 1 == plan.flushed:
                writer.flush()
        if plan.within is not None:
            sample = make_sample(spec, target.seed, plan.samples)
            writer.append({**sample, plan.within: _dying(sample[plan.within])}, key=keys[plan.samples])
        if plan.renames is None:
            _die()
    _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying(values: list[Any]) -> Iterator[Any]:
    """A sequence that ends its reader's life behind the first element."""
    yield from values[:1]
    _die()


def _count_renames(limit: int) -> None:
    """Have the process die before rename number `limit`."""
    done = 0

    def counted(rename: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            if done == limit:
                _die()
            done += 1
            return rename(*arguments, **options)

        return wrapper

    os.rename, os.replace = counted(os.rename), counted(os.replace)


if __name__ == "__main__":
    main()

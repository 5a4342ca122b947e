"""Conformance checks of killed writers: a real process, a real SIGKILL, and `mode="resume"` after it.

The processes (`tests.conformance.killed_writer`) write samples that the parent can make, too, and kill
themselves at a chosen moment: after a number of samples, in the middle of one, or before one of the
renames of finished files.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.conformance.samples import make_sample, make_samples
from tests.conformance.target import Target, compare, numbered
from tests.paths import ROOT

from bushel.testing.expect import expect, expect_equal

COUNT = 17
"""Number of samples of the final dataset."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The moment when a writer is killed."""

    name: str  # name of its dataset
    samples: int  # number of complete samples that it appends
    within: str | None = None  # the sequence field in whose middle it is killed, or None
    renames: int | None = None  # the number of renames after which it is killed, or None
    shard_samples: int | None = None  # as for the writer


def check_kill_and_resume(target: Target) -> None:
    """Check that a kill at any moment costs the open shard, and duplicates no sample."""
    spec = target.fit()
    sequence = next((name for name, kind in spec.items() if kind.endswith("[]")), None)
    plans = [
        Plan(f"killed-{shard}-{samples}-{within}", samples, within, None, shard)
        for shard in (None, 5)
        for samples, within in (
            (0, None),
            (1, None),
            (5, None),
            (7, None),
            (7, sequence),
            (16, None),
        )
    ]
    _check(target, spec, list(dict.fromkeys(plans)))


def check_kill_while_finishing(target: Target) -> None:
    """Check that a kill between the renames of a finished shard's files is recovered from, too."""
    plans = [Plan(f"renamed-{renames}", COUNT, renames=renames, shard_samples=5) for renames in range(8)]
    _check(target, target.fit(), plans)


def _check(target: Target, spec: dict[str, str], plans: Sequence[Plan]) -> None:
    _kill(target, spec, plans)
    samples, keys = make_samples(spec, target.seed, COUNT), numbered(COUNT)
    for plan in plans:
        whole = target.folder / f"whole-{plan.shard_samples}"
        if not whole.exists():
            target.write(whole.name, spec, samples, keys, shard_samples=plan.shard_samples)
        with target.writer(plan.name, spec, mode="resume", shard_samples=plan.shard_samples) as writer:
            stored = len(writer)
            finished = 0
            if plan.shard_samples:
                finished = plan.samples // plan.shard_samples * plan.shard_samples
            expect(stored <= plan.samples, f"{plan}: {stored} samples are stored")
            expect(
                stored == finished or plan.renames is not None,
                f"{plan}: {stored} samples, not {finished}",
            )
            for number in range(stored, COUNT):
                writer.append(make_sample(spec, target.seed, number), key=keys[number])
        with target.open(target.folder / plan.name, verify=True) as dataset:
            compare(dataset, samples, spec, keys, f"after {plan} and a resume")
        _expect_same_files(target.folder / plan.name, whole, str(plan))


def _kill(target: Target, spec: dict[str, str], plans: Sequence[Plan]) -> None:
    work = {
        "target": {**asdict(target), "folder": str(target.folder)},
        "spec": spec,
        "plans": [asdict(plan) for plan in plans],
    }
    command = [sys.executable, "-m", "tests.conformance.killed_writer"]
    process = subprocess.run(command, cwd=ROOT, input=json.dumps(work), capture_output=True, text=True, check=False)
    expect(process.returncode == 0, f"{' '.join(command)} failed: {process.stderr}")
    for plan, code in zip(plans, json.loads(process.stdout), strict=True):
        expect(
            code == -signal.SIGKILL,
            f"{plan}: the writer ended by itself ({code}): {process.stderr}",
        )


def _expect_same_files(path: Path, whole: Path, what: str) -> None:
    """Check that a resumed dataset has the files of one that was written without a break, and no others."""
    expect_equal(_files(path), _files(whole), f"{what}: names of files")
    for name in _files(whole):
        equal = (path / name).read_bytes() == (whole / name).read_bytes()
        expect(equal, f"{what}: {name} differs from the file of an unbroken write")
    left: list[Any] = [*path.glob(".bushel/staging/*")]
    expect(not left, f"{what}: staged files are left: {left}")


def _files(path: Path) -> list[str]:
    names = (path_below.relative_to(path).as_posix() for path_below in path.rglob("*") if path_below.is_file())
    return sorted(name for name in names if ".bushel/" not in name)

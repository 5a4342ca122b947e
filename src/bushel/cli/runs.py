"""What the commands that write parts have in common."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bushel.ingest import ConvertResult, PackResult

__all__ = ["check_engine_options", "tell_of_plan", "written"]


def check_engine_options(engine: str | None, sbatch: str | None, parts: int | None, part: int | None) -> None:
    """Check that the options about engines go together.

    Raises:
        BadParameter: An option is missing, or has no effect.
    """
    if sbatch is not None and engine != "slurm":
        raise click.BadParameter("it needs --engine slurm", param_hint="--sbatch")
    if engine == "slurm" and parts is None:
        raise click.BadParameter("slurm needs --parts, the number of tasks of the array", param_hint="--engine")
    if engine is not None and part is not None:
        raise click.BadParameter("--part writes one part in this process: leave one of them out", param_hint="--engine")


def tell_of_plan(target: str, *, slurm: bool, sbatch: str | None, retries: int) -> None:
    """Print what is missing of a run whose plan was written; with `slurm`, submit it."""
    from bushel.cli.output import print_text
    from bushel.ingest.run_folder import find_run
    from bushel.ingest.run_plan import format_numbers

    run, plan = find_run(target)
    missing = run.missing(plan)
    if not slurm:
        print_text(
            f"{target}: planned {plan.parts:,} parts of {plan.samples:,} samples; missing: {format_numbers(missing)}"
        )
        return
    from bushel.engines import slurm as scheduler

    command = [sys.executable, "-m", "bushel", *scheduler.without_engine(sys.argv[1:])]
    jobs = scheduler.submit(command, target, missing, sbatch=sbatch or "", retries=retries)
    print_text(f"{target}: submitted {len(missing):,} of {plan.parts:,} parts to Slurm: {jobs}")


def written(target: str, done: PackResult | ConvertResult, fields: str = "") -> str:
    """Return the line that says what a run has written: samples, container, `fields`, bytes and seconds."""
    from bushel.cli.output import count, size

    kept = f" after {done.kept:,} from before" if done.kept else ""
    what = f"{count(done.samples, 'sample')} written as {done.container}{kept}{fields}"
    return f"{target}: {what}, {size(done.bytes)} in {done.seconds:.1f} s"

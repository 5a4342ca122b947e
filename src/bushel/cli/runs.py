"""Options and messages of the commands that write parts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import click

from bushel._runtime.structs import Struct
from bushel.cli.command import Option
from bushel.cli.options import Parts, Retries, Speculate, engines

if TYPE_CHECKING:
    from bushel.ingest import PackResult

__all__ = ["PartOptions", "tell_of_errors", "written"]


class PartOptions(Struct, frozen=True):
    """The parts of a run, and where they are written."""

    parts: Parts = None
    part: Annotated[int | None, Option("--part", min=0, help="Write only this part, counted from 0.")] = None
    plan_only: Annotated[
        bool, Option("--plan-only", help="Write only the plan of the parts, which lists the source once.")
    ] = False
    engine: Annotated[
        str | None,
        Option(
            "--engine", help="Where parts are written: local, ray, dask, an address, or slurm.", values=engines("slurm")
        ),
    ] = None
    retries: Retries = 3
    speculate: Speculate = 3.0
    sbatch: Annotated[
        str | None, Option("--sbatch", help="Options of sbatch, with --engine slurm: '--mem=4G -p cpu'.")
    ] = None

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            BadParameter: An option is missing, or has no effect.
        """
        if self.sbatch is not None and not self.slurm:
            raise click.BadParameter("it needs --engine slurm", param_hint="--sbatch")
        if self.slurm and self.parts is None:
            raise click.BadParameter("slurm needs --parts, the number of tasks of the array", param_hint="--engine")
        if self.engine is not None and self.part is not None:
            raise click.BadParameter(
                "--part writes one part in this process: leave one of them out", param_hint="--engine"
            )

    @property
    def slurm(self) -> bool:
        """Whether the parts are submitted to Slurm, once their plan is written."""
        return self.engine == "slurm"

    @property
    def only_planned(self) -> bool:
        """Whether the call of Python writes nothing but the plan."""
        return self.plan_only or self.slurm

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.pack` and `bushel.convert`."""
        return {
            "parts": self.parts,
            "part": self.part,
            "plan_only": self.only_planned,
            "engine": None if self.slurm else self.engine,
            "retries": self.retries,
            "speculate": self.speculate,
        }

    def tell_of_plan(self, target: str) -> None:
        """Print the missing parts of a run whose plan was written, or submit them to Slurm."""
        from bushel._runtime.tasks.numbers import format_numbers
        from bushel.cli.output import print_text
        from bushel.ingest.lost_parts import missing_parts
        from bushel.ingest.run_folder import find_run

        run, plan = find_run(target)
        missing = missing_parts(run, plan)
        if not self.slurm:
            planned = f"planned {plan.parts:,} parts of {plan.samples:,} samples"
            print_text(f"{target}: {planned}; missing: {format_numbers(missing)}")
            return
        from bushel.engines import slurm as scheduler

        command = [sys.executable, "-m", "bushel", *scheduler.without_engine(sys.argv[1:])]
        jobs = scheduler.submit(command, target, missing, sbatch=self.sbatch or "", retries=self.retries)
        print_text(f"{target}: submitted {len(missing):,} of {plan.parts:,} parts to Slurm: {jobs}")


def written(target: str, done: PackResult, fields: str = "") -> str:
    """Return the summary of a run in one line: samples, container, `fields`, bytes and seconds."""
    from bushel.cli.output import count, size

    kept = f" after {done.kept:,} from before" if done.kept else ""
    what = f"{count(done.samples, 'sample')} written as {done.container}{kept}{fields}"
    return f"{target}: {what}, {size(done.bytes)} in {done.seconds:.1f} s"


def tell_of_errors(done: PackResult) -> None:
    """Print how many items could not be written, and where they are listed."""
    from bushel.cli.output import count, say

    if done.errors:
        say(f"bushel: {count(done.errors, 'item')} could not be packed: see {', '.join(done.error_logs)}", quiet=False)

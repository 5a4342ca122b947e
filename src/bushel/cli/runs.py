"""Runs: what `bushel pack` and `bushel convert` share, and `bushel parts` and `bushel finish`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, structs

from .command import Argument, Option
from .options import Json, NewKind, OutputOptions, Parts, ShardOptions, Workers
from .output import count, print_json, print_text, progress_of, say, size, wrong_option
from .packoptions import allowed_errors

if TYPE_CHECKING:
    from bushel._pack import PackResult


class WriteOptions(ShardOptions, frozen=True):
    """How samples are written, in which order, and by how many threads.

    Attributes:
        images: check: decode every image, to find damaged ones; upright: rotate by Exif; baseline:
            rewrite progressive JPEGs without loss; tile: store JPEGs in tiles, without loss, so
            that crops decode faster; may be repeated.
        seek: Record decoder states of plain JPEGs in the index, so that crops decode faster.
        index_columns: Columns to record in the index: label,image.width; auto for numbers, short
            texts and sizes of images, the default; none.
        max_errors: Samples that may fail in the whole run: 100, 1% or all.
        keys: Keep the keys or leave them out.
        replace_dots: Text that replaces every dot in a key; keys in a tar cannot have dots.
        forget_removed: With --overwrite: drop the list of removed samples.
        progress: bar (in a terminal), json (a line of JSON at a time, on standard error) or none.
    """

    container: NewKind = None
    images: list[str] | None = None
    seek: bool = False
    index_columns: str | None = None
    shuffle: Annotated[bool, Option("Write in a random order.", "--shuffle/--no-shuffle")] = False
    seed: Annotated[int, Option("Seed of the random order and of random transforms.", min=0)] = 0
    max_errors: str = "0"
    keys: bool = True
    replace_dots: str | None = None
    forget_removed: bool = False
    threads: Workers = None
    progress: str = "bar"

    @property
    def on_damage(self) -> Any:
        """Treatment of a damaged source: see `bushel.open`."""
        if allowed_errors(self.max_errors) == 0:
            return "raise"
        return "warn"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.pack` and `bushel.convert`.

        Raises:
            BadParameter: `--max-errors` has another form, or `--replace-dots` is given, but keys
                are left out.
        """
        arguments = structs.asdict(self)
        del arguments["replace_dots"], arguments["progress"]
        columns = arguments.pop("index_columns")
        return {
            **arguments,
            "seek": self.seek or None,
            "columns": columns,
            "max_errors": allowed_errors(self.max_errors),
            "keys": self._keys(),
        }

    def _keys(self) -> bool | Callable[[str], str] | None:
        if self.replace_dots is None:
            return None if self.keys else False
        if not self.keys:
            raise wrong_option(
                "--replace-dots", "--no-keys leaves the keys out: give one of the two options"
            )
        return _DotsReplaced(self.replace_dots)


class _DotsReplaced(Struct, frozen=True):
    """Replaces the dots in a key. It can be pickled, for engines."""

    text: str

    def __call__(self, key: str) -> str:
        return key.replace(".", self.text)


class PartOptions(Struct, frozen=True):
    """The parts of a run, and where they are written.

    Attributes:
        part: Write only this part, counted from 0; or plan: only the plan of the parts, which lists
            the source once.
        engine: Where parts are written: local, ray, dask, an address, or slurm.
        sbatch: Options of sbatch, with --engine slurm: '--mem=4G -p cpu'.
    """

    parts: Parts = None
    part: str | None = None
    engine: str | None = None
    sbatch: str | None = None

    def check(self) -> None:
        """Check that the options go together.

        Raises:
            BadParameter: An option is missing, or has no effect.
            FileNotFoundError: Slurm is asked for, and is not here.
        """
        if self.sbatch is not None and not self.slurm:
            raise wrong_option("--sbatch", "it needs --engine slurm")
        if self.slurm and self.parts is None:
            raise wrong_option("--engine", "slurm needs --parts, the number of tasks of the array")
        if self.slurm:  # before a plan is written, which other arguments would have to replace
            from bushel.engines.slurm import check_sbatch

            check_sbatch()
        if self.engine is not None and self.part is not None:
            raise wrong_option(
                "--engine", "--part does its work in this process: leave one of them out"
            )

    @property
    def slurm(self) -> bool:
        """Whether the parts are submitted to Slurm, once their plan is written."""
        return self.engine == "slurm"

    @property
    def only_planned(self) -> bool:
        """Whether the call of Python writes nothing but the plan."""
        return self.slurm or self.part == "plan"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.pack` and `bushel.convert`."""
        if self.slurm:
            return {"parts": self.parts, "part": "plan"}
        part = self.part
        number = int(part) if part is not None and part.isdecimal() else part
        return {"parts": self.parts, "part": number, "engine": self.engine}

    def tell_of_plan(self, target: str) -> None:
        """Print the missing parts of a run whose plan was written, or submit them to Slurm."""
        from bushel._pack.run_folder import find_run
        from bushel._runtime.tasks import format_numbers

        run, plan = find_run(target)
        missing = run.missing(plan)
        if not self.slurm:
            planned = f"planned {plan.parts:,} parts of {plan.samples:,} samples"
            print_text(f"{target}: {planned}; missing: {format_numbers(missing)}")
            return
        from bushel.engines import slurm as scheduler

        command = [sys.executable, "-m", "bushel", *scheduler.without_engine(sys.argv[1:])]
        jobs = scheduler.submit(command, target, missing, sbatch=self.sbatch or "")
        print_text(f"{target}: submitted {len(missing):,} of {plan.parts:,} parts to Slurm: {jobs}")


class RunOptions(Struct, frozen=True):
    """How the samples of a run are written, and in which parts."""

    writing: WriteOptions
    parts: PartOptions

    def arguments(self, shown: OutputOptions) -> dict[str, Any]:
        """Return the arguments of `bushel.pack` and `bushel.convert`.

        Raises:
            BadParameter: As for `WriteOptions.arguments`; or the kind of progress is unknown.
        """
        progress = progress_of(self.writing.progress, quiet=shown.quiet or shown.as_json)
        return {**self.writing.arguments(), **self.parts.arguments(), "progress": progress}


def tell_of_run(target: str, done: PackResult, parts: PartOptions, shown: OutputOptions) -> None:
    """Print the result of a run: its plan, if nothing else was written; else a summary, as text or JSON."""
    if parts.only_planned:
        parts.tell_of_plan(target)
        return
    if shown.as_json:
        print_json({"target": target, **asdict(done)})
    elif not shown.quiet:
        for limit in done.limits:
            say(f"note: {limit}")
        names = ", ".join(f"{name}: {kind}" for name, kind in done.spec.items())
        before = f" after {done.kept:,} from before" if done.kept else ""
        what = f"{count(done.samples, 'sample')} written as {done.container}{before} ({names})"
        rate = f"{done.samples / max(done.seconds, 1e-9):,.0f}/s"
        print_text(f"{target}: {what}, {size(done.bytes)} in {done.seconds:.1f} s, {rate}")
    if done.errors:
        say(
            f"bushel: {count(done.errors, 'item')} could not "
            f"be packed: see {', '.join(done.error_logs)}"
        )


RunTarget = Annotated[
    str, Argument("The TARGET of `bushel pack` or `bushel convert` with --parts.")
]


def parts(
    target: RunTarget,
    missing: bool = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a run in parts: missing parts and errors.

    Parts without their files count as missing.

    Options:
        missing: Print only the numbers of missing parts, as sbatch --array takes them.

    Examples:
      bushel parts out/
      sbatch --array=$(bushel parts out/ --missing) pack.sh
    """
    from bushel._pack.run_folder import find_run
    from bushel._runtime.tasks import format_numbers

    run, plan = find_run(target)
    written, result = run.written(plan), run.load_result()
    numbers = [number for number in range(plan.parts) if number not in written]
    errors = sum(totals.errors for totals in written.values())
    if missing:
        print_text(format_numbers(numbers))
        return
    state = "finished"
    if numbers:
        state = f"missing {format_numbers(numbers)}"
    elif result is None:
        state = "all parts are complete: run `bushel finish`"
    lines = [
        f"{target}: {plan.parts - len(numbers):,} of {count(plan.parts, 'part')} "
        f"of a run to {plan.container}, {state}"
    ]
    if errors:
        lines.append(f"{count(errors, 'item')} could not be packed")
    facts = {
        "target": target,
        "parts": plan.parts,
        "missing": numbers,
        "samples": plan.samples,
        "errors": errors,
        "finished": result is not None,
    }
    OutputOptions(as_json=as_json).show(facts, *lines)


def finish(
    target: RunTarget,
    max_errors: str = "all",
    *,
    shown: OutputOptions,
) -> None:
    """Join the parts of a run to one dataset: manifest, class names, error log.

    It may be run again, also by several machines at the same time.

    Options:
        max_errors: Items that may fail in the whole run: 100, 1% or all.

    Example:
      bushel finish out/
    """
    from bushel._pack.finish import finish_run
    from bushel._pack.run_folder import find_run
    from bushel.errors import error_limit

    run, plan = find_run(target)
    allowed = error_limit(allowed_errors(max_errors), plan.samples)
    result = finish_run(run, plan, allowed=allowed)
    failed = ""
    if result.errors:
        failed = f", {count(result.errors, 'item')} could not be packed"
    shown.show(
        {"target": target, "parts": plan.parts, **structs.asdict(result)},
        f"{target}: {count(result.samples, 'sample')} in "
        f"{count(plan.parts, 'part')}, {size(result.bytes)}{failed}",
    )

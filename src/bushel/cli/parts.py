"""Runs in parts: `bushel parts` and `bushel finish`."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import asdict

from .command import Argument, Option
from .options import Json, OutputOptions
from .output import count, print_text, size

RunTarget = Annotated[
    str, Argument("The TARGET of `bushel pack` or `bushel convert` with --parts.")
]


def parts(
    target: RunTarget,
    missing: Annotated[
        bool, Option("Print only the numbers of missing parts, as sbatch --array takes them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the progress of a run in parts: missing parts and errors.

    Parts without their files count as missing.

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
        f"of {plan.kind} to {plan.container}, {state}"
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
    max_errors: Annotated[
        str, Option("Items that may fail in the whole run: 100, 1% or all.")
    ] = "all",
    *,
    shown: OutputOptions,
) -> None:
    """Join the parts of a run to one dataset: manifest, class names, error log.

    It may be run again, also by several machines at the same time.

    Example:
      bushel finish out/
    """
    from bushel._pack.finish import finish_run
    from bushel._pack.run_folder import find_run
    from bushel.errors import error_limit

    from .packoptions import allowed_errors

    run, plan = find_run(target)
    allowed = error_limit(allowed_errors(max_errors), plan.samples)
    result = finish_run(run, plan, allowed=allowed)
    failed = ""
    if result.errors:
        failed = f", {count(result.errors, 'item')} could not be packed"
    shown.show(
        {"target": target, "parts": plan.parts, **asdict(result)},
        f"{target}: {count(result.samples, 'sample')} in "
        f"{count(plan.parts, 'part')}, {size(result.bytes)}{failed}",
    )

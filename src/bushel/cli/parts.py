"""`bushel parts`."""

from __future__ import annotations

from typing import Annotated

from .command import Argument, Option
from .options import Json, OutputOptions


def command(
    target: Annotated[
        str, Argument("The TARGET of `bushel pack` or `bushel convert` with --parts.")
    ],
    missing: Annotated[
        bool,
        Option("Print only the numbers of missing parts, as sbatch --array takes them."),
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
    from bushel._runtime.tasks.engine import format_numbers

    from .output import count, print_text

    run, plan = find_run(target)
    written, result = run.written(plan), run.load_result()
    numbers = [number for number in range(plan.parts) if number not in written]
    errors = sum(totals.errors for totals in written.values())
    if missing:
        print_text(format_numbers(numbers))
        return
    facts = {"parts": plan.parts, "missing": numbers, "samples": plan.samples, "errors": errors}
    if result is not None:
        state = "finished"
    else:
        state = "all parts are complete: run `bushel finish`"
    if numbers:
        state = f"missing {format_numbers(numbers)}"
    finished = plan.parts - len(numbers)
    lines = [
        f"{target}: {finished:,} of {count(plan.parts, 'part')} of {plan.kind} to"
        f" {plan.container}, {state}"
    ]
    if errors:
        lines.append(f"{count(errors, 'item')} could not be packed")
    facts |= {"target": target, "finished": result is not None}
    OutputOptions(as_json=as_json).show(facts, *lines)

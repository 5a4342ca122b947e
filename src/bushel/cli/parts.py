"""`bushel parts`."""

from __future__ import annotations

from typing import Annotated

from bushel.cli.command import Argument, Option
from bushel.cli.options import Json


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
    from bushel.cli.output import count, print_json, print_text

    run, plan = find_run(target)
    written, result = run.written(plan), run.load_result()
    numbers = [number for number in range(plan.parts) if number not in written]
    errors = sum(totals.errors for totals in written.values())
    if missing:
        print_text(format_numbers(numbers))
        return
    if as_json:
        facts = {"parts": plan.parts, "missing": numbers, "samples": plan.samples, "errors": errors}
        print_json({"target": target, **facts, "finished": result is not None})
        return
    if result is not None:
        state = "finished"
    else:
        state = "all parts are complete: run `bushel finish`"
    if numbers:
        state = f"missing {format_numbers(numbers)}"
    finished = plan.parts - len(numbers)
    print_text(
        f"{target}: {finished:,} of {count(plan.parts, 'part')} of {plan.kind} to"
        f" {plan.container}, {state}"
    )
    if errors:
        print_text(f"{count(errors, 'item')} could not be packed")

"""`bushel finish`."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import asdict

from .command import Argument, Option
from .options import OutputOptions


def command(
    target: Annotated[
        str, Argument("The TARGET of `bushel pack` or `bushel convert` with --parts.")
    ],
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
    from bushel.loader.values.bad_samples import error_limit

    from .output import count, size
    from .packoptions import allowed_errors

    run, plan = find_run(target)
    allowed = error_limit(allowed_errors(max_errors), plan.samples)
    result = finish_run(run, plan, allowed=allowed)
    failed = ""
    if result.errors:
        failed = f", {count(result.errors, 'item')} could not be packed"
    shown.show(
        {"target": target, "parts": plan.parts, **asdict(result)},
        f"{target}: {count(result.samples, 'sample')} in {count(plan.parts, 'part')},"
        f" {size(result.bytes)}{failed}",
    )

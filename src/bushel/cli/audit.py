"""`bushel audit`."""

from __future__ import annotations

from typing import Annotated

import click

from .command import Argument, Option
from .options import Json


def command(
    run: Annotated[str, Argument("The folder that bushel.audit.record(loader, RUN) filled.")],
    *,
    against: Annotated[
        str | None, Option("A run that is to have the same samples at the same steps.")
    ] = None,
    of: Annotated[str | None, Option("The dataset whose samples are all to come.")] = None,
    samples: Annotated[
        int | None, Option("How many samples are to come in an epoch.", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Examine what any loader gave to each rank: shared, missing and repeated samples.

    bushel.audit.record records it, of any loader.

    The report says which samples ranks share or had twice, which never came, whether ranks have
    equal steps, whether a resumed epoch equals the uninterrupted one, and whether two runs agree.
    The exit code is 1 if there is a problem.

    Examples:
      bushel audit runs/a --of train/
      bushel audit runs/resumed --against runs/whole
    """
    import bushel
    from bushel.audit import examine

    from .output import print_json, print_text

    if of is None:
        report = examine(run, against=against, samples=samples)
    else:
        with bushel.open(of) as opened:
            report = examine(run, against=against, keys=opened.keys, samples=samples)
    if as_json:
        findings = [
            {"epoch": finding.epoch, "problem": finding.is_problem, "text": finding.text}
            for finding in report.findings
        ]
        print_json({"run": run, "problems": len(report.problems), "findings": findings})
    else:
        print_text(str(report))
    if report.problems:
        raise click.exceptions.Exit(1)

"""Submit the parts of a run to Slurm: an array of jobs with one part each, and a job that joins the parts.

Slurm runs commands, so this is not an engine that a function is passed to:
`bushel pack ... --engine slurm` writes the plan, and each task of the array runs the same command
with `--part`. The last job runs `bushel finish`; if parts are missing then, because a node failed
or a job was cancelled, it submits these again.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence

from bushel._runtime.tasks import format_numbers

_ARRAY = 1000  # numbers in an array: Slurm's default allows indexes up to 1000 (MaxArraySize)
_WITH_VALUE = ("--engine", "--sbatch", "--part")
_RETRIES = "BUSHEL_SLURM_RETRIES"
"""The variable of the environment that says how often missing parts may be submitted again; 3 by default."""


def script(command: Sequence[str], *, first: int = 0) -> str:
    """Return the script of an array of parts.

    Args:
        command: The command of the whole run, without `--part` and `--engine`.
        first: Number of the part of the task with index 0.
    """
    if first:
        number = f"$(( SLURM_ARRAY_TASK_ID + {first} ))"
    else:
        number = "$SLURM_ARRAY_TASK_ID"
    return f"#!/bin/bash\n#SBATCH --requeue\nexec {shlex.join(command)} --part {number}\n"


def finish_script(command: Sequence[str], target: str, *, sbatch: str, retries: int) -> str:
    """Return the script of the job that joins the parts, and submits missing ones again."""
    python = "bushel"
    if "bushel" in command:
        python = shlex.join(command[: command.index("bushel") + 1])
    lines = ["#!/bin/bash", f"{python} finish {shlex.quote(target)}", "code=$?"]
    if retries > 0:
        again = ["env", f"{_RETRIES}={retries - 1}", *command, "--engine", "slurm"]
        if sbatch:
            again += ["--sbatch", sbatch]
        lines.append(f"if [ $code = 2 ]; then exec {shlex.join(again)}; fi  # parts are missing")
    return "\n".join([*lines, "exit $code", ""])


def submit(
    command: Sequence[str],
    target: str,
    numbers: Sequence[int],
    *,
    sbatch: str = "",
) -> str:
    """Submit the parts with these numbers, and the job that joins them.

    Args:
        command: The command of the whole run, such as
            `["bushel", "pack", "photos", "out", "--parts", "64"]`.
        target: Its target.
        numbers: The parts to write, ascending.
        sbatch: Further options of sbatch, as in a shell: `--mem=4G --partition=cpu`.

    Returns:
        The numbers of the jobs. The last one joins the parts.

    Raises:
        FileNotFoundError: sbatch is not installed.
        OSError: Slurm refuses the jobs.
    """
    check_sbatch()
    options = shlex.split(sbatch)
    jobs = []
    for first, offsets in _arrays(numbers):
        array = f"--array={format_numbers(offsets)}"
        jobs.append(_sbatch([*options, "--job-name=bushel", array], script(command, first=first)))
    after = [f"--dependency=afterany:{':'.join(jobs)}"] if jobs else []
    retries = int(os.environ.get(_RETRIES, 3))
    last = finish_script(command, target, sbatch=sbatch, retries=retries)
    jobs.append(_sbatch([*options, "--job-name=bushel-finish", *after], last))
    return ", ".join(jobs)


def check_sbatch() -> None:
    """Check that jobs can be submitted from this machine. Raise FileNotFoundError if sbatch is not installed."""
    if shutil.which("sbatch") is None:
        raise FileNotFoundError(
            "sbatch was not found on this machine: run this where jobs are submitted to Slurm"
        )


def without_engine(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command without the options that only submitting it needs."""
    left: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        name, equals, _ = argument.partition("=")
        if name in _WITH_VALUE:
            if not equals:
                next(remaining, None)
        elif argument != "--overwrite":  # which has replaced the plan already
            left.append(argument)
    return left


def _arrays(numbers: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield the first number of each array, and the indexes in it."""
    by_array: dict[int, list[int]] = {}
    for number in numbers:
        by_array.setdefault(number // _ARRAY * _ARRAY, []).append(number % _ARRAY)
    yield from sorted(by_array.items())


def _sbatch(options: Sequence[str], text: str) -> str:
    """Submit a script, and return the number of the job."""
    process = subprocess.run(
        ["sbatch", "--parsable", *options], input=text, capture_output=True, text=True, check=False
    )
    job = re.match(r"\d+", process.stdout)
    if process.returncode or job is None:
        raise OSError(f"sbatch failed: {process.stderr.strip() or process.stdout.strip()}")
    return job[0]

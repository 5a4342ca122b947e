"""The campaign of kills of `campaign.py`, with a few kills of each job. `make faults` runs many, and errors too."""

from __future__ import annotations

import pytest
from tests.faults.jobs import JOBS
from tests.faults.shim import compiler, start


@pytest.mark.skipif(compiler() is None, reason="needs Linux and a C compiler")
def test_a_few_of_each() -> None:
    jobs = ",".join(name for name in JOBS if name != "pack-processes")  # whose helper processes start slowly
    done = start("tests.faults.campaign", "--quiet", "--kills", "2", "--jobs", jobs, timeout=600)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(compiler() is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize(("job", "trial"), [("overwrite", 1), ("overwrite", 20), ("pack", 19), ("pack", 59)])
def test_errors_that_named_no_file(job: str, trial: int) -> None:
    """ESTALE while a staging folder is removed, EIO in a stale lock and in the joined log of a run."""
    given = ("--errors", "--quiet", "--seed", "2311", "--jobs", job, "--trial", str(trial))
    done = start("tests.faults.campaign", *given, timeout=600)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(compiler() is None, reason="needs Linux and a C compiler")
@pytest.mark.parametrize(
    ("job", "seed", "trial"),
    [("split", 2027, 1), ("split", 2027, 5), ("pack", 2027, 1), ("pack", 1304, 1), ("erase", 31, 5), ("erase", 31, 13)],
)
def test_kills_that_lost_something(job: str, seed: int, trial: int) -> None:
    """A new folder of a split that was not on disk, and errors that were taken from the log of a finished run.

    A part whose files were in their places, and its staging folder, too: nobody looked at finished parts.

    Erasing: a staging folder that was removed, but not on disk, and an old file beside the new one that belongs to it.
    """
    done = start(
        "tests.faults.campaign", "--quiet", "--seed", str(seed), "--jobs", job, "--trial", str(trial), timeout=600
    )
    assert done.returncode == 0, done.stdout

"""Every way of writing, stopped after a file got its name: what is there is called unfinished, and can be continued."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import CONTAINERS
from tests.faults.jobs import JOBS
from tests.faults.stops import FORMS, Stops

STOPPED = sorted({name for name, _ in FORMS})


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("name", STOPPED)
def test_some_stops(tmp_path: Path, name: str, container: str) -> None:
    rng = random.Random(f"{name}/{container}")
    forms = [options for job, options in FORMS if job == name and options["container"] == container]
    stops = Stops(JOBS[name], rng.choice(forms), tmp_path)
    assert stops.count > 0
    stops.check(rng.randint(1, stops.count))


@pytest.mark.parametrize("container", CONTAINERS)
def test_every_stop_of_an_erase_in_a_folder(tmp_path: Path, container: str) -> None:
    options = {"container": container, "sharded": False, "single": False}
    stops = Stops(JOBS["erase"], options, tmp_path)
    for number in range(1, stops.count + 1):
        stops.check(number)


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_first_stops_of_a_writer(tmp_path: Path, container: str) -> None:
    """Among them is the stop at which there is a manifest and no shard."""
    options = next(options for job, options in FORMS if job == "writer" and options["container"] == container)
    stops = Stops(JOBS["writer"], options, tmp_path)
    for number in range(1, 4):
        stops.check(number)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "options"), FORMS)
def test_every_stop(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    stops = Stops(JOBS[name], options, tmp_path)
    for number in range(1, stops.count + 1):
        stops.check(number)

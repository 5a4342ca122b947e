"""A cluster of Ray on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.paths import ROOT

__all__ = ["local_ray"]


@contextmanager
def local_ray() -> Iterator[None]:
    """Run Ray with two processors, whose workers import the tests, too."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
        yield
        ray.shutdown()

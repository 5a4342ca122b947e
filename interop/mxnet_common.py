"""What MXNet's tests import from the module `common` beside them, which needs all of MXNet."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from typing import Any

import numpy as np


def with_seed() -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Seed the random numbers of a test."""

    def seeded(test: Callable[[], Any]) -> Callable[[], Any]:
        @functools.wraps(test)
        def run() -> Any:
            random.seed(0)
            np.random.seed(0)
            return test()

        return run

    return seeded


def setup_module() -> None:
    """Do nothing."""


teardown = setup_module

"""The numbers of a batch equal the numbers of its samples, exactly, whatever their types, by every way of collating."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.loader.expected_values import Values, assert_holds, fields

from bushel.errors import SpecError
from bushel.loader import Loader, Padded, Ragged

RULES = [None, "list", "stack", Padded(), Ragged(), list]
TORCH = find_spec("torch") is not None


@pytest.mark.parametrize("rule", RULES, ids=str)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
@given(values=fields(), size=st.sampled_from([2, 6]), torch=st.booleans())
def test_a_batch_equals_its_values(rule: Any, values: list[Any], size: int, torch: bool) -> None:
    to: Any = "torch" if torch and TORCH else "numpy"
    loader = Loader(Values(values), size, collate=rule and {"x": rule}, threads=1 if torch else 0, to=to)
    try:
        batches = list(loader)
    except SpecError:  # it says that they do not collate, which only these rules may
        assert rule == "stack" or isinstance(rule, Padded | Ragged)
        return
    for number, batch in enumerate(batches):
        assert_holds(batch["x"], values[number * size : (number + 1) * size], rule)


@pytest.mark.parametrize("to", ["numpy", *(["torch"] if TORCH else [])])
def test_worker_processes_give_the_same(to: Any) -> None:
    lists: list[list[Any]] = [
        [1, 2**63 + 1, 3, 2**64 - 1],
        [-1, 2**63, 0.5, 2**53 + 1],
        [np.arange(3000, dtype=">f4") + i for i in range(4)],
        [np.arange(3 + i, dtype=">u8") for i in range(4)],
    ]
    for values in lists:
        for number, batch in enumerate(Loader(Values(values), 2, processes=1, threads=1, to=to)):
            assert_holds(batch["x"], values[2 * number : 2 * number + 2], None)

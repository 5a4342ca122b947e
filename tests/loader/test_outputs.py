"""Outputs: torch tensors and JAX arrays, where those are installed."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import MemoryDataset

from bushel.loader import Loader
from bushel.loader.outputs import Output


def test_a_missing_library_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr("bushel.loader.outputs.import_module", missing)
    with pytest.raises(ImportError, match=r'pip install "bushel\[torch\]"'):
        Loader(MemoryDataset(4), 2, to="torch")


@pytest.mark.parametrize("processes", [0, 1])
def test_torch_tensors_share_the_memory_of_the_arrays(processes: int) -> None:
    torch = pytest.importorskip("torch")
    batches = list(Loader(MemoryDataset(8), 4, to="torch", processes=processes))
    assert [batch["number"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches[0]["vector"].dtype == torch.float32
    assert batches[0]["name"] == [f"name {i}" for i in range(4)]
    array = np.arange(6.0).reshape(2, 3)
    tensor = Output("torch").convert({"x": [array]})["x"][0]
    array[0, 0] = 9
    assert tensor[0, 0] == 9


def test_arrays_that_torch_cannot_share_are_copied() -> None:
    pytest.importorskip("torch")
    fixed = np.arange(4)
    fixed.flags.writeable = False
    assert Output("torch").convert((fixed, np.arange(4)[::-1]))[0].tolist() == [0, 1, 2, 3]
    assert Output("torch").convert(np.arange(4)[::-1]).tolist() == [3, 2, 1, 0]
    assert Output("torch", device="cpu").convert(fixed).tolist() == [0, 1, 2, 3]
    words = np.array(["a"])
    assert Output("torch").convert(words) is words


JAX_PROGRAM = """
import jax, numpy as np
from bushel.loader import Loader
from tests.loader.memory_dataset import MemoryDataset

[batch] = Loader(MemoryDataset(4), 4, to="jax")
assert isinstance(batch["vector"], jax.Array)
assert batch["vector"].tolist() == [[i] * 3 for i in range(4)]
assert batch["name"] == [f"name {i}" for i in range(4)]
mesh = jax.sharding.Mesh(np.array(jax.devices()), "batch")
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("batch"))
[batch] = Loader(MemoryDataset(4), 4, to="jax", device=sharding)
assert batch["number"].sharding == sharding
assert batch["number"].tolist() == [0, 1, 2, 3]
"""


def test_jax_arrays() -> None:
    if find_spec("jax") is None:
        pytest.skip("jax is not installed")
    # in a process of its own: once imported, jax warns of every fork, and other tests fork
    subprocess.run([sys.executable, "-c", JAX_PROGRAM], cwd=Path(__file__).parents[2], check=True)

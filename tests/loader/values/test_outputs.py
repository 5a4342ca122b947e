"""Outputs: torch tensors and JAX arrays, where those are installed."""

import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import MemoryDataset

from bushel.loader import Loader
from bushel.loader.values.outputs import Output, Upload


def test_a_missing_library_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(name, name=name)

    monkeypatch.setattr("bushel.loader.values.outputs.import_module", missing)
    with pytest.raises(ImportError, match=r"pip install 'bushel\[torch\]'"):
        Loader(MemoryDataset(4), 2, to="torch")


@pytest.mark.parametrize("processes", [0, 1])
def test_torch_tensors_share_the_memory_of_the_arrays(processes: int) -> None:
    torch = pytest.importorskip("torch")
    batches = list(Loader(MemoryDataset(8), 4, to="torch", processes=processes))
    assert [batch["number"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert batches[0]["vector"].dtype == torch.float32
    assert batches[0]["name"] == [f"name {i}" for i in range(4)]
    array = np.arange(6.0).reshape(2, 3)
    tensor = Output("torch").to_host({"x": [array]})["x"][0]
    array[0, 0] = 9
    assert tensor[0, 0] == 9


def test_arrays_that_torch_cannot_share_are_copied() -> None:
    pytest.importorskip("torch")
    fixed = np.arange(4)
    fixed.flags.writeable = False
    assert Output("torch").to_host((fixed, np.arange(4)[::-1]))[0].tolist() == [0, 1, 2, 3]
    assert Output("torch").to_host(np.arange(4)[::-1]).tolist() == [3, 2, 1, 0]
    words = np.array(["a"])
    assert Output("torch").to_host(words) is words


def test_pinning_without_a_gpu_is_warned_of_and_left_out() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        [batch] = Loader(MemoryDataset(4), 4, to="torch", pin_memory=True)
        assert batch["vector"].is_pinned()
        return
    with pytest.warns(UserWarning, match="has no effect: torch has no GPU"):
        loader = Loader(MemoryDataset(4), 4, to="torch", pin_memory=True)
    assert [batch["number"].tolist() for batch in loader] == [[0, 1, 2, 3]]


@pytest.mark.parametrize("processes", [0, 1])
def test_a_batch_is_ready_on_a_gpu(processes: int) -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("torch has no GPU here")
    options: dict[str, Any] = {"to": "torch", "device": "cuda", "pin_memory": True, "processes": processes}
    for number, batch in enumerate(Loader(MemoryDataset(4000), 40, **options)):
        assert batch["vector"].device.type == "cuda"
        assert (batch["number"] * 3).sum().item() == 3 * sum(range(40 * number, 40 * number + 40))


def test_the_next_batch_is_on_its_way_before_it_is_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    begun: list[int] = []
    start = Upload.start

    def watch(upload: Upload, batch: Any) -> Any:
        begun.append(int(batch["number"][0]))
        return start(upload, batch)

    monkeypatch.setattr(Upload, "start", watch)
    for processes in (0, 1):
        begun.clear()
        loader = Loader(MemoryDataset(40), 4, to="torch", device="meta", processes=processes)
        for number, batch in enumerate(loader):
            assert batch["vector"].device == torch.device("meta")
            assert batch["vector"].shape == (4, 3)
            assert len(begun) in ((number + 1, number + 2) if not processes else (number + 1,))
            time.sleep(0.05)
        assert begun == list(range(0, 40, 4))  # each once, in order


def test_an_error_in_the_next_batch_waits_for_its_turn() -> None:
    pytest.importorskip("torch")
    iterator = iter(Loader(MemoryDataset(40, undecodable=[9]), 4, to="torch", device="meta", threads=1))
    for _ in range(2):
        assert next(iterator)["vector"].shape == (4, 3)
        time.sleep(0.05)
    with pytest.raises(ValueError, match="no number"):
        next(iterator)


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
halves = {"number": lambda number: jax.numpy.asarray(number, "bfloat16")}
[batch] = Loader(MemoryDataset(4), 4, to="jax", transforms=halves)
assert (batch["number"].dtype, batch["number"].tolist()) == ("bfloat16", [0, 1, 2, 3])
"""


def test_jax_arrays() -> None:
    if find_spec("jax") is None:
        pytest.skip("jax is not installed")
    # in a process of its own: once imported, jax warns of every fork, and other tests fork
    subprocess.run([sys.executable, "-c", JAX_PROGRAM], cwd=Path(__file__).parents[3], check=True)

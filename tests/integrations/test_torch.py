"""torch's DataLoader and torchdata's nodes over a loader, with the real packages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.integrations.samples import write

import bushel

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")


def keys(batches: Any) -> list[str]:
    return [key for batch in batches for key in batch["__key__"]]


def options(ds: bushel.Dataset) -> dict[str, Any]:
    return {"dataset": ds.select_fields(["label"]), "batch_size": 4, "shuffle": True, "seed": 1, "threads": 1}


def test_a_data_loader_gives_the_same_batches(tmp_path: Path) -> None:
    from bushel.integrations.torch_data import BatchDataset

    ds = write(tmp_path / "train", 20)
    expected = bushel.Loader(**options(ds))
    loader = torch.utils.data.DataLoader(BatchDataset(**options(ds)), batch_size=None)
    for _ in range(2):
        batches = list(loader)
        assert keys(batches) == keys(expected)
        assert all(batch["label"].dtype == torch.int64 for batch in batches)


@pytest.mark.parametrize(
    "how",
    [{}, {"persistent_workers": True}, {"multiprocessing_context": "spawn"}],
    ids=["forked", "persistent", "spawned"],
)
def test_workers_of_a_data_loader_share_every_epoch(tmp_path: Path, how: dict[str, Any]) -> None:
    from bushel.integrations.torch_data import BatchDataset

    ds = write(tmp_path / "train", 20)
    dataset = BatchDataset(**options(ds))
    loader = torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=2, **how)
    epochs = [keys(loader) for _ in range(3)]
    assert all(sorted(epoch) == sorted(ds.keys) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    dataset.set_epoch(1)
    assert keys(loader) == epochs[1]
    assert keys(loader) == epochs[2]


def test_a_state_resumes_at_the_next_batch(tmp_path: Path) -> None:
    from bushel.integrations.torch_data import BatchDataset

    ds = write(tmp_path / "train", 20)
    whole = keys(bushel.Loader(**options(ds)))
    dataset = BatchDataset(**options(ds))
    batches = iter(dataset)
    seen = keys([next(batches), next(batches)])
    other = BatchDataset(**options(ds))
    other.load_state_dict(dataset.state_dict())
    assert seen + keys(other) == whole
    with pytest.raises(bushel.errors.StateError, match="expected the dict"):
        other.load_state_dict({"wrong": 1})


def test_a_node_refuses_another_state(tmp_path: Path) -> None:
    nodes = pytest.importorskip("bushel.integrations.torchdata_nodes")
    bushel.pack([{"n": number} for number in range(4)], tmp_path / "set", container="bag")
    node = nodes.LoaderNode(bushel.Loader(bushel.open(tmp_path / "set"), 2))
    with pytest.raises(bushel.errors.StateError, match=r"is not what state_dict\(\) returned"):
        node.reset({"bad": 1})


def test_a_node_and_its_state(tmp_path: Path) -> None:
    nodes = pytest.importorskip("torchdata.nodes")
    from bushel.integrations.torchdata_nodes import LoaderNode

    ds = write(tmp_path / "train", 20)
    expected = bushel.Loader(**options(ds))
    loader = nodes.Loader(nodes.Prefetcher(LoaderNode(bushel.Loader(**options(ds))), prefetch_factor=1))
    for _ in range(2):
        assert keys(loader) == keys(expected)
    whole = keys(bushel.Loader(**options(ds)))
    loader = nodes.Loader(LoaderNode(bushel.Loader(**options(ds))))
    batches = iter(loader)
    seen = keys([next(batches), next(batches)])
    resumed = nodes.Loader(LoaderNode(bushel.Loader(**options(ds))))
    resumed.load_state_dict(loader.state_dict())
    assert seen + keys(resumed) == whole

"""The map-style view: samples as a loader would make them, whole batches in one read."""

import pickle
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import MemoryDataset, jitter

from bushel.errors import CorruptError
from bushel.loader import Loader, MapView, collate


def test_samples_are_those_of_a_loader() -> None:
    view = MapView(MemoryDataset(10), transforms={"vector": [jitter]}, seed=3)
    loader = Loader(MemoryDataset(10), 10, transforms={"vector": [jitter]}, seed=3)
    for epoch in range(2):
        view.epoch = epoch
        [batch] = loader
        assert np.array_equal(collate(view.__getitems__(range(10)))["vector"], batch["vector"])
        assert view[4]["vector"].tolist() == batch["vector"][4].tolist()
    assert view[-1]["__key__"] == "key 9"
    assert len(view) == 10


def test_a_batch_is_one_read() -> None:
    dataset = MemoryDataset(10)
    assert [sample["number"] for sample in MapView(dataset).__getitems__([7, 1, 7])] == [7, 1, 7]
    assert dataset.reads == [3]
    batch = MapView(dataset).batch(np.array([7, 1]))
    assert batch["number"].tolist() == [7, 1]
    assert batch["__key__"] == ["key 7", "key 1"]
    assert dataset.reads == [3, 2]
    assert MapView(dataset, fields=["name"])[1] == {"__key__": "key 1", "name": "name 1"}


def test_errors() -> None:
    view = MapView(MemoryDataset(10, unreadable=[3]))
    for position in (10, -11):
        with pytest.raises(IndexError, match="for a dataset of 10"):
            view[position]
    with pytest.raises(CorruptError) as caught:
        view.__getitems__([2, 3])
    assert caught.value.key == "key 3"


@pytest.mark.parametrize("threads", [0, 2])
def test_in_a_torch_dataloader(threads: int) -> None:
    data = pytest.importorskip("torch.utils.data")
    dataset = MemoryDataset(10)
    context = {"multiprocessing_context": "spawn"} if threads else {}
    loader = data.DataLoader(MapView(dataset), batch_size=4, num_workers=threads, collate_fn=collate, **context)
    assert [batch["number"].tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert dataset.reads == ([] if threads else [4, 4, 2])


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"num_workers": 2},
        {"num_workers": 2, "persistent_workers": True},
        {"num_workers": 2, "multiprocessing_context": "spawn"},
    ],
    ids=["alone", "forked", "persistent", "spawned"],
)
def test_every_epoch_of_a_dataloader_has_the_augmentations_of_its_number(how: dict[str, Any]) -> None:
    data = pytest.importorskip("torch.utils.data")
    view = MapView(MemoryDataset(10), transforms={"vector": [jitter]}, seed=3)
    loader = data.DataLoader(view, batch_size=4, shuffle=True, collate_fn=collate, **how)
    expected = Loader(MemoryDataset(10), 10, transforms={"vector": [jitter]}, seed=3)

    def vectors(batches: Any) -> dict[str, list[float]]:
        return {
            key: own.tolist() for batch in batches for key, own in zip(batch["__key__"], batch["vector"], strict=True)
        }

    epochs = [vectors(loader) for _ in range(3)]
    assert epochs == [vectors(expected) for _ in range(3)]
    view.epoch = 1
    assert vectors(loader) == vectors(loader) == epochs[1]
    assert view.epoch == 1


def test_a_copy_counts_for_itself() -> None:
    view = MapView(MemoryDataset(10), transforms={"vector": [jitter]}, seed=3)
    first = view[0]["vector"].tolist()
    assert pickle.loads(pickle.dumps(view))[0]["vector"].tolist() == first
    assert view[0]["vector"].tolist() != first
    view.epoch = 0
    assert view[0]["vector"].tolist() == first

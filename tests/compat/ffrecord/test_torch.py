"""Datasets of batches and the loader that can begin in the middle, with PyTorch as it is now."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bushel.compat.ffrecord import FileReader, FileWriter, RecordIndexError

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader as TorchDataLoader  # noqa: E402 - after importorskip
from torch.utils.data import Dataset as TorchDataset  # noqa: E402
from torch.utils.data import IterableDataset  # noqa: E402
from torch.utils.data import random_split as torch_random_split  # noqa: E402

from bushel.compat.ffrecord.torch import ConcatDataset, DataLoader, Dataset, ReaderRegistry, Subset  # noqa: E402


class Numbers(Dataset):
    def process(self, indices: list[int], data: list[Any]) -> list[Any]:
        return [pickle.loads(one) for one in data]


class Watched(Numbers):
    """Notes what is read."""

    def __init__(self, fname: Path) -> None:
        super().__init__(fname)
        self.seen: list[int] = []

    def process(self, indices: list[int], data: list[Any]) -> list[Any]:
        self.seen += indices
        return super().process(indices, data)


class Plain(TorchDataset[int]):  # type: ignore[misc, unused-ignore]  # without PyTorch
    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> int:
        return 3 * index


def numbers(path: Path, values: range) -> Path:
    with FileWriter(path, len(values)) as writer:
        for value in values:
            writer.write_one(pickle.dumps(value))
    return path


@pytest.fixture
def dataset(tmp_path: Path) -> Watched:
    return Watched(numbers(tmp_path / "x.ffr", range(0, 300, 3)))


def seeded(seed: int = 12345) -> Any:
    return torch.Generator().manual_seed(seed)


def batches(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


class TestDataset:
    def test_a_list_of_indices_is_a_batch(self, dataset: Watched) -> None:
        assert len(dataset) == 100
        assert dataset[[3, 4, 1, 0]] == [9, 12, 3, 0]
        assert dataset[(99, 99)] == [297, 297]
        assert dataset[[]] == []
        with pytest.raises(TypeError, match="list of index"):
            dataset[3]
        with pytest.raises(RecordIndexError):
            dataset[[100]]

    def test_process_is_to_be_defined(self, dataset: Watched) -> None:
        with pytest.raises(NotImplementedError):
            Dataset(dataset.fnames)[[0]]

    def test_several_files(self, tmp_path: Path) -> None:
        files = [numbers(tmp_path / "b.ffr", range(5)), numbers(tmp_path / "a.ffr", range(5, 8))]
        assert Numbers(files)[[7, 0]] == [7, 0]
        assert Numbers(tmp_path, check_data=False)[[0, 3]] == [5, 0]

    def test_a_subset(self, dataset: Watched) -> None:
        subset = Subset(dataset, list(np.array([9, 2, 2, 50])))
        assert len(subset) == 4
        assert subset[[3, 0, 1, 2]] == [150, 27, 6, 6]
        assert batches(DataLoader(subset, batch_size=3)) == [[27, 6, 6], [150]]

    def test_concatenated(self, dataset: Watched, tmp_path: Path) -> None:
        other = Numbers(numbers(tmp_path / "y.ffr", range(1000, 1010)))
        whole = ConcatDataset([dataset, other, dataset])
        assert len(whole) == 210
        assert whole[[1, 1, 101]] == [3, 3, 1001]
        assert whole[[109, 0, 110, -1, -101, 100, -210, 109]] == [1009, 0, 0, 297, 1009, 1000, 0, 1009]
        assert whole[[]] == []
        assert whole[list(range(210))] == [*range(0, 300, 3), *range(1000, 1010), *range(0, 300, 3)]
        for wrong in (210, -211):
            with pytest.raises(IndexError, match=str(wrong)):
                whole[[0, wrong]]
        both = dataset + other
        assert isinstance(both, ConcatDataset)
        assert both[[100]] == [1000]
        assert batches(DataLoader(both, batch_size=55)) == [both[list(range(55))], both[list(range(55, 110))]]
        with pytest.raises(ValueError, match="empty"):
            ConcatDataset([])
        with pytest.raises(TypeError, match="Plain"):
            ConcatDataset([dataset, Plain()])  # type: ignore[list-item, unused-ignore]

    def test_readers_are_known(self, dataset: Watched, tmp_path: Path) -> None:
        class Two(ReaderRegistry):
            def __init__(self, fname: Path) -> None:
                self.first, self.second = FileReader(fname), FileReader(fname)

        class Several(Dataset):
            def __init__(self, fname: Path) -> None:
                self.another = Two(fname)
                self.reader1, self.reader2 = FileReader(fname), FileReader(fname)

        several = Several(tmp_path / "x.ffr")
        inner = several.another
        assert several.ffreaders() == [several.reader1, several.reader2, inner.first, inner.second]
        del several.reader1
        assert len(several.ffreaders()) == 3
        assert Subset(dataset, [1]).ffreaders() == [dataset.reader]
        both = ConcatDataset([dataset, Subset(dataset, [0])])
        assert both.ffreaders() == [dataset.reader, dataset.reader]

    def test_pytorchs_own_loader_and_subsets_read_batches_too(self, dataset: Watched) -> None:
        assert batches(TorchDataLoader(dataset, batch_size=60)) == [
            dataset[list(range(60))],
            dataset[[*range(60, 100)]],
        ]
        parts = torch_random_split(dataset, [30, 70], generator=seeded())
        read = [value for batch in batches(TorchDataLoader(parts[1], batch_size=32)) for value in batch]
        assert read == [3 * index for index in parts[1].indices]


class TestLoader:
    @pytest.mark.parametrize("workers", [0, 2])
    def test_batches_are_pytorchs(self, dataset: Watched, workers: int) -> None:
        ours = DataLoader(dataset, batch_size=8, num_workers=workers)
        assert len(ours) == 13
        assert batches(ours) == batches(TorchDataLoader(Plain(), batch_size=8))
        assert batches(DataLoader(Plain(), batch_size=8, num_workers=workers)) == batches(ours)

    @pytest.mark.parametrize("shuffle", [True, False])
    @pytest.mark.parametrize("workers", [0, 2])
    @pytest.mark.parametrize("size", [1, 4])
    def test_set_step(self, dataset: Watched, shuffle: bool, workers: int, size: int) -> None:
        whole = batches(TorchDataLoader(Plain(), batch_size=size, shuffle=shuffle, generator=seeded()))
        loader = DataLoader(dataset, batch_size=size, shuffle=shuffle, num_workers=workers, generator=seeded())
        loader.set_step(5)
        assert len(loader) == len(whole) - 5
        assert batches(loader) == whole[5:]
        loader.set_step(0)
        assert len(loader) == len(whole)
        again: Any = TorchDataLoader(Plain(), batch_size=size, shuffle=shuffle, generator=seeded())
        batches(again)
        assert batches(loader) == batches(again)

    def test_batches_that_are_left_out_are_not_read(self, dataset: Watched) -> None:
        loader = DataLoader(dataset, batch_size=10)
        loader.set_step(7)
        for _ in range(2):
            dataset.seen.clear()
            assert len(batches(loader)) == 3
            assert dataset.seen == list(range(70, 100))

    def test_workers_that_stay(self, dataset: Watched) -> None:
        loader = DataLoader(dataset, batch_size=10, num_workers=1, persistent_workers=True, prefetch_factor=3)
        loader.set_step(8)
        assert batches(loader) == [dataset[[*range(80, 90)]], dataset[[*range(90, 100)]]]
        loader.set_step(0)
        assert len(batches(loader)) == len(loader) == 10

    def test_an_epoch_is_resumed(self, dataset: Watched) -> None:
        def epoch(number: int, step: int = 0) -> list[Any]:
            loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True, generator=seeded(number))
            loader.set_step(step)
            return batches(loader)

        assert len(epoch(5)) == 6
        assert epoch(5, 4) == epoch(5)[4:]
        assert epoch(5) != epoch(6)

    def test_samplers(self, dataset: Watched) -> None:
        loader = DataLoader(dataset, sampler=[5, 3, 1, 9], batch_size=2)
        loader.set_step(1)
        assert batches(loader) == [[3, 27]]
        loader = DataLoader(dataset, batch_sampler=[[5, 3], [1], [9, 9, 9]])
        loader.set_step(1)
        assert batches(loader) == [[3], [27, 27, 27]]

    def test_one_by_one(self, dataset: Watched) -> None:
        loader = DataLoader(dataset, batch_size=None, sampler=[5, 3, 1])
        assert list(loader) == [[15], [9], [3]]
        loader.set_step(2)
        assert list(loader) == [[3]]
        assert list(DataLoader(Plain(), batch_size=None, sampler=[5, 3])) == [15, 9]

    def test_steps_that_are_not_there(self, dataset: Watched) -> None:
        loader = DataLoader(dataset, batch_size=50)
        for wrong in (-1, 2, 99):
            with pytest.raises(ValueError, match="of 2 batches"):
                loader.set_step(wrong)
        loader.set_step(1)
        with pytest.raises(ValueError, match="of 2 batches"):
            loader.set_step(2)
        with pytest.raises(RuntimeError, match="cannot skip"):
            DataLoader(dataset, skippable=False).set_step(0)

    def test_datasets_without_indices(self) -> None:
        class Counting(IterableDataset[int]):  # type: ignore[misc, unused-ignore]  # without PyTorch
            def __iter__(self) -> Any:
                return iter(range(5))

        loader = DataLoader(Counting(), batch_size=2)
        assert batches(loader) == [[0, 1], [2, 3], [4]]
        with pytest.raises(RuntimeError, match="cannot skip"):
            loader.set_step(1)

    def test_a_damaged_record_is_named(self, dataset: Watched, tmp_path: Path) -> None:
        path = tmp_path / "x.ffr"
        data = bytearray(path.read_bytes())
        data[int(dataset.reader.get_offsets(0)[42])] ^= 1
        path.write_bytes(data)
        with pytest.raises(RuntimeError, match="sample '42'"):
            batches(DataLoader(Numbers(path), batch_size=10, num_workers=1))

"""Removed samples in drop-ins, in integrations, on engines and in object stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.integrity.removed import GONE, KEPT, keys, write

import bushel


def test_granular(tmp_path: Path) -> None:
    from bushel.compat import granular

    path = write(tmp_path / "data", "bag")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    for cache_index in (True, False):
        with granular.ShardedDatasetReader(path, granular.decoders, cache_index=cache_index) as reader:
            assert len(reader) == len(KEPT)
            assert [reader[number]["label"] for number in range(len(reader))] == KEPT
            assert [reader[number]["__key__"] for number in range(len(reader))] == keys(KEPT)
            assert [point["label"] for point in reader.points(range(len(reader)))] == KEPT
            assert reader[2:5]["label"] == KEPT[2:5]


def test_wids(tmp_path: Path) -> None:
    from bushel.compat.webdataset import wids

    path = write(tmp_path / "data", "tar", shard_samples=COUNT_OF_ONE)
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    [shard] = sorted(path.glob("*.tar"))
    dataset = wids.ShardListDataset([{"url": str(shard), "nsamples": len(KEPT)}])
    assert [dataset[number]["__key__"] for number in range(len(dataset))] == keys(KEPT)


COUNT_OF_ONE = 20


def test_mxnet(tmp_path: Path) -> None:
    from tests.sources.folders import jpeg

    from bushel.compat.mxnet.io import ImageRecordIter

    path = tmp_path / "images.rec"
    with bushel.Writer(path, {"image": "jpg", "label": "float"}, container="recordio", sync=False) as writer:
        for number in range(8):
            writer.append({"image": jpeg(number, 16, 16), "label": float(number)}, key=str(number))
    bushel.remove(path, keys=["1", "6"], reason="opt-out")
    batches = ImageRecordIter(path_imgrec=str(path), data_shape=(3, 16, 16), batch_size=2)
    seen = sorted(int(label) for batch in batches for label in batch.label[0].asnumpy().reshape(-1))
    assert seen == [0, 2, 3, 4, 5, 7]


def test_an_engine(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    bushel.convert(path, tmp_path / "copy", container="bag", parts=3, engine="local", sync=False)
    assert list(bushel.open(tmp_path / "copy").keys) == keys(KEPT)


def test_torch(tmp_path: Path) -> None:
    torch_data = pytest.importorskip("torch.utils.data")
    path = write(tmp_path / "data")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    from bushel.loader import MapView, collate

    loader = torch_data.DataLoader(MapView(bushel.open(path)), 4, collate_fn=collate)
    assert [key for batch in loader for key in batch["__key__"]] == keys(KEPT)

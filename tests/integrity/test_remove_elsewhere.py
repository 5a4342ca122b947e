"""Removed samples in drop-ins, in integrations, on engines and in object stores."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import run
from tests.integrity.removed import COUNT, GONE, KEPT, keys, restore_all, write
from tests.sources.folders import image_folder

import bushel
from bushel._dataset.open.locking import lock_run


def test_parts_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """Nobody removes samples while a process writes parts; between processes, lists hold for the finished dataset."""
    photos, out = image_folder(tmp_path / "photos", 9), tmp_path / "out"
    for number in (0, 1):
        bushel.pack(photos, out, container="tar", parts=3, part=number)
    gone = list(bushel.open(out, allow_incomplete=True).keys[:2])
    with lock_run(out, single=False, run="another run"):
        for place in (out, out / "part-00000"):
            with pytest.raises(bushel.errors.InUseError):
                bushel.remove(place, keys=gone, reason="opt-out")
    with pytest.warns(bushel.errors.IncompleteWarning):
        bushel.remove(out, keys=gone[:1], reason="above the parts")
    bushel.remove(out / "part-00000", keys=gone[1:], reason="in a part")
    bushel.pack(photos, out, container="tar", parts=3, part=2)
    run("finish", out)
    dataset = bushel.open(out)
    assert len(dataset) == 7
    assert not set(gone) & set(dataset.keys)
    assert [done.reason for done in bushel.removals(out)] == ["above the parts", "in a part"]
    assert bushel.verify(out).verdict == "ok"


def test_a_class_folder_says_which_list_it_does_not_see(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    photos = image_folder(tmp_path / "photos", 9)
    gone = bushel.open(photos).keys[0]
    bushel.remove(photos, keys=[gone], reason="opt-out")
    bushel.open(photos)
    assert "lists as removed" not in caplog.text
    folder = photos / gone.split("/")[0]
    bushel.open(folder)
    assert f"removed.safetensors lists as removed are not left out of {folder}: open {photos} instead" in caplog.text


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


@pytest.mark.parametrize("generation", ["B", "C"])
def test_a_bag_of_granular(tmp_path: Path, generation: str) -> None:
    from bushel.compat.granular import BagReader

    spec = {"label": "int", "words": "utf8[]"} if generation == "B" else {"label": "int", "words": "utf8"}
    words = [[f"{number}-{each}" for each in range(number % 3)] for number in range(COUNT)]
    with bushel.Writer(tmp_path / "data", spec, container="bag", generation=generation, shard_samples=10) as writer:
        for number in range(COUNT):
            own = words[number] if generation == "B" else str(number)
            writer.append({"label": number, "words": own}, key=f"k{number:02}")
    folders = [tmp_path / "data/000000", tmp_path / "data/000001"]

    def records(name: str) -> list[bytes]:
        return [record for folder in folders for record in BagReader(folder / name)]

    every = records("label.bag")
    assert len(every) == COUNT
    refs = len(records("refs.bag")) if generation == "B" else 0
    bushel.remove(tmp_path / "data", keys=keys(GONE), reason="opt-out")
    assert records("label.bag") == [every[number] for number in KEPT]
    assert [key.decode() for key in records("__key__.bag")] == keys(KEPT)
    if generation == "B":
        assert [word.decode() for word in records("words.bag")] == [word for each in KEPT for word in words[each]]
        assert len(records("refs.bag")) == refs - len(GONE)
    for options in ({}, {"cache_index": False}, {"cache_data": True}):
        with BagReader(folders[0] / "label.bag", **options) as reader:
            assert len(reader) == 7  # 0, 3 and 4 are removed
            assert [reader[0], reader[1:4], reader.copy()[6]] == [every[1], [every[2], every[5], every[6]], every[9]]
            with pytest.raises(IndexError):
                reader[7]
    restore_all(tmp_path / "data")
    assert records("label.bag") == every


def test_a_bag_whose_records_samples_share(tmp_path: Path) -> None:
    """A record stays as long as a sample that is left refers to it."""
    import msgpack

    from bushel.compat.granular import BagReader, BagWriter

    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "spec.json").write_text('{"label": "int"}')
    for name, records in (
        ("label.bag", [bytes([number]) * 8 for number in range(3)]),
        ("refs.bag", [msgpack.packb([number]) for number in (0, 1, 1, 2, 2)]),
    ):
        with BagWriter(folder / name) as writer:
            for record in records:
                writer.append(record)
    bushel.index(folder)
    bushel.remove(folder, positions=[0, 1], reason="opt-out")  # samples without keys that are alike go together
    assert list(BagReader(folder / "label.bag")) == [bytes([2]) * 8]


def test_a_bag_that_is_a_dataset_of_its_own(tmp_path: Path) -> None:
    from bushel.compat.granular import BagReader, BagWriter

    with BagWriter(tmp_path / "one.bag") as writer:
        for number in range(5):
            writer.append(b"%d" % number)
    bushel.index(tmp_path / "one.bag")
    bushel.remove(tmp_path / "one.bag", positions=[1, 4], reason="opt-out")
    assert list(BagReader(tmp_path / "one.bag")) == [b"0", b"2", b"3"]


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


def test_webdataset_pipelines(tmp_path: Path) -> None:
    import bushel.compat.webdataset as wds
    from bushel.compat.webdataset import tariterators

    path = write(tmp_path / "data", "tar")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    shards = [str(shard) for shard in sorted(path.glob("*.tar"))]
    assert [sample["__key__"] for sample in wds.WebDataset(shards, shardshuffle=False)] == keys(KEPT)
    renamed = wds.WebDataset(shards, shardshuffle=False, rename_files=lambda name: f"x/{name}")
    assert [sample["__key__"] for sample in renamed] == [f"x/{key}" for key in keys(KEPT)]
    opened = ({"url": shard, "stream": io.BytesIO(Path(shard).read_bytes())} for shard in shards)
    grouped = tariterators.group_by_keys(tariterators.tar_file_expander(opened))
    assert [sample["__key__"] for sample in grouped] == keys(KEPT)
    restore_all(path)
    assert [sample["__key__"] for sample in wds.WebDataset(shards, shardshuffle=False)] == keys(range(COUNT))


def test_ffrecord(tmp_path: Path) -> None:
    from bushel.compat.ffrecord import FileReader

    path = write(tmp_path / "data", "ffrecord")
    files = sorted(path.glob("*.ffr"))
    whole = FileReader(files)
    every = [record.tobytes() for record in whole.read(range(COUNT))]
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    kept = [every[number] for number in KEPT]
    with FileReader(files) as reader:
        assert reader.n == len(KEPT)
        assert [record.tobytes() for record in reader.read(np.arange(reader.n))] == kept
        assert [reader.read_one(number).tobytes() for number in range(reader.n)] == kept
        assert [record.tobytes() for record in pickle.loads(pickle.dumps(reader)).read([4])] == [kept[4]]
        with pytest.raises(IndexError):
            reader.read_one(reader.n)
        assert sum(len(reader.get_checksums(number)) for number in range(len(files))) == COUNT


def test_packed_folders(tmp_path: Path) -> None:
    from bushel.compat.ffrecord import PackedFolder, pack_folder

    for number in range(6):
        (tmp_path / f"folder/{number % 2}").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"folder/{number % 2}/{number}.txt").write_text(f"{number}")
    pack_folder(tmp_path / "folder", tmp_path / "packed.ffr")
    bushel.index(tmp_path / "packed.ffr")
    bushel.remove(tmp_path / "packed.ffr", keys=["0/2.txt", "1/5.txt"], reason="opt-out")
    packed = PackedFolder(tmp_path / "packed.ffr")
    assert packed.num_files() == 4
    assert packed.list("", recursive=True) == ["0", "0/0.txt", "0/4.txt", "1", "1/1.txt", "1/3.txt"]
    assert [record.tobytes() for record in packed.read(["1/3.txt", "0/4.txt"])] == [b"3", b"4"]
    assert not packed.exists("0/2.txt")


def test_gulpio2(tmp_path: Path) -> None:
    from bushel.compat.gulpio2 import GulpDirectory

    path = write(tmp_path / "data", "gulp")
    bushel.remove(path, keys=keys(GONE), reason="opt-out")
    gulps = GulpDirectory(path)
    assert list(gulps.merged_meta_dict) == keys(KEPT)
    assert [meta["label"] for chunk in gulps for _, meta in chunk] == KEPT
    assert gulps[keys(KEPT)[2]][1]["label"] == KEPT[2]
    with pytest.raises(KeyError):
        gulps[keys(GONE)[0]]
    chunk = next(iter(gulps))
    with chunk.open("ab"):  # what is written keeps the removed items
        chunk.append("new", {"label": 99}, [np.zeros((8, 8, 3), np.uint8)])
    assert sorted(json.loads(Path(chunk.meta_file_path).read_text())) == [*keys(range(6)), "new"]
    assert list(bushel.open(path).keys) == [*keys(KEPT[:3]), "new", *keys(KEPT[3:])]


@pytest.mark.parametrize("spec", [{"data": "bytes"}, {"image": "jpg", "label": "float"}])
def test_mxnet_records(tmp_path: Path, spec: dict[str, str]) -> None:
    from tests.sources.folders import jpeg

    from bushel.compat.mxnet.recordio import MXIndexedRecordIO, MXRecordIO

    path = tmp_path / "data.rec"
    magic = b"\x0a\x23\xd7\xce"  # a record with it in a multiple of four is divided
    with bushel.Writer(path, spec, container="recordio", sync=False) as writer:
        for number in range(8):
            value: dict[str, Any] = {"data": b"%04d" % number + magic * (number % 3)}
            if "image" in spec:
                value = {"image": jpeg(number, 16, 16), "label": float(number)}
            writer.append(value, key=str(number))
    every = [MXIndexedRecordIO(tmp_path / "data.idx", path, "r").read_idx(number) for number in range(8)]
    bushel.remove(path, keys=["1", "2", "7"], reason="opt-out")
    kept = [every[number] for number in (0, 3, 4, 5, 6)]
    assert list(iter(MXRecordIO(path, "r").read, None)) == kept
    indexed = MXIndexedRecordIO(tmp_path / "data.idx", path, "r")
    assert indexed.keys == [0, 3, 4, 5, 6]
    assert [indexed.read_idx(key) for key in indexed.keys] == kept
    with pytest.raises(KeyError):
        indexed.read_idx(1)
    indexed.seek(0)
    assert [indexed.read(), indexed.read()] == kept[:2]


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

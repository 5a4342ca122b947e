import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.granular.points import Elements, files

from bushel.compat import granular as granular_20
from bushel.compat.granular import v24 as granular
from bushel.errors import FormatError, SpecError, StateError

SPEC = {"n": "int", "text": "utf8"}
END = bytes(7)


def write(folder: Any, numbers: range) -> None:
    with granular.DatasetWriter(folder, SPEC, granular.encoders) as writer:
        assert len(writer) == numbers.start
        for number in numbers:
            assert writer.append({"n": number, "text": f"text {number}"}) == number


def test_golden_bytes(tmp_path: Path) -> None:
    with granular.BagWriter(tmp_path / "x.bag") as writer:
        for record in (b"hello", b"", b"abc"):
            writer.append(record)
        assert (len(writer), writer.size) == (3, 32)
    assert (tmp_path / "x.bag").read_bytes() == b"helloabc"
    assert (tmp_path / "x.idx").read_bytes() == b"\5" + END + b"\5" + END + b"\10" + END
    with granular.BagWriter(tmp_path / "none.bag", tmp_path / "elsewhere.idx"):
        pass
    assert (tmp_path / "none.bag").read_bytes() == (tmp_path / "elsewhere.idx").read_bytes() == b""
    assert list(granular.BagReader(tmp_path / "none.bag", tmp_path / "elsewhere.idx")) == []


def test_what_was_flushed_can_be_read(tmp_path: Path) -> None:
    writer = granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders)
    for number in range(4):
        writer.append({"n": number, "text": "x"}, flush=number < 3)
        assert len(granular.DatasetReader(tmp_path / "d", granular.decoders)) == min(number + 1, 3)
    writer.close()
    assert len(granular.DatasetReader(tmp_path / "d", granular.decoders)) == 4


def test_a_killed_writer_is_gone_on_with(tmp_path: Path) -> None:
    script = (
        "import os, sys\nfrom bushel.compat.granular import v24\n"
        "writer = v24.DatasetWriter(sys.argv[1], {'n': 'int', 'text': 'utf8'}, v24.encoders)\n"
        "for n in range(5): writer.append({'n': n, 'text': f'text {n}'}, flush=n < 3)\nos._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path / "d")], check=False).returncode == 9
    write(tmp_path / "d", range(3, 7))
    write(tmp_path / "whole", range(7))
    assert files(tmp_path / "d") == files(tmp_path / "whole")


def cut_entry(folder: Path) -> None:
    """A crash left half an entry: Granular's index is shifted for good."""
    (folder / "n.idx").write_bytes((folder / "n.idx").read_bytes()[:-3])


def tail(folder: Path) -> None:
    """A crash left records that are not in the index, the last one partial."""
    with open(folder / "text.bag", "ab") as file:
        file.write(b"text 4te")


def ahead(folder: Path) -> None:
    """A crash left one key ahead of the others."""
    with granular.BagWriter(folder / "text.bag") as writer:
        writer.append(b"text 4")


@pytest.mark.parametrize(("damage", "kept"), [(cut_entry, 3), (tail, 4), (ahead, 4)])
def test_what_a_crash_leaves_is_gone_on_with(tmp_path: Path, damage: Callable[[Path], None], kept: int) -> None:
    write(tmp_path / "d", range(4))
    damage(tmp_path / "d")
    write(tmp_path / "d", range(kept, 6))
    write(tmp_path / "whole", range(6))
    assert files(tmp_path / "d") == files(tmp_path / "whole")
    with granular.DatasetReader(tmp_path / "d", granular.decoders) as reader:
        assert list(reader) == [{"n": number, "text": f"text {number}"} for number in range(6)]


@pytest.mark.parametrize(("damage", "named"), [(tail, "does not match"), (ahead, "Record mismatch")])
def test_other_data_than_a_crash_left_is_refused(tmp_path: Path, damage: Callable[[Path], None], named: str) -> None:
    write(tmp_path / "d", range(4))
    damage(tmp_path / "d")
    left = files(tmp_path / "d")
    for _ in range(2):
        with pytest.raises(ValueError, match=named), granular.DatasetWriter(tmp_path / "d", SPEC, None) as writer:
            writer.append({"n": b"\4", "text": b"other"})
        assert files(tmp_path / "d") == left


def test_what_a_crash_left_is_taken_by_several_records(tmp_path: Path) -> None:
    (tmp_path / "x.bag").write_bytes(b"abcdef")
    with granular.BagWriter(tmp_path / "x.bag") as writer:
        for record in (b"ab", b"cde"):
            writer.append(record)
    assert (tmp_path / "x.bag").read_bytes() == b"abcdef"
    with granular.BagWriter(tmp_path / "x.bag") as writer:
        assert writer.append(b"fg", flush=False) == 2
        assert writer.append(b"h", flush=False) == 3
        assert writer.size == 8 + 4 * 8
    assert list(granular.BagReader(tmp_path / "x.bag")) == [b"ab", b"cde", b"fg", b"h"]


def test_a_bag_without_its_records_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "d", range(4))
    (tmp_path / "d" / "text.bag").write_bytes(b"short")
    with pytest.raises(FormatError, match="5 bytes, where"):
        granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders)


def test_another_spec_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "d", range(2))
    before = files(tmp_path / "d")
    with pytest.raises(StateError) as error:
        granular.DatasetWriter(tmp_path / "d", {"n": "int"}, granular.encoders)
    assert isinstance(error.value, AssertionError)
    with pytest.raises(SpecError, match="cannot hold sequences"):
        granular.DatasetWriter(tmp_path / "e", {"n": "int[]"}, granular.encoders)
    assert files(tmp_path / "d") == before
    assert not (tmp_path / "e").exists()


def test_shards_are_gone_on_with(tmp_path: Path) -> None:
    for run in range(3):
        with granular.ShardedDatasetWriter(tmp_path / "d", SPEC, granular.encoders, shardlen=2) as writer:
            assert len(writer) == 5 * run
            for number in range(5 * run, 5 * run + 5):
                assert writer.append({"n": number, "text": "x"}) == number
            assert writer.shards == (5 * run + 6) // 2
    reader = granular.ShardedDatasetReader(tmp_path / "d", granular.decoders)
    assert [point["n"] for point in reader] == list(range(15))
    lengths = [len(granular.DatasetReader(path, None)) for path in sorted((tmp_path / "d").iterdir())]
    assert lengths == [2] * 7 + [1]  # Granular would have made the first shard longer


def test_a_failed_datapoint_leaves_nothing(tmp_path: Path) -> None:
    with granular.DatasetWriter(tmp_path / "d", SPEC, granular.encoders) as writer:
        for wrong in ({"n": 1, "text": 3}, {"n": 1}, {"n": 1, "text": "", "more": 2}):
            with pytest.raises(Exception, match="."):
                writer.append(wrong)
        assert writer.append({"n": 7, "text": ""}) == 0
    assert granular.DatasetReader(tmp_path / "d", granular.decoders)[0] == {"n": 7, "text": ""}
    with pytest.raises(AssertionError):
        writer.append({"n": 7, "text": ""})


def test_old_datasets_are_read(tmp_path: Path) -> None:
    with granular_20.DatasetWriter(tmp_path / "b", {"n": "int", "words": "utf8[]"}, granular.encoders) as writer:
        writer.append({"n": 1, "words": ["a", "b"]})
    reader = granular.DatasetReader(tmp_path / "b", granular.decoders)
    assert reader[0, ("words",)] == {"words": ["a", "b"]}
    write(tmp_path / "c", range(3))
    new = granular_20.DatasetReader(tmp_path / "c", granular.decoders)
    assert new[2, {"n": True}] == {"n": 2}
    assert new.available(2) == {"n": True, "text": True}
    assert new.size == sum(path.stat().st_size for path in (tmp_path / "c").iterdir() if path.suffix != ".json")


def test_other_file_systems() -> None:
    disk: dict[str, bytes] = {}
    folder = Elements(disk, "bucket/d")
    write(folder, range(3))
    write(folder, range(3, 5))
    assert list(granular.DatasetReader(folder, granular.decoders)) == [
        {"n": number, "text": f"text {number}"} for number in range(5)
    ]
    assert sorted(disk) == [f"bucket/d/{name}" for name in ("n.bag", "n.idx", "spec.json", "text.bag", "text.idx")]
    with granular.ShardedDatasetWriter(Elements(disk, "bucket/s"), SPEC, granular.encoders, 2) as writer:
        for number in range(3):
            writer.append({"n": number, "text": ""})
    assert len(granular.ShardedDatasetReader(Elements(disk, "bucket/s"), None)) == 3
    assert granular.BagReader(Elements(disk, "bucket/d/n.bag"))[4] == b"\4"


def test_a_loader_of_a_source(tmp_path: Path) -> None:
    write(tmp_path / "d", range(10))
    reader = granular.DatasetReader(tmp_path / "d", granular.decoders)

    def chosen(datapoint: dict[str, Any], seed: Any) -> dict[str, Any]:
        return {"n": datapoint["n"], "noise": np.random.default_rng(seed).integers(1000)}

    source = granular.sources.Transform(granular.sources.Epochs(reader, seed=4), chosen, seed=8)
    with granular.Loader(source, 4, workers=2) as loader:
        batches = iter(loader)
        found = [next(batches) for _ in range(3)]
        assert loader.save() == {"step": 12}
        order = granular_20.sources.permutation(10, 4, 0).tolist()
        assert [n for batch in found for n in batch["n"].tolist()][:10] == order
        assert found[0]["noise"].tolist() == [np.random.default_rng([8, step]).integers(1000) for step in range(4)]
        loader.load({"step": 4})
        assert next(batches)["n"].tolist() == found[1]["n"].tolist()
    with granular.Loader(reader, 6, prefetch=0, workers=2) as loader:
        assert next(loader)["n"].tolist() == list(range(6))
        with pytest.raises(RuntimeError, match="datapoint 10 of a dataset of 10"):
            next(loader)  # a reader ends, unlike a source


@pytest.mark.parametrize("module", [granular_20, granular], ids=["0.20", "0.24"])
def test_universal_paths(module: Any) -> None:
    upath = pytest.importorskip("upath")
    folder = upath.UPath(f"memory://granular-{module.__name__}/d")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with module.DatasetWriter(folder, SPEC, module.encoders) as writer:
        for number in range(3):
            writer.append({"n": number, "text": "x"})
    reader = module.DatasetReader(folder, module.decoders, cache_keys=("n",))
    assert [point["n"] for point in reader] == [0, 1, 2]
    assert reader[1:3, {"n": True}] == {"n": [1, 2]}


@pytest.mark.parametrize("module", [granular_20, granular], ids=["0.20", "0.24"])
def test_object_stores(module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    memory = pytest.importorskip("tests.storage.objects.memory")
    memory.Buckets(monkeypatch, tmp_path / "scratch")
    with module.ShardedDatasetWriter("s3://bucket/d", SPEC, module.encoders, shardlen=2) as writer:
        for number in range(5):
            writer.append({"n": number, "text": f"text {number}"})
    reader = module.ShardedDatasetReader("s3://bucket/d", module.decoders)
    assert [point["text"] for point in reader] == [f"text {number}" for number in range(5)]
    assert [point["n"] for point in reader.points([4, 0])] == [4, 0]
    with module.DatasetReader("s3://bucket/d/000001", module.decoders) as one:
        assert one[0:2, {"n": True}] == {"n": [2, 3]}
    assert not [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]


def test_a_list_as_index_of_a_bag_without_its_table(tmp_path: Path) -> None:
    """The original looks for the table first."""
    with granular.BagWriter(tmp_path / "a.bag") as writer:
        writer.append(b"abc")
    reader = granular.BagReader(tmp_path / "a.bag")
    with pytest.raises(TypeError, match="not list"):
        reader[[0]]
    reader.close()
    (tmp_path / "a.idx").unlink()
    (tmp_path / "a.bag").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="a.idx"):
        granular.BagReader(tmp_path / "a.bag")[[0]]


def test_copies_of_a_reader_without_an_index_raise_its_error(tmp_path: Path) -> None:
    with granular_20.BagWriter(tmp_path / "x.bag") as writer:
        writer.append(b"hello")
    reader = granular.BagReader(tmp_path / "x.bag")
    for same in (reader, reader.copy(), pickle.loads(pickle.dumps(reader))):
        with pytest.raises(FileNotFoundError, match="an index is an integer"):
            same["x"]
        assert same[0] == b"hello"

import pickle
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.granular.points import Elements

from bushel.compat import granular
from bushel.compat.granular import v24
from bushel.errors import FormatError

END = bytes(7)
A = b"helloabc" + bytes(8) + b"\5" + END + b"\5" + END + b"\10" + END
B = b"helloabc" + b"\5" + END + b"\10" + END


def test_golden_bytes(tmp_path: Path) -> None:
    with granular.BagWriter(tmp_path / "a.bag", version=1) as writer:
        assert [writer.append(record) for record in (b"hello", b"", b"abc")] == [0, 1, 2]
        assert (len(writer), writer.size) == (3, 40)
    with granular.BagWriter(tmp_path / "b.bag") as writer:
        writer.append(b"hello", flush=False)
        writer.append(b"abc")
        assert (len(writer), writer.size) == (2, 24)
    with granular.BagWriter(str(tmp_path / "empty.bag")) as writer:
        assert writer.size == 0
    assert (tmp_path / "a.bag").read_bytes() == A
    assert (tmp_path / "b.bag").read_bytes() == B
    assert (tmp_path / "empty.bag").read_bytes() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.bag", "b.bag", "empty.bag"]
    assert writer.size == 0


def test_nothing_has_the_name_until_it_is_whole(tmp_path: Path) -> None:
    writer = granular.BagWriter(tmp_path / "b.bag")
    writer.append(b"hello")
    writer.flush()
    assert not (tmp_path / "b.bag").exists()
    writer.close()
    writer.close()
    assert len(granular.BagReader(tmp_path / "b.bag")) == 1
    with pytest.raises(AssertionError):
        writer.append(b"more")


@pytest.mark.parametrize("content", [A, B])
@pytest.mark.parametrize("options", [{}, {"cache_index": False}, {"cache_data": True}])
def test_reading(tmp_path: Path, content: bytes, options: dict[str, bool]) -> None:
    (tmp_path / "x.bag").write_bytes(content)
    wanted = [b"hello", b"", b"abc"] if content == A else [b"hello", b"abc"]
    reader = granular.BagReader(tmp_path / "x.bag", **options)
    assert list(reader) == wanted
    assert (len(reader), reader.size) == (len(wanted), len(content))
    assert reader[0:99] == reader[range(99)] == wanted
    assert reader[:1] == wanted[:1]
    assert reader[1:1] == reader[7:9] == []
    assert reader[np.int64(1)] == wanted[1]
    for index in (-1, len(wanted)):
        with pytest.raises(IndexError, match=f"record {index} of a bag of {len(wanted)}") as error:
            reader[index]
        assert isinstance(error.value, AssertionError)
        assert isinstance(error.value, ValueError)
    wrong: Any
    for wrong in (slice(-1, 1), slice(0, None), slice(0, 4, 2), slice(2, 1)):
        with pytest.raises(AssertionError):
            reader[wrong]
    for wrong in ("0", 1.5, None):
        with pytest.raises(AssertionError):
            reader[wrong]
    assert list(reader.copy()) == list(pickle.loads(pickle.dumps(reader))) == wanted
    reader.close()
    assert reader[0] == b"hello"


def test_bytes_are_a_bag_too() -> None:
    for content, wanted in ((A, [b"hello", b"", b"abc"]), (B, [b"hello", b"abc"]), (b"", [])):
        assert list(granular.BagReader(content)) == wanted
        assert list(granular.BagReader(memoryview(content)).copy()) == wanted
    ends = b"\5" + END + b"\5" + END + b"\10" + END
    assert list(v24.BagReader(b"helloabc and a tail", ends)) == [b"hello", b"", b"abc"]
    assert list(v24.BagReader(A, single_file=True)) == [b"hello", b"", b"abc"]


def test_data_in_memory_outlives_the_file(tmp_path: Path) -> None:
    (tmp_path / "x.bag").write_bytes(B)
    reader = granular.BagReader(tmp_path / "x.bag", cache_data=True)
    assert reader[0] == b"hello"
    (tmp_path / "x.bag").unlink()
    reader.close()
    assert reader[1] == b"abc"


def test_golden_bags(golden: Path) -> None:
    found: dict[str, list[int]] = {}
    for path in sorted((golden / "granular-bag-files").rglob("*.bag")):
        records = list(granular.BagReader(path))
        assert list(v24.BagReader(path)) == records
        found.setdefault(path.stem, []).append(len(records))
    assert found.pop("none") == [0] * 3
    assert found.pop("one") == [1] * 4
    assert len(found.pop("few")) == 4
    assert not found


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "x.bag").write_bytes(B)
    with pytest.raises(FileExistsError) as error:
        granular.BagWriter(tmp_path / "x.bag")
    assert isinstance(error.value, AssertionError)
    with pytest.raises(AssertionError):
        granular.BagWriter(tmp_path / "y.bag", version=3)
    with granular.BagWriter(tmp_path / "y.bag") as writer:
        wrong: Any = "text"
        with pytest.raises(TypeError, match="a record is bytes, not str"):
            writer.append(wrong)
    with pytest.raises(FileNotFoundError):
        granular.BagReader(tmp_path / "missing.bag")
    (tmp_path / "x.bag").write_bytes(b"\xff" * 24)
    with pytest.raises(FormatError):
        granular.BagReader(tmp_path / "x.bag")


def test_threads_share_a_reader(tmp_path: Path) -> None:
    records = [bytes([number % 251]) * (number % 97 + 1) for number in range(2000)]
    with granular.BagWriter(tmp_path / "x.bag") as writer:
        for record in records:
            writer.append(record)
    reader = granular.BagReader(tmp_path / "x.bag")
    wrong: list[int] = []

    def read(seed: int) -> None:
        chosen = np.random.default_rng(seed).integers(0, len(records), 2000).tolist()
        wrong.extend(index for index in chosen if reader[index] != records[index])

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_other_file_systems() -> None:
    disk: dict[str, bytes] = {}
    path = Elements(disk, "bucket/x.bag")
    with granular.BagWriter(path) as writer:
        writer.append(b"hello")
        writer.append(b"abc")
    assert disk == {"bucket/x.bag": B}
    reader = granular.BagReader(path)
    path.read.clear()
    assert reader[0:2] == [b"hello", b"abc"]
    assert path.read == ["x.bag"]  # a range is one read
    assert reader[1] == b"abc"
    assert path.read == ["x.bag"] * 2  # the table is not read again

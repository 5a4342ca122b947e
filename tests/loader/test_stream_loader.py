"""Loading from compressed archives that are read forward only."""

import bz2
import copy
import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.memory_dataset import refuse_seven

import bushel
from bushel._runtime.threads import cpu_count
from bushel.errors import CodecError, FormatError, StateError, UnsupportedError
from bushel.loader import Loader, StreamLoader


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six packed archives of 20 samples each."""
    folder = tmp_path_factory.mktemp("stream")
    with bushel.Writer(folder / "plain", {"n": "int", "x": "array"}, container="tar", shard_samples=20) as writer:
        for i in range(120):
            writer.append({"n": i, "x": np.full(3, i, np.float32)}, key=f"k{i:03}")
    for number, path in enumerate(sorted((folder / "plain").glob("*.tar"))):
        (folder / f"{number}.tar.gz").write_bytes(gzip.compress(path.read_bytes()))
    return folder


def stream_of(folder: Path) -> bushel.datasets.StreamDataset:
    return bushel.open_stream(str(folder / "*.tar.gz"), spec={"n": "int", "x": "array"})


def numbers(loader: StreamLoader) -> list[int]:
    return [n for batch in loader for n in batch["n"].tolist()]


def jitter(value: Any, rng: np.random.Generator) -> Any:
    return value + rng.random(3)


def test_without_a_buffer_batches_come_as_stored(folder: Path) -> None:
    loader = StreamLoader(stream_of(folder), 25, buffer=0)
    for _ in range(2):
        batches = list(loader)
        assert [len(batch["n"]) for batch in batches] == [25, 25, 25, 25, 20]
        assert np.concatenate([batch["n"] for batch in batches]).tolist() == list(range(120))
        assert batches[4]["x"].tolist() == [[n] * 3 for n in range(100, 120)]
        assert batches[0]["__key__"][:2] == ["k000", "k001"]
    assert [len(batch["n"]) for batch in StreamLoader(stream_of(folder), 40, buffer=0)] == [40, 40, 40]


def test_every_epoch_is_another_shuffle_of_everything(folder: Path) -> None:
    loader, twin = (StreamLoader(stream_of(folder), 7, buffer=30, seed=5) for _ in range(2))
    first, second = numbers(loader), numbers(loader)
    assert sorted(first) == sorted(second) == list(range(120))
    assert first != second
    assert first != list(range(120))
    assert [numbers(twin), numbers(twin)] == [first, second]
    assert numbers(StreamLoader(stream_of(folder), 7, buffer=30, seed=6)) != first
    assert len({n // 20 for n in first[:20]}) > 1


def test_ranks_share_the_sources(folder: Path) -> None:
    parts = [numbers(StreamLoader(stream_of(folder), 7, rank=rank, world_size=3)) for rank in range(3)]
    assert [len(part) for part in parts] == [40, 40, 40]
    assert sorted(sum(parts, [])) == list(range(120))
    with pytest.raises(ValueError, match="6 sources cannot be shared among 7 ranks"):
        StreamLoader(stream_of(folder), 7, rank=0, world_size=7)


@pytest.mark.parametrize("taken", [1, 5, 12])
def test_resuming_replays(folder: Path, taken: int) -> None:
    def make(threads: int) -> StreamLoader:
        return StreamLoader(
            stream_of(folder), 10, buffer=16, seed=2, threads=threads, transforms={"x": [jitter]}, rank=0, world_size=1
        )

    whole = make(1)
    expected = [batch["x"].tolist() for _ in range(2) for batch in whole]
    first, got = make(3), []
    for batch in first:
        got.append(batch["x"].tolist())
        if len(got) == taken:
            break
    resumed = make(2)
    resumed.load_state_dict(first.state_dict())
    got += [batch["x"].tolist() for batch in resumed]
    got += [batch["x"].tolist() for batch in resumed]
    assert got == expected


def test_a_state_from_elsewhere_is_refused(folder: Path) -> None:
    state = StreamLoader(stream_of(folder), 10, buffer=16).state_dict()
    with pytest.raises(StateError, match=r"stream\(16,1\)"):
        StreamLoader(stream_of(folder), 10, buffer=17).load_state_dict(state)
    with pytest.raises(StateError, match="another dataset"):
        StreamLoader(stream_of(folder).part([0, 1]), 10, buffer=16).load_state_dict(state)


def test_errors_name_the_sample_or_are_skipped(folder: Path) -> None:
    with pytest.raises(KeyError, match="seven") as caught:
        list(StreamLoader(stream_of(folder), 10, buffer=0, transforms={"n": [refuse_seven]}))
    assert "sample 'k007' (position 7" in "\n".join(caught.value.__notes__)
    loader = StreamLoader(stream_of(folder), 10, buffer=0, transforms={"n": [refuse_seven]}, on_error="skip")
    assert numbers(loader) == [n for n in range(120) if n != 7]
    assert [(bad.key, bad.sample, bad.cause) for bad in loader.errors] == [
        ("k007", 7, "KeyError: 'seven' (in the transform tests.loader.memory_dataset.refuse_seven of field 'n')")
    ]


def test_what_does_not_decode_names_its_field(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "bad.tar.gz", "w:gz") as archive:
        for key, label in (("a", b"1"), ("b", b"no number"), ("c", b"3")):
            member = tarfile.TarInfo(f"{key}.cls")
            member.size = len(label)
            archive.addfile(member, io.BytesIO(label))
    stream = bushel.open_stream(tmp_path / "bad.tar.gz")
    with pytest.raises(CodecError, match="field 'cls'"):
        list(StreamLoader(stream, 2, buffer=0))
    loader = StreamLoader(stream, 2, buffer=0, on_error="skip")
    assert [batch["cls"].tolist() for batch in loader] == [[1], [3]]
    assert [(bad.key, bad.field) for bad in loader.errors] == [("b", "cls")]


def test_a_cut_archive_is_raised_even_when_skipping(folder: Path, tmp_path: Path) -> None:
    plain = next((folder / "plain").glob("*.tar")).read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(gzip.compress(plain[: len(plain) // 2 + 100]))
    stream = bushel.open_stream(tmp_path / "cut.tar.gz", spec={"n": "int", "x": "array"})
    with pytest.raises((FormatError, CodecError)):
        list(StreamLoader(stream, 2, on_error="skip"))


def test_break_joins_the_threads(folder: Path) -> None:
    before = set(threading.enumerate())
    for _ in StreamLoader(stream_of(folder), 2):
        assert set(threading.enumerate()) - before
        break
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("packing", [".tgz", ".tar.bz2", ".tar.xz", "pipe", "pipe of packed"])
def test_every_kind_of_stream_loads(folder: Path, tmp_path: Path, packing: str) -> None:
    packers: dict[str, Callable[[bytes], bytes]] = {".tar.bz2": bz2.compress, ".tar.xz": lzma.compress, "pipe": bytes}
    pack = packers.get(packing, gzip.compress)
    names = []
    for number, path in enumerate(sorted((folder / "plain").glob("*.tar"))):
        names.append(tmp_path / f"{number}{packing.replace(' ', '-')}")
        names[-1].write_bytes(pack(path.read_bytes()))
    sources: Any = [f"pipe:cat {name}" for name in names] if "pipe" in packing else names
    stream = bushel.open_stream(sources, spec={"n": "int", "x": "array"}, allow_commands=True)
    loader = StreamLoader(stream, 16, buffer=40, seed=1, threads=2)
    first, second = numbers(loader), numbers(loader)
    assert sorted(first) == sorted(second) == list(range(120))
    assert first != second
    parts = [numbers(StreamLoader(stream, 16, seed=1, rank=rank, world_size=4)) for rank in range(4)]
    assert sorted(sum(parts, [])) == list(range(120))


def test_standard_input_loads_once(folder: Path) -> None:
    program = """
import bushel
from bushel.loader import StreamLoader
loader = StreamLoader(bushel.open_stream("-", spec={"n": "int", "x": "array"}), 8, buffer=10, seed=3)
print(sorted(n for batch in loader for n in batch["n"].tolist()))
"""
    data = (folder / "0.tar.gz").read_bytes()
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(list(range(20)))


def test_stats_count_what_was_given(folder: Path) -> None:
    loader = StreamLoader(stream_of(folder), 25, buffer=0)
    assert sum(len(batch["n"]) for batch in loader) == 120
    stats = loader.stats()
    assert (stats.samples, stats.batches, stats.errors, stats.threads) == (120, 5, 0, cpu_count())
    assert stats.storage > 0
    assert "samples/s" in str(stats)


def test_wrong_use_is_refused(folder: Path) -> None:
    with pytest.raises(UnsupportedError, match="processes= cannot be used with a stream"):
        StreamLoader(stream_of(folder), 2, processes=1)

    with pytest.raises(UnsupportedError, match="StreamLoader"):
        Loader(stream_of(folder), 2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="give 'raise' or 'skip'"):
        StreamLoader(stream_of(folder), 2, on_error="replace")
    with pytest.raises(ValueError, match="batch_size=0"):
        StreamLoader(stream_of(folder), 0)


def test_a_peek_is_not_counted(folder: Path) -> None:
    loader, twin = (StreamLoader(stream_of(folder), 10, seed=3) for _ in range(2))
    look = loader.peek()
    assert loader.state_dict()["samples"] == 0
    first = numbers(loader)
    assert first[:10] == look["n"].tolist()
    assert [first, numbers(loader)] == [numbers(twin), numbers(twin)]
    next(iter(loader))
    assert (loader.epoch, loader.state_dict()["samples"]) == (2, 10)
    loader.peek()
    assert (loader.epoch, loader.state_dict()["samples"]) == (2, 10)
    next(iter(loader))
    assert loader.epoch == 3, "every `for` is an epoch"


def test_what_is_read_once_cannot_be_peeked_at(folder: Path) -> None:
    with min(folder.rglob("*.tar*")).open("rb") as handle:
        loader = StreamLoader(bushel.open_stream(handle), 10)
        with pytest.raises(UnsupportedError, match="read only once"):
            loader.peek()
        assert next(iter(loader))


def test_a_copy_goes_on_by_itself(folder: Path) -> None:
    loader = StreamLoader(stream_of(folder), 10, seed=3)
    iterator = iter(loader)
    next(iterator)
    other = copy.copy(loader)
    assert other.state_dict() == loader.state_dict()
    assert numbers(other) == [number for batch in iterator for number in batch["n"].tolist()]


def test_the_repr_can_be_read(folder: Path) -> None:
    loader = StreamLoader(stream_of(folder), 10, buffer=7, threads=2, rank=0, world_size=1)
    assert repr(loader).startswith("<bushel.StreamLoader: batches of 10 from <bushel.datasets.StreamDataset")
    assert "shuffle buffer of 7, seed 0, rank 0 of 1, 2 threads; epoch 0, 0 samples consumed" in repr(loader)


def test_with_steps_all_ranks_have_equally_many_full_batches_and_resume(folder: Path) -> None:
    def loader(rank: int) -> StreamLoader:
        return StreamLoader(stream_of(folder), 7, rank=rank, world_size=4, steps=5, threads=1)

    for rank in range(4):  # two of them have one source of 20 samples
        own = loader(rank)
        assert len(own) == 5
        first, second = numbers(own), numbers(own)
        assert len(first) == len(second) == 35
        assert first != second
        own = loader(rank)
        batches = iter(own)
        seen = [next(batches) for _ in range(4)]
        other = loader(rank)
        other.load_state_dict(own.state_dict())
        assert [n for batch in seen for n in batch["n"].tolist()] + numbers(other) == first


def test_steps_are_refused_where_they_cannot_be_promised(folder: Path) -> None:
    with pytest.raises(ValueError, match="steps= promises full ones"):
        StreamLoader(stream_of(folder), 7, steps=5, on_error="skip")
    with pytest.raises(UnsupportedError, match="can be read only once, so no epoch"):
        StreamLoader(bushel.open_stream("-"), 7, steps=5)
    with pytest.raises(TypeError, match="has no length"):
        len(StreamLoader(stream_of(folder), 7))
    assert StreamLoader(stream_of(folder), 7)


def test_ranks_of_a_stream_are_told_of_unequal_steps(folder: Path) -> None:
    with pytest.warns(UserWarning, match="unequal steps, .* give steps="):
        next(iter(StreamLoader(stream_of(folder), 7, rank=0, world_size=4)))

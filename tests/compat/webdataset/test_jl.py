"""The stages and loaders of WebDataset.jl, beyond what its page shows."""

import bz2
import gzip
import lzma
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.webdataset.shards import archive, numbered, write_shards

import bushel.compat.webdataset.jl as jl
from bushel.compat.webdataset.jl import DatasetDescriptor, dataloader, debugloader
from bushel.errors import CodecError, FormatError, TooManyErrors, UnsupportedError


def numbers(batches: Any) -> list[int]:
    return [int(text) for batch in batches for text in batch[".cls"]]


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("bushel-webdataset")]


def test_braces_of_several_groups_nest_left_major_and_other_braces_stay() -> None:
    assert jl.braceexpand("a{8..10}-{0..1}") == ["a8-0", "a8-1", "a9-0", "a9-1", "a10-0", "a10-1"]
    assert jl.braceexpand("pipe:awk '{print}' {01..02}") == ["pipe:awk '{print}' 01", "pipe:awk '{print}' 02"]
    assert jl.braceexpand(["a{0..1}", "b"]) == ["a0", "a1", "b"]


def test_sources_are_paths_commands_and_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive(numbered(0, 2)))
    monkeypatch.delenv("BUSHEL_ALLOW_COMMANDS", raising=False)
    sources: list[Any] = [str(path), f"pipe:cat {path}", ["cat", str(path)]]
    for source in sources[1:]:
        with pytest.raises(UnsupportedError, match="allow_commands=True"):
            jl.generic_open(source)
    for source in sources:
        with jl.generic_open(source, allow_commands=True) as stream:
            assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["s000", "s001"]
    monkeypatch.setenv("BUSHEL_ALLOW_COMMANDS", "1")
    assert numbers(debugloader(DatasetDescriptor(sources=sources, shuffle=0))) == [0, 1] * 3
    # the words of a command are not given to a shell
    with jl.generic_open("pipe:echo a;echo b") as stream:
        assert stream.read() == b"a;echo b\n"


def test_a_command_that_fails_is_an_error(tmp_path: Path) -> None:
    desc = DatasetDescriptor(sources=[["false", str(tmp_path)]])
    with pytest.raises(OSError, match="false .*failed with exit status 1"):
        list(dataloader(desc, allow_commands=True))


def test_tariterator_gives_every_file(tmp_path: Path) -> None:
    files = [("README", b"r"), ("__meta__/x.json", b"{}"), ("a.txt", b""), ("n" * 200 + ".cls", b"1")]
    path = tmp_path / "a.tar"
    path.write_bytes(archive(files, format=1))
    with open(path, "rb") as stream:
        assert list(jl.tariterator(stream)) == files
    with open(path, "rb") as stream:
        assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["a", "n" * 200]


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_an_open_stream_is_read_and_not_the_file_it_wraps(tmp_path: Path, module: Any) -> None:
    path = tmp_path / "a.tar.packed"
    path.write_bytes(module.compress(archive(numbered(0, 2))))
    with module.open(path, "rb") as stream:
        assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["s000", "s001"]
    with module.open(path, "rb") as stream:
        assert len(list(jl.tariterator(stream))) == len(numbered(0, 2))
    with open(path, "rb") as stream:
        assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["s000", "s001"]


def test_a_file_is_read_from_its_position(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(b"preface" + archive(numbered(0, 2)))
    for buffering in (0, -1):
        with open(path, "rb", buffering) as stream:
            stream.seek(len(b"preface"))
            assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["s000", "s001"]


def test_a_file_that_was_replaced_is_read_as_it_was_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(archive(numbered(0, 2)))
    with open(path, "rb") as stream:
        path.unlink()
        path.write_bytes(archive(numbered(7, 9)))
        assert [sample["__key__"] for sample in jl.sampleiterator(stream)] == ["s000", "s001"]


def test_two_files_for_one_field_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([("a.x", b"1"), ("a.x", b"2")]))
    with open(tmp_path / "a.tar", "rb") as stream, pytest.raises(FormatError, match="a file '.x' already"):
        list(jl.sampleiterator(stream))


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_shuffling_keeps_every_sample(size: int) -> None:
    source = list(range(50))
    found = list(jl.sampleshuffle(source, size, random.Random(3)))
    assert sorted(found) == source
    assert found == list(jl.sampleshuffle(source, size, random.Random(3)))
    assert (found == source) == (size < 2)
    # a sample leaves at most as early as the buffer lets it
    assert all(place >= value // 2 for place, value in enumerate(found)) or size == 1000


@pytest.mark.parametrize(("size", "batches"), [(3, [3, 3, 1]), (7, [7]), (10, [7])])
def test_batches_have_all_samples(size: int, batches: list[int]) -> None:
    samples = [{"__key__": str(i), ".n": i} for i in range(7)]
    found = list(jl.samplebatching(samples, size))
    assert [len(batch["__key__"]) for batch in found] == batches
    assert [n for batch in found for n in batch[".n"]] == list(range(7))
    assert list(jl.samplebatching(samples, 3, minsize=2)) == found[:2] if size == 3 else True


def test_no_batches() -> None:
    samples = [{"__key__": "a", ".n": 1}]
    assert list(jl.samplebatching(samples, 0)) == samples


def test_batching_is_apart_from_collating() -> None:
    [batch] = jl.samplebatching([{"__key__": "a", ".n": 1}, {"__key__": "b", ".n": 2}], 2)
    assert batch == {"__key__": ["a", "b"], ".n": [1, 2]}
    [collated] = jl.sampletransforms([batch], [(".n", np.array)])
    assert collated["__key__"] == ["a", "b"]
    assert collated[".n"].tolist() == [1, 2]


def test_transposing_needs_the_same_fields() -> None:
    with pytest.raises(KeyError, match=r"sample 'b' has no field '.y'"):
        jl.transpose_batch([{"__key__": "a", ".y": 1}, {"__key__": "b"}])


def test_exceptions_are_counted_said_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    before: int = jl.num_exceptions
    samples = [{"__key__": str(i), ".cls": text} for i, text in enumerate([b"1", b"x", b"3"])]
    found = list(jl.sampletransforms(samples, jl.default_decoders))
    assert [sample[".cls"] for sample in found] == [1, 3]
    assert jl.num_exceptions == before + 1
    assert isinstance(jl.last_exception, CodecError)
    assert "sample '1' is left out: bushel.errors.CodecError" in capsys.readouterr().err
    with pytest.raises(CodecError):
        list(jl.sampletransforms(samples, jl.default_decoders, handle="raise"))


def test_too_many_exceptions_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jl, "max_exceptions", jl.num_exceptions + 1)
    samples = [{"__key__": "a", ".cls": b"x"}] * 3
    with pytest.raises(TooManyErrors, match="max_exceptions is"):
        list(jl.sampletransforms(samples, jl.default_decoders))


def test_a_decoder_gets_bytes_an_augmentation_values_a_collation_lists(tmp_path: Path) -> None:
    seen: dict[str, Any] = {}

    def note(stage: str, function: Any) -> Any:
        def apply(value: Any) -> Any:
            seen[stage] = value
            return function(value)

        return apply

    (tmp_path / "a.tar").write_bytes(archive([("a.cls", b"5")]))
    desc = DatasetDescriptor(
        sources=[str(tmp_path / "a.tar")],
        decoding=[("", note("decoding", int))],
        augmenting=[("", note("augmenting", lambda x: x + 1))],
        mapping=note("mapping", lambda sample: {**sample, ".sum": sample[".cls"] + len(sample)}),
        collating=[("", note("collating", sum))],
    )
    assert list(debugloader(desc)) == [{"__key__": ["a"], ".cls": 6, ".sum": 8}]
    assert seen == {"decoding": b"5", "augmenting": 5, "mapping": {"__key__": "a", ".cls": 6}, "collating": [8]}


def test_a_mapping_sees_the_whole_sample_and_may_fail(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, 2)

    def swap(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["__key__"] == "s004":
            raise ValueError("no")
        return {"__key__": sample["__key__"], ".cls": sample[".txt"], ".txt": sample[".cls"]}

    before: int = jl.num_exceptions
    desc = DatasetDescriptor(sources=jl.braceexpand(pattern), batchsize=0, mapping=swap, shuffle=0, ntasks=1)
    found = list(dataloader(desc))
    assert [sample[".cls"] for sample in found] == [b"t%d" % i for i in range(20) if i != 4]
    assert jl.num_exceptions == before + 1
    with pytest.raises(ValueError, match="no"):
        list(debugloader(desc, maxcount=100))


@pytest.mark.parametrize("tasks", [1, 3, 8])
def test_all_samples_come_whatever_the_number_of_tasks(tmp_path: Path, tasks: int) -> None:
    desc = DatasetDescriptor(sources=jl.braceexpand(write_shards(tmp_path, 5)), batchsize=4, ntasks=tasks, csize=1)
    found = list(dataloader(desc))
    assert sorted(numbers(found)) == list(range(50))
    assert [len(batch["__key__"]) for batch in found].count(2) == 5
    assert not threads()


def test_a_loader_is_a_channel_that_can_be_left(tmp_path: Path) -> None:
    desc = DatasetDescriptor(sources=jl.braceexpand(write_shards(tmp_path, 5)), batchsize=1, csize=2)
    with dataloader(desc) as channel:
        assert len(channel.take()[".cls"]) == 1
        assert len(next(channel)[".cls"]) == 1
        assert threads()
    assert not threads()
    channel = dataloader(DatasetDescriptor(sources=[]))
    with pytest.raises(EOFError, match="no more values"):
        channel.take()


def test_the_channel_is_bounded(tmp_path: Path) -> None:
    started = threading.Semaphore(0)
    made = []

    def note(sample: dict[str, Any]) -> dict[str, Any]:
        made.append(sample["__key__"])
        started.release()
        return sample

    desc = DatasetDescriptor(
        sources=jl.braceexpand(write_shards(tmp_path, 1, 30)), batchsize=1, csize=3, ntasks=1, shuffle=0, mapping=note
    )
    channel = dataloader(desc)
    channel.take()
    for _ in range(5):  # one taken, three wait, one waits for room
        assert started.acquire(timeout=60)
    assert not started.acquire(timeout=0.2)
    assert len(made) == 5
    channel.close()
    assert not threads()


def test_a_task_that_fails_ends_the_loader(tmp_path: Path) -> None:
    good = jl.braceexpand(write_shards(tmp_path, 2))
    (tmp_path / "bad.tar").write_bytes(archive(numbered(0, 5))[:2000])
    with pytest.raises(FormatError, match=r"bad\.tar"):
        list(dataloader(DatasetDescriptor(sources=[*good, str(tmp_path / "bad.tar")])))
    with pytest.raises(FileNotFoundError):
        list(dataloader(DatasetDescriptor(sources=["nowhere.tar"] * 5)))
    (tmp_path / "uneven.tar").write_bytes(archive([("a.x", b""), ("b.y", b"")]))
    with pytest.raises(KeyError, match="which others of its batch have"):
        list(dataloader(DatasetDescriptor(sources=[str(tmp_path / "uneven.tar")])))
    assert not threads()


@pytest.mark.parametrize("wrong", [{"ntasks": 0}, {"csize": 0}])
def test_a_loader_needs_tasks_and_room(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="both are at least 1"):
        dataloader(DatasetDescriptor(sources=["a"], **wrong))  # type: ignore[arg-type]


def test_debugloader_raises_where_it_is_and_uses_no_threads(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive([("a.cls", b"1"), ("b.cls", b"x")]))
    desc = DatasetDescriptor(sources=[str(tmp_path / "a.tar")], decoding=jl.default_decoders, batchsize=1, shuffle=0)
    channel = debugloader(desc, desc.sources)
    assert channel.take()[".cls"] == [1]
    assert not threads()
    with pytest.raises(CodecError, match="expected an integer"):
        channel.take()
    assert len(list(debugloader(DatasetDescriptor(batchsize=1), jl.braceexpand(write_shards(tmp_path, 2))))) == 10


def test_verbose_names_shards_and_debug_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sources = jl.braceexpand(write_shards(tmp_path, 2, 2))
    list(debugloader(DatasetDescriptor(sources=sources)))
    assert capsys.readouterr().err == ""
    list(debugloader(DatasetDescriptor(sources=sources, verbose=True)))
    lines = [line for source in sources for line in (f"reading {source}", f"finished {source}")]
    assert capsys.readouterr().err.splitlines() == lines
    list(debugloader(DatasetDescriptor(sources=sources[:1], debug=True)))
    said = capsys.readouterr().err.splitlines()
    assert said[1:3] == ["sample s000: .cls, .txt", "sample s001: .cls, .txt"]


def test_hosts_share_the_shards(tmp_path: Path) -> None:
    sources = jl.braceexpand(write_shards(tmp_path, 5))
    found = []
    for rank in range(2):
        own = numbers(dataloader(DatasetDescriptor(sources=sources[rank::2])))
        assert len(own) == (30 if rank == 0 else 20)
        found += own
    assert sorted(found) == list(range(50))

"""`WebDataset`, pipelines and lists of shards."""

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.webdataset.shards import archive, numbered, write_shards

import bushel.compat.webdataset as wds
from bushel.compat.webdataset.compat import FluidInterface
from bushel.compat.webdataset.shardlists import DirectoryShardList, expand_source, expand_urls


def dataset(urls: Any, **options: Any) -> wds.WebDataset:
    return wds.WebDataset(urls, **{"shardshuffle": False, **options})


def classes(samples: Any) -> list[int]:
    return [int(sample["cls"]) for sample in samples]


def key(sample: dict[str, Any]) -> str:
    return str(sample["__key__"])


def test_every_name_is_there() -> None:
    for name in wds.__all__:
        assert getattr(wds, name) is not None
    assert set(wds.__all__) <= set(dir(wds))
    with pytest.raises(AttributeError, match="nothing"):
        wds.nothing  # noqa: B018
    opener: Any = wds.gopen  # the module, which is the function too
    with opener(os.devnull) as stream, opener.gopen(os.devnull) as other:
        assert stream.read() == other.read() == b""
    assert wds.filters.map is wds.map


def test_importing_it_does_not_import_pytorch() -> None:
    code = "import sys, bushel.compat.webdataset, bushel.compat.webdataset.jl; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_fluent_methods_are_all_there() -> None:
    wanted = (
        "batched unbatched listed unlisted log_keys shuffle map decode map_dict select to_tuple map_tuple slice"
        " rename rsample rename_keys extract_keys xdecode mcached lmdb_cached compose append with_length"
        " with_epoch repeat close"
    )
    assert all(callable(getattr(wds.WebDataset, name)) for name in wanted.split())
    with pytest.raises(NotImplementedError):
        FluidInterface().unbatched()


def test_a_method_leaves_the_pipeline_as_it_was(tmp_path: Path) -> None:
    first = dataset(write_shards(tmp_path, 1))
    second = first.map(key).slice(2)
    assert list(second) == ["s000", "s001"]
    assert len(list(first)) == 10
    assert first.shuffle(0) is first
    with dataset(write_shards(tmp_path, 1)) as opened:
        assert len(list(opened)) == 10
    with pytest.raises(ValueError, match="was closed"):
        list(opened)


def test_listed_heeds_partial(tmp_path: Path) -> None:
    """The original does not."""
    assert [len(batch) for batch in dataset(write_shards(tmp_path, 1)).listed(4, partial=False)] == [4, 4]


@pytest.mark.parametrize(("count", "wanted"), [(3, 3), (25, 25)])
def test_epochs_of_another_length(tmp_path: Path, count: int, wanted: int) -> None:
    stretched = dataset(write_shards(tmp_path, 1)).with_epoch(count)
    assert [len(list(stretched)) for _ in range(2)] == [wanted, wanted]


def test_repeating(tmp_path: Path) -> None:
    pattern = write_shards(tmp_path, 1)
    assert len(list(dataset(pattern).repeat(2))) == 20
    assert len(list(dataset(pattern).repeat(2, nbatches=15))) == 15
    assert len(list(dataset(pattern).repeat(1, nbatches=5))) == 5
    (tmp_path / "empty.tar").write_bytes(archive([]))
    assert list(dataset(str(tmp_path / "empty.tar"), empty_check=False).repeat()) == []


def test_a_length_is_set_and_pickled(tmp_path: Path) -> None:
    plain = dataset(write_shards(tmp_path, 1))
    assert not hasattr(plain, "__len__")
    with pytest.warns(UserWarning, match="only sets the value of __len__"):
        said = plain.with_length(77)
    assert len(said) == 77  # type: ignore[arg-type]
    assert type(said).__name__ == "WebDataset_Length"
    again = pickle.loads(pickle.dumps(said.with_length(5, silent=True)))
    assert (len(again), len(list(again)), isinstance(again, wds.WebDataset)) == (5, 10, True)


def test_a_pipeline_pickles(tmp_path: Path) -> None:
    stages = (
        dataset(write_shards(tmp_path, 2), shardshuffle=2, seed=1).shuffle(5, seed=1).decode("rgb8").to_tuple("cls")
    )
    again = pickle.loads(pickle.dumps(stages.batched(4)))
    assert [batch[0].tolist() for batch in again] == [batch[0].tolist() for batch in stages.batched(4)]


def test_pipelines_of_any_source() -> None:
    pipeline = wds.DataPipeline(lambda: iter(range(5)), [wds.slice(3), wds.map(lambda x: x * 2)])
    assert list(pipeline) == [0, 2, 4]
    assert pipeline.stage(1).args == (3,)
    assert list(wds.DataPipeline(pipeline, wds.slice(1))) == [0]
    assert list(wds.FluidWrapper(pipeline).map(str)) == ["0", "2", "4"]
    with pytest.raises(ValueError, match="not a valid pipeline stage"):
        list(wds.DataPipeline(3))
    with pytest.raises(ValueError, match="no source"):
        list(wds.DataPipeline())


def test_urls_are_split_and_variables_put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WDS_ROOT", "/data/${SUB}")
    monkeypatch.setenv("WDS_SUB", "x")
    assert expand_urls("${ROOT}/{0..1}.tar::b.tar") == ["/data/x/0.tar", "/data/x/1.tar", "b.tar"]
    with pytest.raises(KeyError, match="environment variable WDS_NOTHING is not set"):
        expand_urls("${NOTHING}")
    assert expand_source(iter(["a", "b"]), 1) == ["a"]
    with pytest.raises(ValueError, match="cannot handle"):
        expand_source(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("urls", "error"), [([], ValueError), ([3], TypeError), (3, TypeError), ("x.json", ValueError)]
)
def test_wrong_urls(urls: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        dataset(urls)


def test_the_order_of_shards_follows_from_the_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write_shards(tmp_path, 8, 1)
    seeded = dataset(pattern, shardshuffle=8, seed=5)
    first = classes(seeded)
    assert sorted(first) == list(range(8)) != first
    assert classes(seeded) == first
    deterministic = dataset(pattern, shardshuffle=8, detshuffle=True, seed=5)
    assert classes(deterministic) != classes(deterministic)
    monkeypatch.setenv("WDS_SEED", "7")
    assert classes(dataset(pattern, shardshuffle=8)) == classes(dataset(pattern, shardshuffle=8))
    assert len(classes(dataset(pattern, shardshuffle=8, detshuffle=True))) == 8


def test_shardshuffle_is_to_be_said() -> None:
    with pytest.warns(UserWarning, match="set explicitly"):
        wds.WebDataset("a.tar")
    with pytest.warns(UserWarning, match="positive integer"):
        wds.WebDataset("a.tar", shardshuffle=True)
    with pytest.warns(UserWarning, match="ignored for resampled"):
        wds.WebDataset("a.tar", shardshuffle=10, resampled=True)


def test_resampling(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write_shards(tmp_path, 5, 1)
    chosen = [classes(dataset(pattern, resampled=True, seed=seed).slice(20)) for seed in (1, 1, 2)]
    assert chosen[0] == chosen[1] != chosen[2]
    assert len(classes(dataset(pattern, resampled=True).slice(20))) == 20
    monkeypatch.setenv("WDS_SHOW_SEED", "1")
    shards = wds.ResampledShards(["a", "b"], 3, seed=1, worker_seed=lambda: 4, deterministic=True)
    epochs = [[shard["url"] for shard in shards] for _ in range(2)]
    assert all(set(epoch) <= {"a", "b"} for epoch in epochs)
    assert capsys.readouterr().out.startswith("# ResampledShards seed 3845\n")
    assert list(wds.resampled(2)(["x"])) == ["x", "x"]
    with pytest.raises(ValueError, match="no shards"):
        wds.ResampledShards([])


def test_shards_are_shared_among_ranks_and_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = write_shards(tmp_path, 8, 1)
    found = []
    for rank in range(2):
        for worker in range(2):
            for name, value in {"RANK": rank, "WORLD_SIZE": 2, "WORKER": worker, "NUM_WORKERS": 2}.items():
                monkeypatch.setenv(name, str(value))
            own = classes(dataset(pattern, nodesplitter=wds.split_by_node))
            assert own == [rank + 2 * worker, rank + 2 * worker + 4]
            found += own
    assert sorted(found) == list(range(8))
    with pytest.raises(ValueError, match="explicit nodesplitter"):
        list(dataset(pattern))


def test_a_stage_may_demand_samples() -> None:
    assert list(wds.non_empty([1])) == [1]
    with pytest.raises(ValueError, match="no data at all"):
        list(wds.non_empty([]))


def test_specifications_of_several_sources(tmp_path: Path) -> None:
    write_shards(tmp_path, 4, 1)
    spec = {
        "prefix": f"{tmp_path}/",
        "datasets": [
            {"name": "a", "shards": "x-{0000..0001}.tar"},
            {"shards": ["x-{0002..0003}.tar"], "choose": 1},
            {"shards": "x-0003.tar", "resample": 3},
        ],
    }
    shards = wds.MultiShardSample(spec)
    shards.set_epoch(1)
    found = [os.path.basename(url) for url in shards.get_shards_for_epoch()]
    assert len(found) == 6
    assert {"x-0000.tar", "x-0001.tar"} <= set(found)
    assert found.count("x-0003.tar") >= 3
    assert len(classes(dataset(spec))) == 6
    wrongs: list[dict[str, Any]] = [{}, {"datasets": [{}]}, {"datasets": [{"shards": "a", "choose": 2}]}]
    for wrong in [*wrongs, {"datasets": [], "more": 1}]:
        with pytest.raises(ValueError, match="has|choose"):
            wds.MultiShardSample(wrong)
    assert isinstance(wds.shardspec("a.tar"), wds.SimpleShardList)


@pytest.mark.parametrize(
    ("mode", "left"), [("resample", ["a.tar", "b.tgz"]), ("keep", ["a.tar._done_", "b.tgz._done_"]), ("unlink", [])]
)
def test_a_folder_of_shards(tmp_path: Path, mode: str, left: list[str]) -> None:
    import gzip

    (tmp_path / "a.tar").write_bytes(archive(numbered(0, 1)))
    (tmp_path / "b.tgz").write_bytes(gzip.compress(archive(numbered(1, 2))))
    os.utime(tmp_path / "a.tar", (1, 1))
    shards = DirectoryShardList(f"{tmp_path}/", mode=mode, poll=None, select="oldest")
    pipeline = wds.DataPipeline(shards, wds.tarfile_to_samples())
    found: Any = iter(pipeline)
    assert [int(next(found)["cls"]) for _ in range(2)] == ([0, 0] if mode == "resample" else [0, 1])
    if mode == "resample":
        next(found)
    else:
        assert list(found) == []
    found.close()
    left = [f"a.tar._{os.getpid()}_", "b.tgz"] if mode == "resample" else left  # it was not read to its end
    assert sorted(path.name for path in tmp_path.iterdir()) == left
    if mode == "resample":  # so the next iteration has it again
        assert int(next(iter(pipeline))["cls"]) == 0
    with pytest.raises(ValueError, match="see its documentation"):
        DirectoryShardList(f"{tmp_path}/", mode="shred")
    with pytest.raises(NotADirectoryError):
        DirectoryShardList(f"{tmp_path}/nowhere/")


@pytest.mark.parametrize("mode", ["resample", "keep", "unlink"])
def test_a_shard_that_is_left_is_not_lost(tmp_path: Path, mode: str) -> None:
    (tmp_path / "a.tar").write_bytes(b"a")
    shards = DirectoryShardList(f"{tmp_path}/", mode=mode, poll=None)
    taken = next(iter(shards))["url"]
    assert Path(taken).read_bytes() == b"a"
    again = [shard["url"] for shard in itertools.islice(shards, 1)]
    assert again == ([taken] if mode == "resample" else [])


def test_a_shard_of_a_dead_process_is_given_back(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(archive(numbered(0, 1)))
    (tmp_path / "b.tar._999999999_").write_bytes(archive(numbered(1, 2)))
    shards = iter(DirectoryShardList(f"{tmp_path}/", mode="unlink", poll=None))
    assert len(list(shards)) == 2
    assert list(tmp_path.iterdir()) == []


def test_pytorchs_loader_streams_it(tmp_path: Path) -> None:
    data = pytest.importorskip("torch.utils.data")
    stream = dataset(write_shards(tmp_path, 4)).decode().to_tuple("cls", "txt").batched(5)
    assert isinstance(stream, data.IterableDataset)
    loader = wds.WebLoader(stream, batch_size=None, num_workers=2).unbatched().shuffle(10).batched(8)
    batches = list(loader)
    assert [len(batch[0]) for batch in batches] == [8] * 5
    assert sorted(int(n) for batch in batches for n in batch[0]) == list(range(40))


def test_without_pytorch(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import bushel.compat.webdataset as wds\n"
        "d = wds.WebDataset(sys.argv[1], shardshuffle=False).decode().to_tuple('cls').batched(4)\n"
        "print([b[0].tolist() for b in d])\n"
        "try: wds.WebLoader(d)\n"
        "except ModuleNotFoundError as e: print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, write_shards(tmp_path, 1, 6)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "[[0, 1, 2, 3], [4, 5]]",
        "WebLoader needs PyTorch: run `pip install torch`",
    ]

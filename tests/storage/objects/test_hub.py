"""Datasets on the Hugging Face Hub, from servers that answer as it does."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.formats import each_format
from tests.storage.objects.datasets import stored, write
from tests.storage.objects.hub_server import COMMIT, Hub, hub_for

import bushel
from bushel.storage.objects.hub import HubPath

URL = "hf://datasets/org/photos"


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    yield from hub_for(tmp_path, monkeypatch)


def test_parse(hub: Hub) -> None:
    path = HubPath.parse(f"{URL}/train/a.tar")
    assert (path.root, path.key, str(path)) == (f"{URL}@{COMMIT}", "train/a.tar", f"{URL}@{COMMIT}/train/a.tar")
    assert HubPath.parse(f"{URL}@{COMMIT}") == HubPath(f"{URL}@{COMMIT}", "")
    assert (
        HubPath.parse(f"{URL}@refs%2Fconvert%2Fparquet/x")
        == HubPath.parse(f"{URL}@refs/convert/parquet/x")
        == path.at("x")
    )
    assert path.parent / "b.tar" == path.with_name("b.tar")
    assert len(hub.asked) == 2
    for wrong in ("hf://org/model", "hf://datasets/org", "hf://spaces/org/name/x"):
        with pytest.raises(bushel.errors.UnsupportedError, match="expected hf://datasets/ORG/NAME"):
            bushel.open(wrong)


@each_format
def test_read_a_folder_with_its_index(hub: Hub, container: str, generation: str | None) -> None:
    write(hub.folder / "train", container, generation, shard_samples=15)
    local, remote = bushel.open(hub.folder / "train"), bushel.open(f"{URL}/train/")
    assert stored(remote, [3, 39, 0, 17]) == stored(local, [3, 39, 0, 17])
    assert remote.position("key-17") == 17
    assert remote.info.indexed
    assert hub.listings() == 1
    assert not [path for method, path in hub.asked if method == "HEAD"]


def test_read_files_by_name_without_an_index(hub: Hub) -> None:
    write(hub.folder / "train", "tar", None, shard_samples=15)
    for path in sorted((hub.folder / "train/.bushel").iterdir()):
        path.unlink()
    remote = bushel.open(f"{URL}@main/train/shard-{{000000..000002}}.tar")
    globbed = bushel.open(f"{URL}/train/*.tar")
    assert len(remote) == len(globbed) == 40
    assert remote.fingerprint == globbed.fingerprint
    assert hub.listings() == 2  # the pattern is asked for as a folder, then the folder is listed
    with pytest.raises(FileNotFoundError):
        bushel.open(f"{URL}/train/missing.tar")
    with pytest.raises(FileNotFoundError, match="no such dataset, revision or folder"):
        bushel.open("hf://datasets/org/other/train/")


def _keys(dataset: bushel.Dataset, queue: multiprocessing.Queue[list[str]]) -> None:
    queue.put([sample["__key__"] for sample in dataset.read([1, 39])])


def test_worker_processes_list_nothing(hub: Hub) -> None:
    write(hub.folder / "train", "tar", None, shard_samples=15)
    remote = bushel.open(f"{URL}/train/")
    asked = len(hub.asked)
    context = multiprocessing.get_context("spawn")
    queue: multiprocessing.Queue[list[str]] = context.Queue()
    process = context.Process(target=_keys, args=(remote, queue))
    process.start()
    assert queue.get(timeout=60) == ["key-1", "key-39"]
    process.join()
    assert [path for _, path in hub.asked[asked:] if "/resolve/" not in path] == []


def test_the_token_goes_to_the_hub_only(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(hub.folder / "train", "tar", None, shard_samples=15)
    hub.token = "hf_abc"
    with pytest.raises(PermissionError, match="HF_TOKEN"):
        bushel.open(f"{URL}/train/")
    (tmp_path / "home").mkdir()
    (tmp_path / "home/token").write_text("hf_abc\n")
    from_file = bushel.open(f"{URL}/train/")
    assert len(from_file.read([0, 39])) == 2
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    assert len(bushel.open(f"{URL}@{COMMIT}/train/").read([0, 39])) == 2
    assert not hub.leaked
    assert b"hf_abc" not in pickle.dumps(from_file)


def test_a_busy_hub_is_tried_again(hub: Hub) -> None:
    write(hub.folder / "train", "tar", None)
    hub.busy = 2
    assert len(bushel.open(f"{URL}/train/")) == 40


def test_loader_and_source(hub: Hub, tmp_path: Path) -> None:
    write(hub.folder / "train", "tar", None, shard_samples=15)
    loader = bushel.Loader(bushel.open(f"{URL}/train/"), 8, shuffle="blocks", seed=0)
    assert sorted(int(label) for batch in loader for label in batch["label"]) == list(range(40))
    assert bushel.convert(f"{URL}/train/", tmp_path / "out", container="recordio").samples == 40
    (hub.folder / "files/sub").mkdir(parents=True)
    (hub.folder / "files/sub/a.txt").write_text("text")
    source = bushel.sources.open_source(f"{URL}/files", "files")
    bushel.pack(source, tmp_path / "files.ffr", container="ffrecord")
    assert bushel.open(tmp_path / "files.ffr")["sub/a.txt"]["data"] == b"text"


def test_nothing_is_written_to_the_hub(hub: Hub) -> None:
    with pytest.raises(bushel.errors.UnsupportedError, match="needs a local path or an object store"):
        bushel.Writer(f"{URL}/new", {"a": "int"}, container="tar")

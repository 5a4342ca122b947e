"""Programs that replace a stage of webdataset's, or read the records of its expander themselves."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bushel.compat.webdataset as wds


def archive(path: Path, *names: str, cut: int = 0) -> str:
    with tarfile.open(path, "w") as tar:
        for name in names:
            info = tarfile.TarInfo(name)
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
    if cut:
        path.write_bytes(path.read_bytes()[:cut])
    return str(path)


def keys_of(samples: Iterable[Any]) -> list[str]:
    return [sample["__key__"] for sample in samples]


def keep_the_last(files: Iterable[Any], handler: Any = None) -> Iterator[Any]:
    """Group files as programs for 0.2.86 do; a second file of a field replaces the first."""
    current: dict[str, Any] = {}
    for file in files:
        name, data = file["fname"], file["data"]
        key, suffix = wds.tariterators.base_plus_ext(name)
        if key is None or suffix is None:
            continue
        if current and current["__key__"] != key:
            yield current
            current = {}
        current |= {"__key__": key, "__url__": file["__url__"], suffix: data}
    if current:
        yield current


@pytest.mark.parametrize("pipeline", ["WebDataset", "DataPipeline"])
def test_a_replaced_grouping_is_called(pipeline: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = archive(tmp_path / "a.tar", "a.txt", "a.txt", "b.txt")
    sources: dict[str, Any] = {
        "WebDataset": lambda: wds.WebDataset(wds.SimpleShardList([url]), shardshuffle=False),
        "DataPipeline": lambda: wds.DataPipeline(wds.SimpleShardList([url]), wds.tarfile_to_samples()),
    }
    with pytest.raises(ValueError, match="duplicate"):
        keys_of(sources[pipeline]())
    monkeypatch.setattr(wds.tariterators, "group_by_keys", keep_the_last)
    assert keys_of(sources[pipeline]()) == ["a", "b"]


def test_a_replaced_opener_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = archive(tmp_path / "a.tar", "a.txt")

    def opener(data: Iterable[Any], handler: Any = None) -> Iterator[Any]:
        for source in data:
            yield {**source, "stream": Path(url).open("rb")}  # noqa: SIM115  (the expander closes it)

    monkeypatch.setattr(wds.tariterators, "url_opener", opener)
    shards = wds.SimpleShardList(["nowhere.tar"])
    assert keys_of(wds.DataPipeline(shards, wds.tarfile_to_samples())) == ["a"]


def expanded(urls: list[str], **options: Any) -> Iterator[Any]:
    sources = [{"url": url} for url in urls]
    return wds.tariterators.tar_file_expander(wds.tariterators.url_opener(sources), **options)


def test_the_end_of_a_shard_is_an_empty_dict_that_old_programs_can_read(tmp_path: Path) -> None:
    url = archive(tmp_path / "a.tar", "a.txt")
    *_, end = expanded([url])
    assert end == {}
    assert (end["fname"], end["data"], end.get("fname")) == ("", b"", None)
    with pytest.raises(KeyError):
        end["txt"]
    assert [file["fname"] for file in expanded([url, url], eof_value=None)] == ["a.txt", "a.txt"]
    assert keys_of(keep_the_last(expanded([url]))) == ["a"]


def test_only_files_and_ends_come_of_a_damaged_shard(tmp_path: Path) -> None:
    damaged = archive(tmp_path / "a.tar", "a.txt", "b.txt", "b.json", cut=2560)
    whole = archive(tmp_path / "c.tar", "b.json")
    options = {"handler": wds.warn_and_continue}
    with pytest.warns(UserWarning, match="beyond the end of the file"):
        files = list(expanded([damaged, whole], eof_value=None, **options))
    assert all(file["fname"] for file in files)
    with pytest.warns(UserWarning, match="beyond the end of the file"):
        samples = list(wds.tariterators.group_by_keys(expanded([damaged, whole], **options)))
    assert [(sample["__key__"], sample["__url__"]) for sample in samples] == [("a", damaged), ("b", whole)]

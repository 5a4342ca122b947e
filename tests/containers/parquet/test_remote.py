"""Parquet files on servers: counted by their footers, cut in passing, and remembered."""

from __future__ import annotations

import logging
import os
import pickle
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.containers.read_in_place import FOREIGN, PARQUET, expected
from tests.storage.objects.range_server import Server, served

import bushel
from bushel.containers import Shard, get_container
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError
from bushel.loader import Blocks
from bushel.loader.read.batch_arrays import gathered_numbers
from bushel.loader.read.batch_reader import gathers
from bushel.storage import as_path
from bushel.storage.expansion_cache import expansion_cache

each_dataset = pytest.mark.parametrize("name", PARQUET)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    expansion_cache().clear()
    yield from served(tmp_path, monkeypatch, 5)


def _served(server: Server, name: str) -> tuple[list[str], bushel.Dataset]:
    """Copy a dataset to the server, and return its URLs and the dataset as it is opened locally."""
    found = sorted((FOREIGN / name).rglob("*.parquet"))
    for path in found:
        shutil.copy(path, server.folder / path.name)
    return [f"{server.url}/{path.name}" for path in found], bushel.open([*found], index="memory")


def _bytes(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            name: [bytes(each) for each in value]
            if isinstance(value, list)
            else value
            if isinstance(value, str)
            else bytes(value)
            for name, value in sample.items()
        }
        for sample in samples
    ]


@each_dataset
def test_opening_reads_footers_only(name: str, server: Server) -> None:
    urls, local = _served(server, name)
    remote = bushel.open(urls)
    assert (len(remote), remote.spec, remote.labels) == (len(local), local.spec, local.labels)
    assert (remote.info.shards, remote.info.bytes) == (local.info.shards, local.info.bytes)
    assert remote.info.unread > 0
    for url in urls:
        ranges = server.gets(url.rpartition("/")[2])
        assert ranges[0] == "bytes=-65536"
        unsaid = [kind for kind in local.spec.values() if kind in ("bytes", "image", "image[]")]
        assert len(ranges) <= 1 + len(unsaid)  # the first value says the type, where features do not


@each_dataset
def test_samples_come_out_as_from_local_files(name: str, server: Server) -> None:
    urls, local = _served(server, name)
    remote = bushel.open(urls)
    assert len(remote) == len(expected(name)["samples"])
    order = list(range(len(local)))[::-1]
    assert _bytes(remote.read(order, decode=False)) == _bytes(local.read(order, decode=False))
    for position in (0, len(local) - 1):
        assert _bytes(remote.read([position], decode=False)) == _bytes(local.read([position], decode=False))


@each_dataset
def test_bytes_of_a_section_are_requested_once_and_remembered(name: str, server: Server) -> None:
    urls, _ = _served(server, name)
    remote = bushel.open(urls)
    remote.read(range(len(remote)))
    asked = len(server.asked)
    remote.read(range(len(remote)))
    assert len(server.asked) == asked
    expansion_cache().clear()  # as in another process
    again = bushel.open(urls)
    assert again.info.unread == 0
    asked = len(server.asked)
    assert _bytes(again.read([5], decode=False)) == _bytes(remote.read([5], decode=False))
    spans = [ranged for _, _, ranged in server.asked[asked:] if ranged]
    section = max(one.section.stop - one.section.start for one in again.shards if one.section is not None)
    assert all(int(span[6:].split("-")[1]) - int(span[6:].split("-")[0]) < section for span in spans)


def test_a_line_says_how_many_bytes_are_read(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    urls, _ = _served(server, "hf-parquet")
    with caplog.at_level(logging.WARNING, "bushel"):
        remote = bushel.open(urls)
        [record] = caplog.records
        assert f"up to {remote.info.unread:,} bytes are read when" in record.getMessage()
        caplog.clear()
        remote.read(range(len(remote)))
        bushel.open(urls)
        assert not caplog.records  # all that there is to learn was learned


def test_a_replaced_object_is_not_read_with_what_was_learned(server: Server) -> None:
    urls, _ = _served(server, "hf-parquet")
    remote = bushel.open(urls)
    remote.read([0])
    [path] = server.folder.glob("*.parquet")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    assert bushel.open(urls).info.unread > 0
    expansion_cache().clear()
    with pytest.raises(FormatError, match="has changed since"):
        remote.read([3])


def test_damaged_tables_in_the_cache_are_made_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    urls, local = _served(server, "hf-parquet")
    bushel.open(urls).read([0])
    tables = [path for path in Path(os.environ["BUSHEL_TABLES_DIR"]).rglob("*") if path.is_file()]
    assert tables
    for path in tables:
        path.write_bytes(path.read_bytes()[:-9])
    assert _bytes(bushel.open(urls).read([0], decode=False)) == _bytes(local.read([0], decode=False))
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "0")
    remote = bushel.open(urls)
    remote.read([0])
    assert bushel.open(urls).info.unread > 0


def test_blocks_and_worker_processes(server: Server) -> None:
    urls, local = _served(server, "parquet-zstd-v2-dictionary")
    remote = bushel.open(urls)
    order = Blocks(len(remote), seed=3, size=4, window=2)
    batches = list(
        bushel.Loader(remote, 4, shuffle=order, fields=["tokens", "label"], collate={"tokens": "list"}, to="numpy")
    )
    wanted = list(
        bushel.Loader(local, 4, shuffle=order, fields=["tokens", "label"], collate={"tokens": "list"}, to="numpy")
    )
    assert [batch["__key__"] for batch in batches] == [batch["__key__"] for batch in wanted]
    assert [list(batch["label"]) for batch in batches] == [list(batch["label"]) for batch in wanted]
    copy = pickle.loads(pickle.dumps(bushel.open(urls)))
    assert _bytes(copy.read([7], decode=False)) == _bytes(local.read([7], decode=False))


def test_columns_of_numbers(server: Server) -> None:
    urls, local = _served(server, "hf-parquet")
    remote = bushel.open(urls)
    assert remote.column("label").tolist() == local.column("label").tolist()
    assert len(remote.where("label == 3")) == len(local.where("label == 3"))


def test_a_loader_begins_without_reading_all_sections(server: Server) -> None:
    urls, _ = _served(server, "parquet-none-v1-plain")
    remote = bushel.open(urls)
    asked = len(server.asked)
    # Fields of numbers are gathered only where all tables are known: to look at them all would be to read all sections.
    assert gathered_numbers(remote, gathers(remote), {}, decode=True) == []
    assert len(server.asked) == asked
    assert not any(shard.loaded for shard in remote.shards)
    remote.read(range(len(remote)))
    assert gathered_numbers(remote, gathers(remote), {}, decode=True)


def test_files_without_an_index_are_indexed_by_a_scan_of_whole_chunks(server: Server, tmp_path: Path) -> None:
    urls, local = _served(server, "hf-parquet")
    path = as_path(server.url)
    [name] = [url.rpartition("/")[2] for url in urls]
    found = get_container("parquet").index(Shard(path, name, (name,)), ReadOptions())
    assert found.samples == len(local)
    assert len(server.asked) <= 1 + len(local.spec) * 2


def test_nested_values_and_rarer_encodings(server: Server) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    turns = [[{"role": "user", "content": f"question {row}" * 400}] for row in range(2000)]
    table = pyarrow.table({"turns": turns, "n": list(range(2000)), "lists": [[row, None] for row in range(2000)]})
    for compression in ("none", "snappy"):
        name = f"{compression}.parquet"
        options = {"use_dictionary": False, "column_encoding": {"n": "DELTA_BINARY_PACKED"}}
        parquet.write_table(table, server.folder / name, row_group_size=500, compression=compression, **options)
        remote, local = bushel.open(f"{server.url}/{name}"), bushel.open(server.folder / name, index="memory")
        assert {**remote.spec, "lists": "json"} == local.spec  # only the pages show that elements are null
        assert [remote[row] for row in (0, 499, 500, 1999)] == [local[row] for row in (0, 499, 500, 1999)]
        assert remote[700]["turns"] == turns[700]
        assert remote[700]["n"] == 700


def test_lists_of_texts_with_and_without_nulls_in_one_batch(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections without nulls have sequences, and the others values of JSON."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("bushel.containers.parquet.page_index._SECTION", 100)
    lists = [["a"], ["b", "b"], ["c", None], ["d"], None, [], ["e"], ["f", "f"]]
    table = pyarrow.table({"lists": pyarrow.array(lists, pyarrow.list_(pyarrow.string())), "n": list(range(8))})
    parquet.write_table(table, server.folder / "mixed.parquet", row_group_size=2)
    url = f"{server.url}/mixed.parquet"
    assert [sample.get("lists") for sample in bushel.open(url)] == lists
    remote = bushel.open(url)
    order = [7, 4, 2, 5, 3, 0]
    assert [sample.get("lists") for sample in remote.read(order)] == [lists[at] for at in order]
    [batch] = bushel.Loader(remote, 8, fields=["lists"], collate={"lists": "list"})
    assert batch["lists"] == lists
    extents = remote.to_arrow()["lists"].to_pylist()
    assert [None if extent is None else len(extent) for extent in extents] == [1, 2, 1, 1, None, 0, 1, 2]
    with pytest.raises(TypeError, match="can only decode whole values"):
        remote.read([0, 2], {"lists": slice(1)})
    with pytest.raises(KeyError, match="'lists.length' is not in the index"):  # not the bytes of JSON
        remote.column("lists.length")


def test_an_exact_order_of_much_that_is_unknown_is_refused(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    urls, _ = _served(server, "hf-parquet")
    remote = bushel.open(urls)
    assert len(list(bushel.Loader(remote, 8, shuffle=True, fields=["label"]))) == 3
    monkeypatch.setattr("bushel.loader.plan.planning._MOST_UNREAD", 1000)
    again = bushel.open(urls)
    bushel.Loader(again, 8, shuffle=True, fields=["label"])  # all of it was learned
    again.read(range(len(again)))
    bushel.Loader(bushel.open(urls), 8, shuffle=True)
    monkeypatch.setenv("BUSHEL_TABLES_SIZE", "0")
    with pytest.raises(
        bushel.errors.UnsupportedError, match=r"would read .* bytes first.*bushel index.*shuffle=\"blocks\""
    ):
        bushel.Loader(bushel.open(urls), 8, shuffle=True)
    bushel.Loader(bushel.open(urls), 8, shuffle="blocks")


def test_blocks_are_those_of_the_files(server: Server) -> None:
    urls, _ = _served(server, "parquet-zstd-v2-dictionary")
    remote = bushel.open(urls)
    order = bushel.Loader(remote, 4, shuffle="blocks")._plan.order
    [samples] = {one.samples for one in remote.shards[:1]}
    assert isinstance(order, Blocks)
    assert order.size % samples == 0
    assert not any(one.loaded for one in remote.shards)


def test_what_the_cache_drops_is_requested_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion_cache(), "_limit", 1000)
    urls, local = _served(server, "parquet-snappy-v1-dictionary")
    remote = bushel.open(urls)
    asked, leaves = len(server.asked), 12
    assert all(len(one.index.fields) == len(local.spec) for one in remote.shards)
    assert len(server.asked) - asked <= leaves * sum(3 for _ in urls)  # a request a chunk, not a page
    order = [*range(0, len(local), 2), *range(1, len(local), 2)]
    assert _bytes(remote.read(order, decode=False)) == _bytes(local.read(order, decode=False))
    assert [_bytes([remote.read([row], decode=False)[0]]) for row in (3, 20)] == [
        _bytes(local.read([row], decode=False)) for row in (3, 20)
    ]


@pytest.mark.parametrize("name", ["hf-parquet", "parquet-snappy-v1-dictionary", "parquet-zstd-v2-dictionary"])
def test_damage_gives_an_error_that_names_the_url_or_other_values(name: str, server: Server) -> None:
    data = min((FOREIGN / name).rglob("*.parquet")).read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    rng = random.Random(name)
    errors = {}
    for number in range(60):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 4, 40))):
            changed[rng.randrange(footer if number % 2 else 0, len(data))] = rng.randrange(256)
        if number % 10 == 0:
            del changed[rng.randrange(len(changed)) :]
        (server.folder / f"{number}.parquet").write_bytes(changed)
        try:
            remote = bushel.open(f"{server.url}/{number}.parquet")
            for place in range(0, len(remote), 5):
                remote.read([place], decode=False)
        except bushel.BushelError as error:
            errors[f"/{number}.parquet"] = str(error)
    assert errors
    assert not {url: text for url, text in errors.items() if url not in text}


def _wide(server: Server) -> tuple[str, bushel.Dataset]:
    """Write a file of four row groups of 512 KiB, in which photos are between labels and texts."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    noise = random.Random(5)
    rows = [
        {"label": number % 7, "photo": noise.randbytes(16_000), "text": f"text {number} " * 40, "more": [number, 3]}
        for number in range(128)
    ]
    path = server.folder / "wide.parquet"
    parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=32, compression="none", use_dictionary=False)
    return f"{server.url}/wide.parquet", bushel.open(path, index="memory")


def _requested(server: Server, before: int) -> int:
    """Return how many bytes were requested after some requests."""
    spans = [ranged[6:].split("-") for _, _, ranged in server.asked[before:] if ranged]
    return sum(int(last) + 1 - int(first) for first, last in spans)


def test_only_the_columns_that_are_needed_are_requested(server: Server) -> None:
    url, local = _wide(server)
    remote, size = bushel.open(url), (server.folder / "wide.parquet").stat().st_size
    before = len(server.asked)
    assert [each["label"] for each in remote.read(range(128), ["label"])] == [number % 7 for number in range(128)]
    assert 0 < _requested(server, before) < size // 100
    before = len(server.asked)
    texts = remote.select_fields(["text"])
    assert [each["text"] for each in texts] == [each["text"] for each in local]
    assert 0 < _requested(server, before) < size // 20
    assert len(server.asked) - before == 4  # one for each row group
    before = len(server.asked)
    assert remote[3, ["text"]]["text"] == local[3]["text"]
    assert list(remote.column("label")) == list(local.column("label"))
    assert len(remote.where("label == 3")) == len(local.where("label == 3"))
    assert len(server.asked) == before  # all that was learned is kept
    both = remote.read([100, 5], ["photo", "label"], decode=False)
    assert _bytes(both) == _bytes(local.read([100, 5], ["photo", "label"], decode=False))
    assert texts.fingerprint == remote.select_fields(["text"]).fingerprint


def test_a_loader_requests_the_columns_of_its_fields(server: Server) -> None:
    url, local = _wide(server)
    remote, size = bushel.open(url), (server.folder / "wide.parquet").stat().st_size
    for shuffle in (True, "blocks"):
        expansion_cache().clear()
        before = len(server.asked)
        loader = bushel.Loader(remote, 16, shuffle=shuffle, fields=["label", "text"], threads=2)
        seen: set[tuple[int, str]] = set()
        for batch in loader:
            seen.update(zip(batch["label"].tolist(), batch["text"], strict=True))
        assert seen == {(each["label"], each["text"]) for each in local}
        assert _requested(server, before) < size // 10
        assert loader.state_dict()["fingerprint"] == bushel.open(url).fingerprint
    assert pickle.loads(pickle.dumps(remote)).read([7], ["label"])[0]["label"] == 0


def test_the_next_process_knows_the_columns_that_were_read(server: Server) -> None:
    url, _ = _wide(server)
    bushel.open(url).read(range(128), ["text"])
    expansion_cache().clear()
    again = bushel.open(url)
    before = len(server.asked)
    assert again[3, ["text"]]["text"].startswith("text 3 ")
    assert _requested(server, before) < 1000  # one value
    assert again.info.unread > 0  # of the other columns nothing is known


def test_keys_are_known_after_indexing(server: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"__key__": ["a/1", "b"], "n": [1, 2]}), server.folder / "x.parquet")
    dataset = bushel.open(f"{server.url}/x.parquet")
    assert list(dataset) == [{"__key__": "0", "n": 1}, {"__key__": "1", "n": 2}]
    assert "the column __key__ is read by `bushel index`" in caplog.text
    bushel.index(f"{server.url}/x.parquet", index=tmp_path / "index")
    assert bushel.open(f"{server.url}/x.parquet", index=tmp_path / "index")["b"] == {"__key__": "b", "n": 2}

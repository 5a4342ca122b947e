"""The page index of Parquet files on servers: large row groups are runs of rows, and a wrong index is an error."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace
from tests.containers.tfrecords import varint
from tests.storage.objects.range_server import Server, served

import bushel
from bushel.containers.parquet import page_index
from bushel.containers.parquet.footer import Chunk, RowGroup, read_footer
from bushel.errors import FormatError
from bushel.filters.parquet_pages import read_struct
from bushel.storage import as_path, open_file
from bushel.storage.expansion_cache import expansion_cache

ROWS, GROUP = 900, 450


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(page_index, "_SECTION", 150_000)
    monkeypatch.setattr(page_index, "_GAP", 100)
    expansion_cache().clear()
    yield from served(tmp_path, monkeypatch, 5)


def columns() -> dict[str, list[Any]]:
    """Return columns of all kinds, most of whose bytes are photos'."""
    rng = random.Random(3)
    return {
        "label": [rng.randrange(9) for _ in range(ROWS)],
        "photo": [rng.randbytes(rng.randrange(2000, 6000)) for _ in range(ROWS)],
        "caption": [None if rng.random() < 0.2 else f"text {number} " * rng.randrange(5) for number in range(ROWS)],
        "few": [rng.choice(["cat", "dog"]) for _ in range(ROWS)],
        "score": [None if rng.random() < 0.1 else rng.random() for _ in range(ROWS)],
        "truth": [rng.random() < 0.5 for _ in range(ROWS)],
        "pages": [None if not number % 7 else [rng.randbytes(9)] * (number % 4) for number in range(ROWS)],
        "tokens": [[rng.randrange(1 << 30) for _ in range(rng.randrange(6))] for _ in range(ROWS)],
        "nested": [{"a": number, "b": [[number]]} if number % 3 else None for number in range(ROWS)],
        "delta": [number * 3 for number in range(ROWS)],
    }


def written(path: Path, **options: Any) -> None:
    """Write the columns with pages of some rows and a page index."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    own: dict[str, Any] = {
        "row_group_size": GROUP,
        "data_page_size": 800,
        "write_batch_size": 8,
        "write_page_index": True,
        "use_dictionary": False,
        "column_encoding": {"delta": "DELTA_BINARY_PACKED"},
    }
    parquet.write_table(pyarrow.table(columns()), path, **{**own, **options})


def requested(server: Server, before: int) -> int:
    """Return how many bytes were requested after some requests."""
    spans = [ranged[6:].split("-") for _, _, ranged in server.asked[before:] if ranged]
    return sum(int(last) + 1 - int(first) for first, last in spans)


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_values_are_those_of_the_local_file(server: Server, compression: str, version: str) -> None:
    path = server.folder / "x.parquet"
    written(path, compression=compression, data_page_version=version)
    remote, local = bushel.open(f"{server.url}/x.parquet"), bushel.open(path, index="memory")
    assert len(remote.shards) > 15
    assert (len(remote), remote.spec) == (len(local), local.spec)
    order = random.Random(compression).sample(range(ROWS), ROWS)
    for place, sample, wanted in zip(order, remote.read(order), local.read(order), strict=True):
        assert sample.keys() == wanted.keys(), place
        for name, value in sample.items():
            same = value.tolist() == wanted[name].tolist() if name == "tokens" else value == wanted[name]
            assert same, (place, name)


@pytest.mark.parametrize("dictionary", [["few"], ["few", "caption", "label"]])
def test_dictionaries_are_read_with_the_pages_that_need_them(server: Server, dictionary: list[str]) -> None:
    path = server.folder / "x.parquet"
    written(path, use_dictionary=dictionary, column_encoding=None)
    remote, local = bushel.open(f"{server.url}/x.parquet"), bushel.open(path, index="memory")
    assert len(remote.shards) > 15
    names = ["few", "caption", "label", "photo"]
    assert remote.read(range(ROWS), names) == local.read(range(ROWS), names)
    assert remote[-1, ["few"]] == local[-1, ["few"]]


def test_a_sample_costs_its_pages_and_not_its_row_group(server: Server) -> None:
    size = {}
    for indexed in (True, False):
        path = server.folder / f"{indexed}.parquet"
        written(path, write_page_index=indexed)
        remote = bushel.open(f"{server.url}/{path.name}")
        before = len(server.asked)
        remote.read([300], ["photo", "label"])
        size[indexed] = requested(server, before)
        assert remote.info.unread < remote.info.bytes * 1.2
    assert size[True] < size[False] / 8


def test_runs_that_would_be_read_twice_are_not_made(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compressed numbers of lists need their dictionary, so a file of them is read by row groups."""
    monkeypatch.setattr(page_index, "_SECTION", 20_000)
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = random.Random(5)
    lists = [[rng.randrange(2000) for _ in range(90)] for _ in range(ROWS)]
    options: dict[str, Any] = {"row_group_size": GROUP, "data_page_size": 4000, "write_batch_size": 8}
    path = server.folder / "x.parquet"
    parquet.write_table(pyarrow.table({"tokens": lists}), path, write_page_index=True, **options)
    remote = bushel.open(f"{server.url}/x.parquet")
    assert [shard.samples for shard in remote.shards] == [GROUP, GROUP]
    assert [sample["tokens"].tolist() for sample in remote.read(range(ROWS))] == lists


def test_a_loader_in_blocks(server: Server) -> None:
    path = server.folder / "x.parquet"
    written(path)
    remote, local = bushel.open(f"{server.url}/x.parquet"), bushel.open(path, index="memory")
    loader = bushel.Loader(remote, 50, shuffle="blocks", fields=["photo", "label"], threads=2)
    seen = {key: photo for batch in loader for key, photo in zip(batch["__key__"], batch["photo"], strict=True)}
    assert seen == {str(number): sample["photo"] for number, sample in enumerate(local)}


def indexes(path: Path) -> list[tuple[int, int]]:
    """Return offset and bytes of the offset indexes of a file."""
    footer = read_footer(open_file(as_path(path)))
    return [chunk.index for group in footer.groups for chunk in group.chunks if chunk.index is not None]


def test_damaged_indexes_give_an_error_or_the_right_values(server: Server) -> None:
    whole = server.folder / "whole.parquet"
    written(whole)
    data, spans = whole.read_bytes(), indexes(whole)
    wanted = [(sample["label"], sample["photo"]) for sample in bushel.open(whole, index="memory")]
    first, last = spans[0][0], sum(spans[-1])
    rng = random.Random(9)
    errors = {}
    for number in range(40):
        changed = bytearray(data)
        for _ in range(rng.choice((1, 2, 30))):
            changed[rng.randrange(first, last)] = rng.randrange(256)
        (server.folder / f"{number}.parquet").write_bytes(changed)
        try:
            remote = bushel.open(f"{server.url}/{number}.parquet")
            assert [(each["label"], each["photo"]) for each in remote.read(range(ROWS), ["label", "photo"])] == wanted
        except FormatError as error:
            errors[f"/{number}.parquet"] = str(error)
    assert len(errors) > 20
    assert not {url: text for url, text in errors.items() if url not in text}


CHUNK = Chunk(100, 900, 30, "stored", index=(5000, 60))


def _zigzag(value: int) -> bytes:
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def forged(pages: list[tuple[int, int, int]], size: int | None = None) -> bytes:
    """Return an offset index with these pages: offset, bytes, first row."""
    return b"\x19\xfc" + varint(len(pages) if size is None else size) + _listed(pages) + b"\0"


def _listed(pages: list[tuple[int, int, int]]) -> bytes:
    return b"".join(
        b"\x16" + _zigzag(offset) + b"\x15" + _zigzag(length) + b"\x16" + _zigzag(row) + b"\0"
        for offset, length, row in pages
    )


def forged_file(read: Callable[[int, int], bytes], size: int = 10_000) -> Any:
    return SimpleNamespace(read=read, size=size, path="x.parquet")


def read(data: bytes) -> Any:
    group = RowGroup(30, (replace(CHUNK, index=(5000, len(data))),))
    [[pages]] = page_index.read_starts([group], forged_file(lambda offset, length: data))
    return pages


def test_a_right_index() -> None:
    pages = read(forged([(200, 300, 0), (500, 500, 10)]))
    assert pages.offset.tolist() == [200, 500, 1000]
    assert pages.row.tolist() == [0, 10, 30]
    assert read_struct(forged([(200, 300, 0)]))[0] == {1: [{1: 200, 2: 300, 3: 0}]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (forged([]), "no pages for 30 rows"),
        (b"\0", "not a list of structs"),
        (b"\x19\x15\x02\0", "not a list of structs"),
        (forged([(200, 300, 0), (501, 499, 10)]), "do not follow each other"),
        (forged([(200, 800, 0), (1000, 0, 10)]), "do not follow each other"),
        (forged([(99, 901, 0)]), "bytes 99 to 1000, and their column bytes 100 to 1000"),
        (forged([(200, 900, 0)]), "bytes 200 to 1100"),
        (forged([(200, 700, 0)]), "bytes 200 to 900"),
        (forged([(200, 300, 1), (500, 500, 10)]), "do not ascend from 0 to 30"),
        (forged([(200, 300, 0), (500, 500, 31)]), "do not ascend from 0 to 30"),
        (forged([(200, 300, 0), (500, 300, 20), (800, 200, 10)]), "do not ascend from 0 to 30"),
        (forged([(-200, 300, 0)]), "not a count"),
        (forged([(1 << 60, 300, 0)]), "not a count"),
        (forged([(200, 300, 0)], 1 << 31), "a list of 2147483648 elements"),
        (forged([(200, 300, 0)])[:-4], "damaged offset index"),
    ],
)
def test_wrong_indexes_are_errors(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=f"{message}.*bushel index"):
        read(data)


@pytest.mark.parametrize("index", [(-1, 10), (9_999, 2), (20, -1), (1 << 50, 1)])
def test_indexes_outside_of_the_file(index: tuple[int, int]) -> None:
    group = RowGroup(30, (replace(CHUNK, index=index),))
    with pytest.raises(FormatError, match="not inside the 10000 bytes"):
        page_index.read_starts([group], forged_file(_nothing))


def test_indexes_that_are_very_large_are_not_read() -> None:
    group = RowGroup(30, (replace(CHUNK, index=(0, 1 << 30)),))
    assert page_index.read_starts([group], forged_file(_nothing, 1 << 40)) == []


def _nothing(offset: int, length: int) -> bytes:
    raise AssertionError("nothing should be read")


def test_first_rows_that_are_others_are_found_in_the_pages(server: Server) -> None:
    path, photo = server.folder / "x.parquet", 1
    written(path)
    data = bytearray(path.read_bytes())
    start, length = indexes(path)[photo]
    parsed, _ = read_struct(bytes(data[start : start + length]))
    pages = [(each[1], each[2], each[3] - (each[3] > 100)) for each in parsed[1]]
    made = forged(pages)
    data[start : start + len(made)] = made  # what is behind is not read
    path.write_bytes(data)
    remote = bushel.open(f"{server.url}/x.parquet")
    with pytest.raises(FormatError, match=r"column 'photo'.* values in a row group of"):
        remote.read(range(ROWS), ["photo"])


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("photo", lambda pages: [(at, size, row - (row > 100)) for at, size, row in pages], "page .* begins with row"),
        ("photo", lambda pages: [pages[0][:1] + (pages[0][1] + pages[1][1], 0), *pages[2:]], "which are not the"),
        ("photo", lambda pages: [(at + 1, size, row) for at, size, row in pages], "its pages take the bytes"),
        ("pages", lambda pages: [pages[0][:1] + (pages[0][1] + pages[1][1], 0), *pages[2:]], "which are not the"),
    ],
)
def test_verify_compares_the_index_with_the_pages(
    tmp_path: Path, name: str, change: Callable[[list[tuple[int, int, int]]], list[tuple[int, int, int]]], message: str
) -> None:
    path = tmp_path / "x.parquet"
    written(path)
    assert bushel.verify(path).ok
    data = bytearray(path.read_bytes())
    start, length = indexes(path)[list(columns()).index(name)]
    parsed, _ = read_struct(bytes(data[start : start + length]))
    made = forged(change([(each[1], each[2], each[3]) for each in parsed[1]]))
    assert len(made) <= length
    data[start : start + len(made)] = made
    path.write_bytes(data)
    [problem] = bushel.verify(path).problems
    assert re.search(message, str(problem)), problem
    assert len(bushel.open(path)) == ROWS  # the table does not need the index

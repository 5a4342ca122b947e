"""Lists whose fields name files: the bytes of these files are the values."""

from __future__ import annotations

import gzip
import json
import os
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN
from tests.descriptors import descriptors
from tests.storage.objects.range_server import serving

import bushel
from bushel._dataset.open.binding import with_checksums
from bushel._index import table
from bushel._index.saving import encode_index
from bushel._index.shard import Shard
from bushel.containers import get_container
from bushel.containers.base import ReadOptions
from bushel.errors import CorruptError, FormatError, SpecError
from bushel.spec import parse_spec

PHOTOS = sorted((FOREIGN / "folder" / "photos").rglob("*.jpg"))[:5]
SPEC = {"image": "jpg(path)"}
URLS = {"image": "jpg(url)"}


def photos(folder: Path) -> list[str]:
    """Copy some photos below a folder, and return their names relative to it."""
    names = []
    for number, path in enumerate(PHOTOS):
        place = folder / "img" / f"photo {number}.jpg"
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(path.read_bytes())
        names.append(f"{'./' * (number % 2)}img/photo {number}.jpg")
    return names


def listed(folder: Path, kind: str, names: Sequence[str | None]) -> Path:
    """Write a list of a kind."""
    rows = [{"label": number, "image": name} for number, name in enumerate(names)]
    path = folder / f"list.{kind}"
    if kind.startswith("jsonl"):
        data = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(data) if kind.endswith("gz") else data)
    elif kind == "csv":
        path.write_text("label,image\n" + "".join(f'{row["label"]},"{row["image"]}"\n' for row in rows))
    else:
        pa = pytest.importorskip("pyarrow")
        parquet, feather = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow.feather")
        write: Any = parquet.write_table if kind == "parquet" else feather.write_feather
        write(pa.Table.from_pylist(rows), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "jsonl.gz", "csv", "parquet", "arrow"])
def test_values_are_the_bytes_of_the_files(kind: str, tmp_path: Path) -> None:
    path = listed(tmp_path, kind, photos(tmp_path))
    dataset = bushel.open(path, spec=SPEC, index="memory")
    assert (dict(dataset.spec)["image"], len(dataset)) == ("jpg(path)", 5)
    for number, each in enumerate(dataset.read(range(5), decode=False)):
        assert (each["image"], dataset[number]["label"]) == (PHOTOS[number].read_bytes(), number)
    assert dataset[1]["image"].dtype == np.uint8
    crop = {"image": bushel.transforms.RandomResizedCrop(16)}
    batch = next(iter(bushel.Loader(dataset, 5, transforms=crop, shuffle=True, threads=1)))
    assert batch["image"].shape == (5, 16, 16, 3)


def test_a_list_that_has_an_index_without_the_files(tmp_path: Path) -> None:
    path = listed(tmp_path, "jsonl", photos(tmp_path))
    assert bushel.open(path)[0]["image"] == "img/photo 0.jpg"
    stored = bushel.open(path, spec=SPEC).read([0], decode=False)[0]["image"]
    assert stored == PHOTOS[0].read_bytes()


def test_an_index_remembers_the_files(tmp_path: Path) -> None:
    path = listed(tmp_path, "jsonl", photos(tmp_path))
    assert bushel.index(path, spec=SPEC)[2]["label"] == 2
    dataset = bushel.open(path)
    assert dataset.read([2], decode=False)[0]["image"] == PHOTOS[2].read_bytes()
    assert bushel.verify(path).ok
    (tmp_path / "img" / "photo 2.jpg").write_bytes(PHOTOS[3].read_bytes())
    assert not bushel.verify(path).ok
    assert bushel.open(path).read([2], decode=False)[0]["image"] == PHOTOS[3].read_bytes()


def test_more_files_than_may_be_open_are_indexed_and_verified(tmp_path: Path) -> None:
    photo = PHOTOS[0].read_bytes()
    names = [f"{number}.jpg" for number in range(400)]
    for name in names:
        (tmp_path / name).write_bytes(photo)
    (tmp_path / names[0]).write_bytes(photo + bytes(1 << 20))  # too large to be closed between reads
    path = listed(tmp_path, "jsonl", names)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit counts from what earlier tests of this process have open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 100, hard))
    try:
        indexed = bushel.index(path, spec=SPEC, columns="image.width", seek=True)
        verified = bushel.verify(path, decode=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(set(indexed.column("image.width").tolist())) == 1
    assert (verified.verdict, verified.samples, verified.problems) == ("ok", 400, ())


def test_more_files_than_may_be_open_do_not_stay_open_beside_fields_in_lines(tmp_path: Path) -> None:
    photo = PHOTOS[0].read_bytes()
    names = [f"{number}.jpg" for number in range(400)]
    for name in names:
        (tmp_path / name).write_bytes(photo)
    path, before = listed(tmp_path, "jsonl", names), len(descriptors())
    with bushel.open(path, spec=SPEC) as dataset:
        assert {each["image"] for each in dataset.read(range(400), decode=False)} == {photo}
        assert dataset[7]["label"] == 7
        assert len(descriptors()) <= before + 5


def test_checksums_of_many_files_are_computed_in_small_batches(tmp_path: Path) -> None:
    names = [f"{number}.jpg" for number in range(100)]
    for name in names:
        (tmp_path / name).write_bytes(bytes(1 << 19))
    path, sizes = listed(tmp_path, "jsonl", names), list[int]()
    index = bushel.open(path, spec=SPEC, index="memory").reader.shards[0].index
    with_checksums(index, table.opener(index, Shard.of(path)), report=sizes.append)
    assert sum(sizes) > 100 << 19
    assert max(sizes) <= 17 << 20


def test_a_file_that_is_replaced_while_it_is_closed_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MANY_FILES", 1)
    path = listed(tmp_path, "jsonl", photos(tmp_path))
    shard = bushel.open(path, spec=SPEC).reader.shards[0]
    open_again = table.opener(shard.index, shard.shard)
    first, second = (Path(str(shard.shard.path(number))) for number in (1, 2))
    assert open_again(1).read(0, 8) == first.read_bytes()[:8]
    assert open_again(2).read(0, 8) == second.read_bytes()[:8]
    os.utime(first, (0, 0))
    with pytest.raises(FormatError, match="has changed") as refused:
        open_again(1).read(0, 8)
    assert refused.value.file == str(first)


def test_bytes_that_changed_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = listed(tmp_path, "jsonl", photos(tmp_path))
    bushel.index(path, spec=SPEC)
    changed = tmp_path / "img" / "photo 2.jpg"
    changed.write_bytes(changed.read_bytes() + b"\0")
    with pytest.raises(CorruptError, match="sample 2, field 'image'") as refused:
        bushel.index(path, spec=SPEC)
    assert refused.value.file == str(changed)


def test_converting_copies_the_bytes(tmp_path: Path) -> None:
    path = listed(tmp_path, "csv", photos(tmp_path))
    bushel.convert(bushel.open(path, spec=SPEC, index="memory"), tmp_path / "out.tar")
    dataset = bushel.open(tmp_path / "out.tar")
    assert [each["image"] for each in dataset.read(range(5), decode=False)] == [each.read_bytes() for each in PHOTOS]


def test_missing_values_and_a_file_that_several_name(tmp_path: Path) -> None:
    names = photos(tmp_path)
    path = listed(tmp_path, "jsonl", [names[0], None, names[0], names[1]])
    read = bushel.open(path, spec=SPEC, index="memory").read(range(4), decode=False)
    assert [each.get("image") for each in read] == [
        PHOTOS[0].read_bytes(),
        None,
        PHOTOS[0].read_bytes(),
        PHOTOS[1].read_bytes(),
    ]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../x.jpg", "not the name of a file in this folder"),
        ("/etc/hostname", "not the name of a file in this folder"),
        ("img/gone.jpg", "names files that cannot be found: 'img/gone.jpg' of sample 1"),
        ("img", "cannot be found"),
        ("https://example.com/x.jpg", "is a URL"),
        ("", "not the name of a file"),
    ],
)
def test_names_that_are_refused(name: str, message: str, tmp_path: Path) -> None:
    path = listed(tmp_path, "jsonl", [photos(tmp_path)[0], name])
    with pytest.raises(FormatError, match=message):
        bushel.open(path, spec=SPEC, index="memory")


def test_fields_that_hold_no_names(tmp_path: Path) -> None:
    path = listed(tmp_path, "jsonl", list(photos(tmp_path)))
    with pytest.raises(SpecError, match="only a single name"):
        bushel.open(path, spec={"image": "jpg(path)[]"}, index="memory")


def test_urls_are_read_if_the_caller_allows_it(tmp_path: Path) -> None:
    names = photos(tmp_path)
    (served := tmp_path / "served").mkdir()
    (served / "a b.jpg").write_bytes(PHOTOS[3].read_bytes())
    with serving(served) as server:
        url = f"{server.url}/a%20b.jpg"
        path = listed(tmp_path, "jsonl", [names[0], url, None, url])
        with pytest.raises(FormatError, match=r"URLs are read if you allow it: spec=\{'image': 'jpg\(url\)'\}"):
            bushel.open(path, spec=SPEC, index="memory")
        assert server.asked == []
        dataset = bushel.open(path, spec=URLS)
        assert not (tmp_path / ".bushel" / "list.jsonl.safetensors").exists()
        assert [method for method, *_ in server.asked] == ["HEAD"]
        read = dataset.read(range(4), decode=False)
        wanted = [PHOTOS[0].read_bytes(), PHOTOS[3].read_bytes(), None, PHOTOS[3].read_bytes()]
        assert [each.get("image") for each in read] == wanted
        assert dataset[1]["image"].shape == dataset[3]["image"].shape
        crop = {"image": bushel.transforms.RandomResizedCrop(16)}
        whole = dataset[[0, 1, 3]]
        for processes in (0, 1):
            batch = next(iter(bushel.Loader(whole, 3, transforms=crop, threads=1, processes=processes)))
            assert batch["image"].shape == (3, 16, 16, 3)
        bushel.convert(whole, tmp_path / "out.tar")
        assert bushel.open(tmp_path / "out.tar").spec == {"image": "jpg", "label": "int"}
        copied = bushel.open(tmp_path / "out.tar").read(range(3), decode=False)
        assert [each["image"] for each in copied] == [each for each in wanted if each]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{url}/gone.jpg", "cannot be found: 'http.*gone.jpg' of sample 1"),
        ("file:///etc/hostname", "not the name of a file in this folder"),
        ("/etc/hostname", "not the name of a file in this folder"),
        ("../x.jpg", "not the name of a file in this folder"),
        ("pipe:cat /etc/hostname", "cannot be found"),
    ],
)
def test_other_names_are_refused_where_urls_are_allowed(name: str, message: str, tmp_path: Path) -> None:
    (served := tmp_path / "served").mkdir()
    with serving(served) as server:
        path = listed(tmp_path, "jsonl", [photos(tmp_path)[0], name.format(url=server.url)])
        with pytest.raises(FormatError, match=message):
            bushel.open(path, spec=URLS, index="memory")


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_lists_on_servers(kind: str, tmp_path: Path) -> None:
    listed(tmp_path, kind, photos(tmp_path))
    with serving(tmp_path) as server:
        dataset = bushel.open(f"{server.url}/list.{kind}", spec=SPEC)
        read = dataset.read(range(5), decode=False)
    assert [each["image"] for each in read] == [each.read_bytes() for each in PHOTOS]


def test_an_index_does_not_keep_urls(tmp_path: Path) -> None:
    (served := tmp_path / "served").mkdir()
    (served / "one.jpg").write_bytes(PHOTOS[0].read_bytes())
    with serving(served) as server:
        path = listed(tmp_path, "jsonl", [f"{server.url}/one.jpg"])
        with pytest.raises(
            SpecError, match=r"an index does not keep URLs: .*bushel\.open\(…, spec=\{'image': 'jpg\(url\)'\}"
        ):
            bushel.index(path, spec=URLS)
        bushel.index(path)
        server.asked.clear()
        assert bushel.open(path)[0]["image"].startswith("http")
        assert bushel.open(path, spec=URLS).read([0], decode=False)[0]["image"] == PHOTOS[0].read_bytes()


def test_a_forged_index_does_not_make_requests(tmp_path: Path) -> None:
    (served := tmp_path / "served").mkdir()
    (served / "one.jpg").write_bytes(PHOTOS[0].read_bytes())
    with serving(served) as server:
        path = listed(tmp_path, "jsonl", [f"{server.url}/one.jpg"])
        shard = Shard(tmp_path, path.name, (path.name,))
        forged = encode_index(get_container("jsonl").index(shard, ReadOptions(spec=parse_spec(URLS))))
        (tmp_path / ".bushel").mkdir()
        (tmp_path / ".bushel" / "list.jsonl.safetensors").write_bytes(forged)
        server.asked.clear()
        assert bushel.open(path).read([0], decode=False)[0]["image"].startswith(b"http")
        bushel.verify(path)
        assert server.asked == []


@pytest.mark.parametrize("name", ["../x.jpg", "/etc/passwd", "", "a/../../x.jpg"])
def test_a_name_that_leads_out_is_an_error_that_names_the_sample(name: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [{"image": "1.jpg"}, {"image": name}]
    (tmp_path / "in/rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "in/1.jpg").write_bytes(b"x")
    with pytest.raises(FormatError, match=r"rows\.jsonl: field 'image' of sample 1: .* is not the name of a file"):
        bushel.open(tmp_path / "in/rows.jsonl", spec={"image": "jpg(path)"})

"""Joins by a field of lists: JSON lines whose samples name several files of a tar, a zip or a folder."""

from __future__ import annotations

import io
import json
import logging
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests._dataset.views.scattered import scattered
from tests.storage.objects.range_server import serving
from tests.viewer.serving import client_of

import bushel
from bushel._dataset.views.dataset import Dataset
from bushel.errors import CorruptError, SpecError

LISTS: list[Any] = [
    ["d/a.jpg", "./d/f.jpg", "d/c.jpg"],
    [],
    None,
    ["d/b.jpg", "d/nowhere.jpg"],
    ["d/a.jpg", "d/a"],
    "d/e.jpg",
]
NAMED: list[str | None] = ["afc", "", None, None, "aa", "e"]
"""The names of the files of the samples that a join has; None for those that it leaves out."""


def jpeg(name: str) -> bytes:
    """The photo of a name: one that no other name has."""
    pixels = np.full((16, 8 + ord(name) - ord("a"), 3), 20 * (ord(name) - ord("a")), np.uint8)
    target = io.BytesIO()
    Image.fromarray(pixels).save(target, "JPEG")
    return target.getvalue()


def lines(folder: Path, lists: list[Any] = LISTS) -> Dataset:
    """Lines of JSON with these lists; a sample whose list is None has none."""
    rows = [{"id": row} | ({} if own is None else {"images": own}) for row, own in enumerate(lists)]
    path = folder / f"lines-{len(list(folder.iterdir()))}" / "lines.jsonl"
    path.parent.mkdir()
    path.write_text("\n".join(map(json.dumps, rows)))
    return bushel.open(path)


def tars(folder: Path, samples: list[str]) -> str:
    for number, names in enumerate(samples):
        with tarfile.open(folder / f"photos-{number}.tar", "w") as tar:
            for name in names:
                for end, data in (("jpg", jpeg(name)), ("cls", str(ord(name)).encode())):
                    member = tarfile.TarInfo(f"d/{name}.{end}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return str(folder / "photos-*.tar")


@pytest.fixture(params=["tar", "zip", "deflated", "folder", "blocks", "remote", "bag"])
def photos(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Photos in a container."""
    if request.param in ("zip", "deflated"):
        with zipfile.ZipFile(tmp_path / "photos.zip", "w", zipfile.ZIP_DEFLATED * (request.param != "zip")) as archive:
            for name in "abcdef":
                archive.writestr(f"d/{name}.jpg", jpeg(name))
        yield bushel.open(tmp_path / "photos.zip")
    elif request.param == "folder":
        (tmp_path / "photos" / "d").mkdir(parents=True)
        for name in "abcdef":
            (tmp_path / "photos" / "d" / f"{name}.jpg").write_bytes(jpeg(name))
        found = bushel.open(tmp_path / "photos")
        [field] = [name for name, kind in found.spec.items() if kind == "jpg"]
        found = found.select_fields([field])
        yield found
    else:
        opened = bushel.open(tars(tmp_path, ["ab", "cd", "ef"]))
        if request.param == "bag":
            bushel.convert(opened, tmp_path / "bag", container="bag")
            opened = bushel.open(tmp_path / "bag")
        if request.param == "remote":
            with serving(tmp_path) as base:
                yield bushel.open([f"{base.url}/photos-{number}.tar" for number in range(3)])
        else:
            yield scattered(opened, tmp_path / "blocks", 1) if request.param == "blocks" else opened


def field_of(photos: Dataset) -> str:
    return next(name for name, kind in photos.spec.items() if kind == "jpg")


def check(joined: Dataset, field: str, ids: list[int]) -> None:
    """Compare the samples of a join with the photos that they name."""
    assert joined.spec[field] == "jpg[]"
    assert [sample["id"] for sample in joined] == ids
    for own in (list(joined), joined.read(range(len(joined))), [joined[at] for at in range(len(joined))]):
        for sample in own:
            names = NAMED[sample["id"]]
            assert (field in sample) == (names is not None)
            if names is not None:
                sizes = [image.shape[1] for image in sample[field]]
                assert sizes == [8 + ord(name) - ord("a") for name in names]
    stored = joined.read(range(len(joined)), [field], decode=False)
    assert [[bytes(one) for one in sample.get(field, ())] for sample in stored] == [
        list(map(jpeg, NAMED[row] or "")) for row in ids
    ]


@pytest.mark.parametrize("how", ["inner", "left"])
def test_lists_of_photos(photos: Dataset, tmp_path: Path, how: Any) -> None:
    joined = bushel.join(lines(tmp_path), photos, on="images", how=how)
    field = field_of(photos)
    check(joined, field, [0, 1, 4, 5] if how == "inner" else list(range(6)))
    check(pickle.loads(pickle.dumps(joined)), field, [0, 1, 4, 5] if how == "inner" else list(range(6)))
    [found] = joined.info.joins
    assert (found.matched, found.lone, found.missing_names) == (4, (2, 1), 1)
    assert found.examples == (("d/nowhere.jpg",), (photos.keys[3],))
    few = joined[0, {field: slice(1, 3)}][field]
    assert [image.shape[1] for image in few] == [13, 10]
    assert [len(found) for found in joined.where("id == 4").read([0])[0][field]] == [16, 16]


def test_misses_are_counted_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    photos = bushel.open(tars(tmp_path, ["ab", "cd", "ef"]))
    caplog.set_level(logging.INFO, "bushel")
    lists = [["d/a", "x1", "x2"], ["x3", "x4"], ["d/b"]]
    joined = bushel.join(lines(tmp_path, lists), photos, on="images")
    said = "joined by images: no match for 2 of the first dataset (4 missing names: 'x1', 'x2', 'x3', …)"
    assert said in repr(joined)
    assert said in caplog.text
    few = bushel.join(lines(tmp_path, [None, ["d/a"]]), photos, on="images")
    assert few.info.joins[0].examples[0] == ("0",)
    none = bushel.join(lines(tmp_path, [["x1"]]), photos, on="images")
    assert len(none) == 0


def test_a_list_of_which_a_sample_lacks_the_field_is_missing(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "some", {"image": "jpg", "cls": "int"}, container="tar") as writer:
        writer.append({"image": jpeg("a"), "cls": 1}, key="d/a")
        writer.append({"image": jpeg("b")}, key="d/b")
    own = lines(tmp_path, [["d/a", "d/b"], ["d/b"], ["d/a"]])
    joined = bushel.join(own, bushel.open(tmp_path / "some"), on="images")
    assert [len(sample["image"]) for sample in joined] == [2, 1, 1]
    assert [sample.get("cls") for sample in joined] == [None, None, [1]]
    assert not joined.available(0).get("cls")


def test_lists_of_values_in_two_containers(tmp_path: Path) -> None:
    for container, first in (("tar", 0), ("bag", 3)):
        with bushel.Writer(tmp_path / container, {"text": "utf8"}, container=container) as writer:
            for number in range(first, first + 3):
                writer.append({"text": f"text {number}"}, key=f"k{number}")
    texts = bushel.concat([bushel.open(tmp_path / "tar"), bushel.open(tmp_path / "bag")])
    joined = bushel.join(lines(tmp_path, [["k4", "k1"], ["k2"]]), texts, on="images")
    assert [sample["text"] for sample in joined] == [["text 4", "text 1"], ["text 2"]]


def test_join_is_loaded_resumed_converted_and_checked(tmp_path: Path) -> None:
    photos = bushel.open(tars(tmp_path, ["ab", "cd", "ef"]))
    lists = [["d/a", "d/f"], ["d/c", "d/e"], ["d/b", "d/d"], ["d/a", "d/a"]] * 3
    joined = bushel.join(lines(tmp_path, lists), photos, on="images")

    def loader(**options: Any) -> bushel.Loader:
        return bushel.Loader(joined, 2, shuffle=True, seed=3, fields=["id", "cls", "jpg"], **options)

    whole = list(loader())
    for batch in whole:
        for row, labels, images in zip(batch["id"], batch["cls"], batch["jpg"], strict=True):
            assert [f"d/{chr(label)}" for label in labels] == lists[row]
            assert [image.shape[1] for image in images] == [8 + label - ord("a") for label in labels]
    first, second = loader(), loader(processes=1)
    iterated = iter(first)
    next(iterated)
    second.load_state_dict(first.state_dict())
    rest = list(second)
    assert [batch["id"].tolist() for batch in rest] == [batch["id"].tolist() for batch in whole[1:]]
    bushel.convert(joined, tmp_path / "written", container="bag")
    written = bushel.open(tmp_path / "written")
    for one, same in zip(joined, written, strict=True):
        assert one["cls"] == same["cls"]
        assert all(map(np.array_equal, one["jpg"], same["jpg"]))
    windows = joined.windows("jpg", 1)
    assert len(windows) == 24
    assert windows[1]["jpg"][0].shape[1] == 13
    other = bushel.join(lines(tmp_path, lists[::-1]), photos, on="images")
    assert joined.fingerprint != other.fingerprint


def test_checksums_of_joined_lists_are_compared(tmp_path: Path) -> None:
    pattern = tars(tmp_path, ["ab", "cd", "ef"])
    bushel.index(tmp_path)
    data = bytearray((tmp_path / "photos-2.tar").read_bytes())
    at = data.index(b"\xff\xd8", 1000)  # the second photo, f
    data[at + 30] ^= 1
    times = (tmp_path / "photos-2.tar").stat()
    (tmp_path / "photos-2.tar").write_bytes(data)

    os.utime(tmp_path / "photos-2.tar", ns=(times.st_atime_ns, times.st_mtime_ns))
    photos = bushel.open(pattern, verify=True)
    joined = bushel.join(lines(tmp_path, [["d/a", "d/b"], ["d/a", "d/f"]]), photos, on="images")
    assert len(joined[0]["jpg"]) == 2
    with pytest.raises(CorruptError, match=r"photos-2\.tar"):
        joined[1]


def test_what_cannot_be_joined_in_lists(tmp_path: Path) -> None:
    photos = bushel.open(tars(tmp_path, ["ab", "cd"]))
    own = lines(tmp_path, [["d/a"], ["d/b"]])
    lists = bushel.join(own, photos, on="images")
    with pytest.raises(SpecError, match=r"'jpg' of the dataset that is joined is a sequence itself"):
        bushel.join(lines(tmp_path, [["0"], ["1"]]), lists.select_fields(["jpg"]), on=("images", "__key__"))
    with pytest.raises(ValueError, match="holds lists: give that dataset first"):
        bushel.join(photos, own, on="images")
    with pytest.raises(TypeError, match="names of samples are texts or whole numbers"):
        bushel.join(lines(tmp_path, [["d/a", 0.5]]), photos, on="images")


def test_the_viewer_shows_lists(tmp_path: Path) -> None:
    photos = bushel.open(tars(tmp_path, ["ab", "cd"]))
    joined = bushel.join(lines(tmp_path, [["d/a", "d/c"], [], None]), photos, on="images", how="left")
    with client_of(joined) as client:
        for page in ("/", "/d/0/shards", "/d/0/s/0", "/d/0/s/1", "/d/0/s/2"):
            assert client.get(page).status_code == 200, page
        assert str(tmp_path / "photos-1.tar") in client.get("/d/0/s/0").text


def test_lists_of_texts_in_parquet(tmp_path: Path) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    photos = bushel.open(tars(tmp_path, ["ab", "cd"]))
    pq.write_table(pa.table({"images": [["d/a.jpg", "d/d.jpg"], [], None]}), tmp_path / "rows.parquet")
    joined = bushel.join(bushel.open(tmp_path / "rows.parquet"), photos, on="images")
    assert [[image.shape[1] for image in sample["jpg"]] for sample in joined][0] == [8, 11]

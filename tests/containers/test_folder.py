"""Plain files of a folder, in place."""

from __future__ import annotations

import resource
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.containers.read_in_place import FOREIGN, check_expected, expected
from tests.descriptors import descriptors

import bushel
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError
from bushel.storage.fileobject import SmallFile
from bushel.testing import READABLE_CHECKS, Golden, Readable

PHOTOS = FOREIGN / "folder" / "photos"


def photo(path: Path, level: int) -> bytes:
    """Write a small photo, and return its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = bytes(get_codec("jpg").encode(np.full((8, 8, 3), level, np.uint8)))
    path.write_bytes(data)
    return data


def test_a_tree_of_classes(tmp_path: Path) -> None:
    shutil.copytree(FOREIGN / "folder", tmp_path / "folder")
    check_expected("folder", tmp_path / "folder")


@pytest.mark.parametrize("check", READABLE_CHECKS)
def test_suite(check: str, tmp_path: Path) -> None:
    wanted, decode = expected("folder")["samples"], get_codec("jpg").decode
    samples = [
        {"image": decode((PHOTOS / f"{each['key']}.jpg").read_bytes()), "label": each["values"]["label"]}
        for each in wanted
    ]
    READABLE_CHECKS[check](Readable("folder", Golden(PHOTOS, samples, [each["key"] for each in wanted]), tmp_path))


def test_classes_are_a_column_without_an_index(tmp_path: Path) -> None:
    for number in range(12):
        photo(tmp_path / f"n0{number % 3}" / f"{number}.jpg", number)
    ds = bushel.open(tmp_path)
    assert list(ds.where("label == 'n01'").keys) == ["n01/1", "n01/10", "n01/4", "n01/7"]
    assert len(ds.where("label in ('n00', 'n02')")) == len(ds.where("label != 'n01'")) == 8
    parts = ds.split(train=0.75, val=0.25, stratify="label", seed=0)
    assert sorted(parts["val"].column("label").tolist()) == [0, 1, 2]
    assert len(bushel.Loader(ds, 4, balance="label").peek()["label"]) == 4


def test_files_that_share_a_name(tmp_path: Path) -> None:
    data = photo(tmp_path / "a" / "1.jpg", 10)
    photo(tmp_path / "a" / "2.jpg", 20)
    photo(tmp_path / "a" / "3.jpg", 30)
    (tmp_path / "a" / "1.txt").write_text("one")
    for number in (1, 3):
        (tmp_path / "a" / f"{number}.seg.json").write_text('{"x": 1}')
    ds = bushel.open(tmp_path, spec={"txt": "utf8"})
    assert ds.spec == {"jpg": "jpg", "seg.json": "json", "txt": "utf8"}
    assert list(ds.keys) == ["a/1", "a/2", "a/3"]
    assert (ds["a/1"]["txt"], ds[0]["seg.json"]) == ("one", {"x": 1})
    assert ds.read([0], ["jpg"], decode=False)[0]["jpg"] == data
    assert set(ds[1]) == {"__key__", "jpg"}


def test_photos_of_several_kinds_and_hidden_files(tmp_path: Path) -> None:
    photo(tmp_path / "b.jpg", 1)
    (tmp_path / "a.png").write_bytes(bytes(get_codec("png").encode(np.zeros((4, 5, 3), np.uint8))))
    (tmp_path / ".DS_Store").write_bytes(b"\0")
    (tmp_path / ".cache").mkdir()
    photo(tmp_path / ".cache" / "c.jpg", 1)
    (tmp_path / "classes.txt").write_text("x")
    ds = bushel.open(tmp_path)
    assert (ds.spec, list(ds.keys), ds[0]["image"].shape) == ({"image": "image"}, ["a", "b"], (4, 5, 3))


def test_files_that_are_no_media_are_passed_over_and_counted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    root = tmp_path / "photos"
    for number, name in enumerate(("cat/a.jpg", "cat/b.jpg", "dog/c.jpg")):
        photo(root / name, number)
    for name in ("README.md", "LICENSE", "dog/notes.txt", "dog/more.txt"):
        (root / name).write_text("not a photo")
    ds = bushel.open(root)
    assert (len(ds), ds.spec, ds.labels["label"]) == (3, {"image": "jpg", "label": "int"}, ("cat", "dog"))
    assert [sample["label"] for sample in ds.read([0, 1, 2])] == [0, 0, 1]
    [line] = [record.getMessage() for record in caplog.records]
    assert "2 classes, 3 images; left out: 4 files (2 .txt, 1 .md, 1 no extension); spec={'md': TYPE}" in line
    assert bushel.verify(root).ok
    declared = bushel.open(root, spec={"txt": "utf8"})
    assert declared["dog/notes"]["txt"] == "not a photo"
    (root / "cat/a.txt").write_text("a caption")  # of one sample of three
    assert set(bushel.open(root).spec) == {"image", "label"}
    (root / "cat/b.txt").write_text("a caption")
    assert set(bushel.open(root).spec) == {"jpg", "txt"}


def test_a_folder_without_media_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(bushel.errors.FormatError, match="does not belong to any container"):
        bushel.open(tmp_path)


def test_other_containers_come_first(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "out", {"x": "int"}, container="tar") as writer:
        writer.append({"x": 1})
    photo(tmp_path / "out" / "preview.jpg", 1)
    assert bushel.open(tmp_path / "out").info.container == "tar"


def test_a_photo_that_changes_is_an_error(tmp_path: Path) -> None:
    photo(tmp_path / "a" / "1.jpg", 1)
    photo(tmp_path / "b" / "2.jpg", 2)
    ds = bushel.open(tmp_path)
    (tmp_path / "b" / "2.jpg").write_bytes(b"short")
    assert ds[0]["label"] == 0
    with pytest.raises(bushel.errors.FormatError, match="has changed since"):
        ds[1]


def test_more_files_than_may_be_open(tmp_path: Path) -> None:
    wanted = [photo(tmp_path / "a" / f"{number:04d}.jpg", number % 200) for number in range(300)]
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The limit counts from what earlier tests of this process have open.
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(number for number, _ in descriptors()) + 100, hard))
    try:
        read = bushel.open(tmp_path).read(range(300), ["image"], decode=False)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [each["image"] for each in read] == wanted


def test_many_small_files_are_read_without_an_object_for_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = [photo(tmp_path / "a" / f"{number:04d}.jpg", number % 200) for number in range(300)]
    ds = bushel.open(tmp_path)
    made: list[str] = []

    def recorded(path: str, *rest: object) -> SmallFile:
        made.append(path)
        return SmallFile(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("bushel.storage.fileobject.SmallFile", recorded)
    positions = np.random.default_rng(0).integers(0, 300, 500)
    assert [each["image"] for each in ds.read(positions, ["image"], decode=False)] == [wanted[at] for at in positions]
    assert made == []
    (tmp_path / "a" / "0123.jpg").write_bytes(b"short")
    with pytest.raises(bushel.errors.FormatError, match=r"0123\.jpg.*has changed since"):
        ds.read([122, 123, 124], ["image"], decode=False)
    assert [each["image"] for each in ds.read([122, 124], ["image"], decode=False)] == [wanted[122], wanted[124]]


class TestMetadata:
    """`metadata.csv`, `metadata.jsonl` and `metadata.parquet` of Hugging Face's imagefolder."""

    def photos(self, folder: Path, *names: str) -> dict[str, bytes]:
        return {name: photo(folder / name, 10 * number) for number, name in enumerate(names)}

    def test_csv(self, tmp_path: Path) -> None:
        photos = self.photos(tmp_path, "b.jpg", "a.jpg", "sub/c.jpg")
        text = (
            'file_name,text,stars,score,note\nb.jpg,"two\nlines",3,1,x\nsub/c.jpg,"say ""hi""",,2.5,\na.jpg,3,1,1e3,y\n'
        )
        (tmp_path / "metadata.csv").write_text(text, newline="")
        ds = bushel.open(tmp_path)
        assert ds.spec == {"image": "jpg", "text": "utf8", "stars": "int", "score": "float", "note": "utf8"}
        assert list(ds.keys) == ["b", "sub/c", "a"]
        assert [bytes(each["image"]) for each in ds.read(range(3), ["image"], decode=False)] == [
            photos["b.jpg"],
            photos["sub/c.jpg"],
            photos["a.jpg"],
        ]
        shown = [{name: sample[name] for name in sample if name not in ("image", "__key__")} for sample in ds]
        assert shown == [
            {"text": "two\nlines", "stars": 3, "score": 1.0, "note": "x"},
            {"text": 'say "hi"', "score": 2.5, "note": ""},
            {"text": "3", "stars": 1, "score": 1000.0, "note": "y"},
        ]
        assert list(ds.where("score > 2").keys) == ["sub/c", "a"]
        batch = next(iter(bushel.Loader(ds, 3, fields=["image", "score"])))
        assert (batch["image"].shape, batch["score"].tolist()) == ((3, 8, 8, 3), [1.0, 2.5, 1000.0])

    def test_json_lines_of_several_folders(self, tmp_path: Path) -> None:
        self.photos(tmp_path, "x/1.png.jpg", "y/1.jpg", "y/2.jpg")
        (tmp_path / "x/metadata.jsonl").write_text('{"file_name": "1.png.jpg", "boxes": [[1, 2, 3, 4]], "ok": true}\n')
        (tmp_path / "y/metadata.jsonl").write_text('{"file_name": "2.jpg", "boxes": null}\n\n{"file_name": "1.jpg"}')
        ds = bushel.open(tmp_path)
        assert list(ds.keys) == ["x/1.png", "y/2", "y/1"]
        assert (ds[0]["boxes"], ds[0]["ok"], set(ds[1])) == ([[1, 2, 3, 4]], True, {"__key__", "image"})

    def test_parquet_beside_the_files_it_names(self, tmp_path: Path) -> None:
        pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        self.photos(tmp_path, "1.jpg", "sub/2.jpg")
        rows = [{"file_name": "sub/2.jpg", "n": 5}, {"file_name": "1.jpg", "n": None}]
        parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "metadata.parquet")
        ds = bushel.open(tmp_path)
        assert (ds.spec, list(ds.keys), ds[0]["n"], "n" in ds[1]) == (
            {"image": "jpg", "n": "int"},
            ["sub/2", "1"],
            5,
            0,
        )
        alone = tmp_path / "alone"
        alone.mkdir()
        (tmp_path / "metadata.parquet").rename(alone / "metadata.parquet")
        (alone / "README.md").write_text("rows")
        assert bushel.open(alone).info.container == "parquet"

    def test_two_tables_for_one_folder_are_refused(self, tmp_path: Path) -> None:
        self.photos(tmp_path, "x/1.jpg")
        (tmp_path / "x/metadata.csv").write_text("file_name,n\n1.jpg,1\n")
        (tmp_path / "x/metadata.jsonl").write_text('{"file_name": "1.jpg"}')
        with pytest.raises(
            bushel.errors.FormatError, match=r"a folder has x/metadata\.csv and x/metadata\.jsonl.*two samples"
        ):
            bushel.open(tmp_path)

    @pytest.mark.parametrize("cell", ["007", "+1", "1_000", "nan", "inf", "0x10", ".5", "1e400"])
    def test_texts_that_json_would_not_call_numbers_stay_texts(self, tmp_path: Path, cell: str) -> None:
        self.photos(tmp_path, "1.jpg", "2.jpg")
        (tmp_path / "metadata.csv").write_text(f"file_name,n\n1.jpg,{cell}\n2.jpg,1\n")
        assert [sample["n"] for sample in bushel.open(tmp_path)] == [cell, "1"]

    def test_large_integers_among_real_numbers_are_exact(self, tmp_path: Path) -> None:
        large = (1 << 60) + 1
        self.photos(tmp_path, "1.jpg", "2.jpg")
        (tmp_path / "metadata.csv").write_text(f"file_name,n\n1.jpg,{large}\n2.jpg,1.5\n")
        assert [sample["n"] for sample in bushel.open(tmp_path)] == [str(large), "1.5"]
        (tmp_path / "metadata.csv").unlink()
        (tmp_path / "metadata.jsonl").write_text(
            f'{{"file_name": "1.jpg", "n": {large}}}\n{{"file_name": "2.jpg", "n": 1.5}}'
        )
        assert [sample["n"] for sample in bushel.open(tmp_path)] == [large, 1.5]

    def test_files_without_a_row_are_reported(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        self.photos(tmp_path, "1.jpg", "2.jpg", "3.jpg")
        (tmp_path / "metadata.csv").write_text("file_name,n\n2.jpg,1\n")
        assert len(bushel.open(tmp_path)) == 1
        assert "1 image; left out: 2 files (2 without a row)" in caplog.text

    def test_a_table_in_another_encoding_is_refused_with_the_tool_that_converts_it(self, tmp_path: Path) -> None:
        self.photos(tmp_path, "1.jpg")
        (tmp_path / "metadata.csv").write_text("file_name,n\n1.jpg,1\n", "utf-16")
        with pytest.raises(FormatError, match=r"not a CSV file.*iconv"):
            bushel.open(tmp_path)

    @pytest.mark.parametrize(
        ("name", "text", "message"),
        [
            ("metadata.csv", "file,n\n1.jpg,1\n", "names the columns"),
            ("metadata.csv", "file_name,n\n1.jpg\n", "row 0 does not have 2 values"),
            ("metadata.csv", "file_name,n\n1.jpg,1,2\n", "row 0 does not have 2 values"),
            ("metadata.csv", 'file_name,n\n1.jpg,"1\n', "not a CSV file"),
            ("metadata.csv", "file_name,n\n../1.jpg,1\n", "not the name of a file"),
            ("metadata.csv", "file_name,n\n9.jpg,1\n", "name '9.jpg', which does not exist"),
            (
                "metadata.csv",
                "file_name,n\n1.JPG,1\n",
                r"name '1.JPG', which does not exist \(names differ in capital letters",
            ),
            ("metadata.csv", "0|a text, and more\n", "file_name and others .*give the table another name"),
            ("metadata.csv", "file_name,image\n1.jpg,1\n", "have a column 'image'"),
            ("metadata.csv", "file_name,n\n1.jpg,1\nn.txt,2\n", "of several kinds"),
            ("metadata.jsonl", '{"file_name": "1.jpg"}\n{"file', "line 2 is not JSON"),
            ("metadata.jsonl", "[1]\n", "line 1 is not an object"),
            ("metadata.jsonl", '{"n": 1}\n', "row 0 has the file_name None"),
            (
                "metadata.jsonl",
                '{"a_file_name": "1.jpg"}\n',
                r"spec={'a_file_name': 'image\(path\)'}\) reads the files",
            ),
            ("metadata.csv", "file_names,n\n1.jpg,1\n", "move the table to another folder, and bushel.join it"),
            ("metadata.jsonl", "[" * 100000, "line 1 is not JSON"),
        ],
    )
    def test_damage(self, tmp_path: Path, name: str, text: str, message: str) -> None:
        self.photos(tmp_path, "1.jpg")
        (tmp_path / "n.txt").write_text("text")
        (tmp_path / name).write_text(text)
        with pytest.raises(FormatError, match=message) as found:
            bushel.open(tmp_path)
        assert name in str(found.value)

    def test_a_column_that_cannot_be_stored(self, tmp_path: Path) -> None:
        self.photos(tmp_path, "1.jpg")
        (tmp_path / "metadata.jsonl").write_text('{"file_name": "1.jpg", "n": 123456789012345678901234567890}\n')
        ds = bushel.open(tmp_path)
        assert ds[0]["n"] == 123456789012345678901234567890


def test_many_small_files_are_opened_for_each_read(tmp_path: Path) -> None:
    photos = {
        f"{number % 7}/{number:05}": photo(tmp_path / f"{number % 7}/{number:05}.jpg", number % 256)
        for number in range(300)
    }
    ds = bushel.open(tmp_path)
    before = len(list(Path("/proc/self/fd").iterdir()))
    found = ds.read(range(len(ds)), ["image"], decode=False)
    assert {sample["__key__"]: bytes(sample["image"]) for sample in found} == photos
    assert ds["3/00010"]["image"].shape == (8, 8, 3)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before  # what earlier tests left may be closed in the meantime
    (tmp_path / "3/00010.jpg").write_bytes(b"x" * 5)
    with pytest.raises(
        FormatError, match=r"00010\.jpg: the file has changed since .* opened: it had [0-9]+ bytes, and has 5"
    ):
        ds.read([ds.position("3/00010")])
    (tmp_path / "3/00003.jpg").touch()
    with pytest.raises(FormatError, match=r"00003\.jpg: .* it was written again, with as many bytes"):
        ds.read([ds.position("3/00003")])
    (tmp_path / "0/00000.jpg").unlink()
    with pytest.raises(FileNotFoundError, match=r"00000\.jpg"):
        ds.read([ds.position("0/00000")])


def test_an_error_names_the_empty_file(tmp_path: Path) -> None:
    for name in "ad":
        photo(tmp_path / f"{name}.jpg", 9)
    for name in "bce":
        (tmp_path / f"{name}.jpg").touch()
    dataset = bushel.open(tmp_path)
    for position, name in ((1, "b"), (2, "c"), (4, "e")):
        with pytest.raises(bushel.errors.CodecError, match=f"/{name}.jpg@0"):
            dataset[name]
        assert dataset.location(position, "image") == (f"{tmp_path}/{name}.jpg", 0)


def test_a_link_to_a_folder_above_is_an_error_that_names_it(tmp_path: Path) -> None:
    photo(tmp_path / "cat/1.jpg", 1)
    (tmp_path / "cat/loop").symlink_to("..")
    with pytest.raises(bushel.errors.FormatError, match="cat/loop: a symbolic link to a folder that contains it"):
        bushel.open(tmp_path)
    (tmp_path / "cat/loop").unlink()
    (tmp_path / "dog").symlink_to("cat")
    assert list(bushel.open(tmp_path).keys) == ["cat/1", "dog/1"]


def test_a_declared_type_reads_what_the_files_hold_or_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "root"
    photo(root / "a.jpg", 5)
    (root / "a.txt").write_text("7")
    np.save(root / "a.npy", np.arange(3))
    assert bushel.open(root, spec={"txt": "int"})[0]["txt"] == 7
    assert bushel.open(root, spec={"txt": "float"})[0]["txt"] == 7.0
    assert bushel.open(root, spec={"jpg": "image"})[0]["jpg"].shape == (8, 8, 3)
    with pytest.raises(SpecError, match=r"'jpg' of .* is stored as jpg, and cannot be read as int"):
        bushel.open(root, spec={"jpg": "int"})
    with pytest.raises(SpecError, match=r"'npy' of .* is stored as npy, and cannot be read as array\(float64,-1\)"):
        bushel.open(root, spec={"npy": "array(float64,-1)"})

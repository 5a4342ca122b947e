from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.folders import image_folder, jpeg, png

from bushel.sources import Files, LabelledFolder
from bushel.sources.base import extend_labels
from bushel.sources.files import walk
from bushel.testing import check_source


class TestLabelledFolder:
    def test_classes_are_folders_and_keys_are_paths(self, tmp_path: Path) -> None:
        source = LabelledFolder(image_folder(tmp_path, 4, classes=2))
        check_source(source)
        assert source.spec == {"image": "jpg", "label": "int"}
        assert source.labels == {"label": ("class0", "class1")}
        keys = ["class0/0000", "class0/0002", "class1/0001", "class1/0003"]
        assert [source[at]["__key__"] for at in range(4)] == keys
        assert source[2] == {"__key__": "class1/0001", "image": jpeg(1), "label": 1}
        assert source.origin(2) == str(tmp_path / "class1/0001.jpg")

    def test_the_class_is_the_first_folder(self, tmp_path: Path) -> None:
        (tmp_path / "cats/old").mkdir(parents=True)
        (tmp_path / "cats/old/1.JPEG").write_bytes(jpeg(1))
        (tmp_path / "cats/0.jpg").write_bytes(jpeg(0))
        source = LabelledFolder(tmp_path)
        assert [(sample["__key__"], sample["label"]) for sample in map(source.__getitem__, range(2))] == [
            ("cats/0", 0),
            ("cats/old/1", 0),
        ]

    def test_images_in_the_folder_itself_have_no_label(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png(0))
        source = LabelledFolder(tmp_path)
        check_source(source)
        assert source.spec == {"image": "png"}
        assert source[0] == {"__key__": "a", "image": png(0)}

    def test_several_kinds_of_images_are_of_the_codec_that_holds_them_all(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png(0))
        (tmp_path / "b.jpg").write_bytes(jpeg(0))
        (tmp_path / "c.txt").write_text("no image")
        source = LabelledFolder(tmp_path)
        assert source.spec == {"image": "image"}
        assert len(source) == 2

    def test_other_files_are_counted_by_kind(self, tmp_path: Path) -> None:
        image_folder(tmp_path, 3)
        assert LabelledFolder(tmp_path).skipped == {}
        for name in ("stray.jpg", "README", "class0/a.cr2", "class1/b.CR2", "class0/c.mp4"):
            (tmp_path / name).write_bytes(b"")
        source = LabelledFolder(tmp_path)
        assert len(source) == 3
        assert source.skipped == {".cr2": 2, ".jpg outside class folders": 1, ".mp4": 1, "no extension": 1}

    def test_where_most_images_lie_beside_folders_they_have_no_classes(self, tmp_path: Path) -> None:
        for number in range(4):
            (image_folder(tmp_path, 3) / f"stray{number}.jpg").write_bytes(jpeg(9))
        source = LabelledFolder(tmp_path)
        assert (source.spec, len(source)) == ({"image": "jpg"}, 7)

    def test_two_files_of_one_stem_have_their_names_as_keys(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(png(0))
        (tmp_path / "a.jpg").write_bytes(jpeg(0))
        source = LabelledFolder(tmp_path)
        assert [source[at]["__key__"] for at in range(2)] == ["a.jpg", "a.png"]

    def test_nothing_to_pack(self, tmp_path: Path) -> None:
        with pytest.raises(FileNotFoundError, match="has no file with one of the suffixes"):
            LabelledFolder(tmp_path)
        with pytest.raises(FileNotFoundError):
            LabelledFolder(tmp_path / "missing")


class TestFiles:
    def test_every_file_under_its_path(self, tmp_path: Path) -> None:
        (tmp_path / "b/c").mkdir(parents=True)
        (tmp_path / "a.txt").write_bytes(b"1")
        (tmp_path / "b/c/x.bin").write_bytes(b"")
        (tmp_path / "b/é").write_bytes(b"2")
        source = Files(tmp_path)
        check_source(source)
        assert source.spec == {"data": "bytes"}
        assert [dict(source[at]) for at in range(3)] == [
            {"__key__": "a.txt", "data": b"1"},
            {"__key__": "b/c/x.bin", "data": b""},
            {"__key__": "b/é", "data": b"2"},
        ]

    def test_suffixes_and_the_name_of_the_field(self, tmp_path: Path) -> None:
        (tmp_path / "a.TXT").write_bytes(b"1")
        (tmp_path / "b.bin").write_bytes(b"2")
        source = Files(tmp_path, suffixes=[".txt"], field="text")
        assert [dict(source[at]) for at in range(len(source))] == [{"__key__": "a.TXT", "text": b"1"}]

    def test_folders_that_hold_nothing(self, tmp_path: Path) -> None:
        for name in ("a/b", "a/c/d", "e", "f/.bushel"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "a/x").write_bytes(b"1")
        (tmp_path / "e/y.bin").write_bytes(b"2")
        source = Files(tmp_path)
        assert list(source.folders or ()) == ["a/b", "a/c/d", "f"]
        assert [source[at]["__key__"] for at in range(len(source))] == ["a/x", "e/y.bin"]
        assert list(Files(tmp_path, suffixes=[".bin"]).folders or ()) == []


class TestWalk:
    def test_depth_first_over_sorted_names(self, tmp_path: Path) -> None:
        for name in ("c", "a/z", "a/b/x", "b", "aa"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        assert list(walk(tmp_path)) == ["a/b/x", "a/z", "aa", "b", "c"]
        assert list(walk(tmp_path, recursive=False)) == ["aa", "b", "c"]

    def test_links_are_followed_but_not_in_circles(self, tmp_path: Path) -> None:
        (tmp_path / "a").mkdir()
        (tmp_path / "a/x").touch()
        (tmp_path / "a/up").symlink_to(tmp_path)
        (tmp_path / "b").symlink_to(tmp_path / "a")
        assert list(walk(tmp_path)) == ["a/x", "b/x"]

    def test_sidecars_are_no_files_of_the_folder(self, tmp_path: Path) -> None:
        (tmp_path / ".bushel").mkdir()
        (tmp_path / ".bushel/index.safetensors").touch()
        (tmp_path / "x").touch()
        assert list(walk(tmp_path)) == ["x"]


def test_labels_are_extended_in_sorted_order() -> None:
    assert extend_labels(["b", "a", "b"]) == {"a": 0, "b": 1}
    assert extend_labels(["c", "a"], {"b": 0, "z": 4}) == {"b": 0, "z": 4, "a": 5, "c": 6}

"""Splits of a local folder: one is asked for, or all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.paths import GOLDEN

import bushel
from bushel.codecs import get_codec
from bushel.errors import FormatError, SpecError

PHOTO = bytes(get_codec("jpg").encode(np.zeros((8, 8, 3), np.uint8)))
PHOTOS = ("train/cat/1.jpg", "train/dog/2.jpg", "train/elk/3.jpg", "val/cat/4.jpg", "val/elk/5.jpg")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name in PHOTOS:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(PHOTO)
    (root / "README.md").write_text("no data")
    return root


def test_one_is_asked_for(photos: Path, tmp_path: Path) -> None:
    for call in (
        bushel.open,
        lambda path: bushel.pack(path, tmp_path / "x.tar"),
        lambda path: bushel.convert(path, "x.tar"),
    ):
        with pytest.raises(SpecError, match=r"several splits: train, val\. Name one: split='train'"):
            call(photos)
    with pytest.raises(SpecError, match="has no split 'test'"):
        bushel.open(photos, split="test")


def test_classes_have_one_number_in_all(photos: Path, tmp_path: Path) -> None:
    for dataset in (
        bushel.open(photos, split="val"),
        bushel.open(photos, split="validation"),
        bushel.open(photos / "val"),
    ):
        assert dataset.labels["label"] == ("cat", "dog", "elk")
        assert (list(dataset.keys), dataset["elk/5"]["label"]) == (["cat/4", "elk/5"], 2)
    whole = bushel.open(photos, split="all")
    assert list(whole.keys) == [name[:-4] for name in PHOTOS]
    assert whole.column("label").tolist() == [0, 1, 2, 0, 2]
    for split, expected in (("val", [0, 2]), ("all", [0, 1, 2, 0, 2])):
        bushel.pack(photos, tmp_path / f"{split}.tar", split=split)
        bushel.convert(photos, tmp_path / f"{split}.ffr", split=split)
        for name in (f"{split}.tar", f"{split}.ffr"):
            packed = bushel.open(tmp_path / name)
            assert packed.column("label").tolist() == expected
            assert packed.labels["label"] == ("cat", "dog", "elk")


def test_a_split_alone_or_beside_other_data_is_none(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    (photos / "more").mkdir()
    (photos / "more/6.jpg").write_bytes(PHOTO)
    assert bushel.open(photos).labels["label"] == ("more", "train", "val")
    assert "'val' is a class" in caplog.text
    (photos / "val").rename(photos.parent / "val")
    caplog.clear()
    assert bushel.open(photos).labels["label"] == ("more", "train")
    assert "is a class" not in caplog.text
    (photos / "more").rename(photos.parent / "more")
    assert len(bushel.open(photos)) == 3


def test_a_photo_is_not_a_split(tmp_path: Path) -> None:
    for name in ("train_1.jpg", "train_2.jpg", "test.jpg"):
        (tmp_path / name).write_bytes(PHOTO)
    assert list(bushel.open(tmp_path).keys) == ["test", "train_1", "train_2"]


@pytest.mark.parametrize(
    "names",
    [
        ("train.csv", "test.csv"),
        ("data/train-00000-of-00002.csv", "data/train-00001-of-00002.csv", "data/test-00000-of-00001.csv"),
        ("train.CSV", "test.CSV"),
    ],
)
def test_files_are_splits_too(names: tuple[str, ...], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(f"a\n{number}\n")
    with pytest.raises(SpecError, match="several splits: train, test"):
        bushel.open(tmp_path)
    assert [sample["a"] for sample in bushel.open(tmp_path, split="test")] == [len(names) - 1]
    assert sorted(sample["a"] for sample in bushel.open(tmp_path, split="all")) == list(range(len(names)))


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("cats-00000-of-00002.csv", "cats-00001-of-00002.csv", "dogs-00000-of-00001.csv"), ["cats", "dogs"]),
        (("x-train-00000-of-00001.csv", "x-extra-00000-of-00001.csv"), ["x-extra", "x-train"]),
        (("cats-00000-of-00002.csv", "cats-00001-of-00002.csv"), []),
        (("cats-00000-of-00001.csv", "dogs-00000-of-00001.csv", "more.csv"), []),
    ],
)
def test_numbered_files_of_several_names_are_asked_for(
    names: tuple[str, ...], splits: list[str], tmp_path: Path
) -> None:
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"a\n{number}\n")
    everything = list(range(len(names)))
    if not splits:
        assert [sample["a"] for sample in bushel.open(tmp_path)] == everything
        return
    with pytest.raises(SpecError, match=f"several splits: {', '.join(splits)}. Name one: split='{splits[0]}'"):
        bushel.open(tmp_path)
    rows = [[sample["a"] for sample in bushel.open(tmp_path, split=split)] for split in splits]
    assert sorted(sum(rows, [])) == everything
    assert all(rows)
    assert len(bushel.open(tmp_path, split="all")) == len(names)


def test_commands_go_through_all_or_ask(photos: Path, tmp_path: Path) -> None:
    assert run("ls", photos).split() == [name[:-4] for name in PHOTOS]
    assert run("ls", photos, "--split", "val").split() == ["cat/4", "elk/5"]
    for command in ("info", "verify", "index"):
        run(command, photos)
    assert "Name one: --split train, or join them: --split all" in fails("pack", photos, tmp_path / "x.tar")
    run("pack", photos, tmp_path / "x.tar", "--split", "all")
    assert len(bushel.open(tmp_path / "x.tar")) == 5


@pytest.mark.parametrize("table", ["labels.csv", "train.csv", "all.jsonl.gz", "list.tsv", "train.json"])
@pytest.mark.parametrize(("train", "val"), [("train", "val"), ("train_images", "val_images"), ("trainset", "valset")])
def test_tables_beside_folders_of_splits_are_about_them(
    train: str, val: str, table: str, photos: Path, tmp_path: Path
) -> None:
    (photos / "train").rename(photos / train)
    (photos / "val").rename(photos / val)
    (photos / table).write_text("id,label\n1,a\n")
    with pytest.raises(SpecError, match=r"several splits: train, val\. Name one: split='train'"):
        bushel.open(photos)
    dataset = bushel.open(photos, split="train")
    assert (list(dataset.keys), dataset.labels["label"]) == (["cat/1", "dog/2", "elk/3"], ("cat", "dog", "elk"))
    assert len(bushel.open(photos, split="all")) == 5


@pytest.mark.parametrize(
    ("names", "splits"),
    [
        (("train/x.jsonl", "val/x.jsonl", "test.jsonl", "classes.jsonl"), {"train": 1, "val": 1, "test": 1}),
        (("train.tar", "val.tar", "dev.jsonl", "test.jsonl", "test_1.jsonl"), {"train": 1, "val": 1, "test": 2}),
        (("a-00000-of-00001.tar", "b-00000-of-00001.tar", "c-00000-of-00001.csv"), {"a": 1, "b": 1, "c": 1}),
        (("training_set/x.csv", "test_set/x.csv", "train.csv", "sample_submission.csv"), {"training": 1, "test": 1}),
    ],
)
def test_a_table_that_alone_has_the_name_of_a_split_is_one(
    names: tuple[str, ...], splits: dict[str, int], tmp_path: Path
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        if name.endswith(".tar"):
            bushel.pack([{"a": 1}], tmp_path / name)
        else:
            (tmp_path / name).write_text('{"a": 1}\n' if "jsonl" in name else "a\n1\n")
    with pytest.raises(SpecError, match=f"several splits: {', '.join(splits)}. Name one"):
        bushel.open(tmp_path)
    assert {split: len(bushel.open(tmp_path, split=split)) for split in splits} == splits


def test_many_tables_beside_splits_are_about_them(photos: Path) -> None:
    for number in range(150):
        (photos / f"{number}.csv").touch()
    with pytest.raises(SpecError, match="several splits: train, val"):
        bushel.open(photos)


@pytest.mark.parametrize(
    ("name", "count"),
    [
        *(("annotations/instances_train.json", 0), ("annotations/train.json", 0), ("lists/x.csv", 0)),
        *(("lists/x.jsonl.gz", 0), ("code/x.py", 0), ("code/x.jpg", 6)),
    ],
)
def test_folders_without_data_do_not_join_splits(name: str, count: int, photos: Path) -> None:
    (photos / name).parent.mkdir()
    (photos / name).write_bytes(PHOTO)
    if count:
        assert len(bushel.open(photos)) == count
        return
    with pytest.raises(SpecError, match="several splits: train, val"):
        bushel.open(photos)
    assert bushel.open(photos, split="val").labels["label"] == ("cat", "dog", "elk")
    assert len(bushel.open(photos, split="all")) == 5


@pytest.mark.parametrize("name", ["test.jsonl", "test.json", "test/x.jsonl"])
def test_a_split_of_another_container_is_not_left_out_of_all(name: str, photos: Path) -> None:
    (photos / name).parent.mkdir(exist_ok=True)
    (photos / name).write_text('[{"a": 1}]' if name.endswith("json") else '{"a": 1}\n')
    with pytest.raises(FormatError, match="one dataset has one container"):
        bushel.open(photos, split="all")
    result = bushel.verify(photos)
    assert (result.samples, result.shards) == (6, 3)


def test_tables_are_splits_or_data_where_nothing_else_is(tmp_path: Path) -> None:
    for name in ("train.csv", "test.csv"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(SpecError, match="several splits: train, test"):
        bushel.open(tmp_path)
    (tmp_path / "more.csv").write_text("a\n1\n")
    assert len(bushel.open(tmp_path)) == 3
    for name in ("train.tar", "test.tar"):
        bushel.pack([{"b": 2}], tmp_path / "made" / name)
        shutil.move(tmp_path / "made" / name, tmp_path / name)
    shutil.rmtree(tmp_path / "made")
    with pytest.raises(SpecError, match="several splits: train, test"):
        bushel.open(tmp_path)
    assert [sample["b"] for sample in bushel.open(tmp_path, split="all")] == [2, 2]


@pytest.fixture
def yolo(tmp_path: Path) -> Path:
    root = tmp_path / "yolo"
    for name in ("train/a", "train/b", "val/a"):
        for path, contents in ((f"images/{name}.jpg", PHOTO), (f"labels/{name}.txt", name.encode())):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(contents)
    return root


def test_splits_below_fields_in_a_folder_around_them(yolo: Path, tmp_path: Path) -> None:
    (yolo / "data.yaml").write_text("names: [cat]")
    around = tmp_path / "around"
    around.mkdir()
    yolo.rename(around / "yolo")
    with pytest.raises(SpecError, match=r"several splits: train, val\. Name one"):
        bushel.open(around)
    opened = bushel.open(around, split="train")
    assert [(sample["__key__"], sample["label"]) for sample in opened] == [
        ("yolo/train/a", "train/a"),
        ("yolo/train/b", "train/b"),
    ]
    bushel.pack(around, tmp_path / "val", container="bag", split="validation")
    assert [sample["label"] for sample in bushel.open(tmp_path / "val")] == ["val/a"]


def test_splits_below_fields(yolo: Path, tmp_path: Path) -> None:
    for call in (bushel.open, lambda path: bushel.pack(path, tmp_path / "x"), lambda path: bushel.convert(path, "x")):
        with pytest.raises(SpecError, match=r"several splits: train, val\. Name one: split='train'"):
            call(yolo)
    with pytest.raises(SpecError, match="has no split 'test'"):
        bushel.open(yolo, split="test")
    for split, keys in (("train", ["train/a", "train/b"]), ("validation", ["val/a"]), ("all", None)):
        opened = bushel.open(yolo, split=split)
        keys = keys or ["train/a", "train/b", "val/a"]
        assert (list(opened.keys), dict(opened.spec)) == (keys, {"image": "jpg", "label": "utf8"})
        assert [sample["label"] for sample in opened] == keys
        bushel.pack(yolo, tmp_path / split, container="bag", split=split)
        bushel.convert(yolo, tmp_path / f"{split}.ffr", split=split)
        for name in (split, f"{split}.ffr"):
            packed = bushel.open(tmp_path / name)
            assert [(sample["__key__"], sample["label"]) for sample in packed] == [(key, key) for key in keys]
    assert len(bushel.index(yolo)) == 3
    assert bushel.verify(yolo).ok


def test_splits_below_fields_at_the_command_line(yolo: Path, tmp_path: Path) -> None:
    assert "3" in run("info", yolo)
    assert "--split train" in fails("pack", yolo, tmp_path / "out", "-c", "bag")
    run("pack", yolo, tmp_path / "out", "-c", "bag", "--split", "val")
    assert list(bushel.open(tmp_path / "out").keys) == ["val/a"]


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("name", ["{split}/{number}.jpg", "{split}/{number}/0.jpg"])
def test_all_have_keys_that_begin_with_the_split(name: str, beside: bool, tmp_path: Path) -> None:
    """A table of metadata, or classes that are called by numbers, do not make a dataset of each split."""
    root = tmp_path / "set"
    names = [name.format(split=split, number=number) for split in ("train", "test") for number in range(2)]
    for photo in names:
        (root / photo).parent.mkdir(parents=True, exist_ok=True)
        (root / photo).write_bytes(PHOTO)
    for split in ("train", "test") if beside else ():
        rows = "".join(f"{photo.partition('/')[2]},x\n" for photo in names if photo.startswith(split))
        (root / split / "metadata.csv").write_text(f"file_name,text\n{rows}")
    whole = bushel.open(root, split="all")
    assert sorted(whole.keys) == sorted(photo[:-4] for photo in names)
    assert bushel.pack(root, tmp_path / "x.tar", split="all").samples == 4
    assert bushel.verify(root).ok


@pytest.mark.parametrize("folder", ["", "data/"])
def test_an_index_of_all_splits_does_not_join_them(folder: str, tmp_path: Path) -> None:
    for split in ("train", "test"):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / f"{split}.csv").write_text("n\n1\n2\n")
    assert len(bushel.index(tmp_path)) == 4
    with pytest.raises(SpecError, match="several splits: train, test"):
        bushel.open(tmp_path)
    assert [len(bushel.open(tmp_path, split=split)) for split in ("train", "test", "all")] == [2, 2, 4]
    assert bushel.verify(tmp_path).ok


def test_samples_of_two_splits_may_have_the_same_key(tmp_path: Path) -> None:
    for split, keys in (("train", "ab"), ("test", "ab")):
        bushel.pack([{"__key__": key, "n": 1} for key in keys], tmp_path / f"{split}.tar")
    assert bushel.verify(tmp_path).ok
    paths = [tmp_path / "train.tar", tmp_path / "test.tar"]
    assert [problem.key for problem in bushel.verify(paths).problems] == ["a", "b"]


def test_removed_photos_stay_out_of_all_splits_and_of_what_is_packed(photos: Path, tmp_path: Path) -> None:
    assert bushel.remove(photos / "val", keys=["cat/4"], reason="asked").samples == 1
    assert list(bushel.open(photos, split="val").keys) == ["elk/5"]
    assert list(bushel.open(photos, split="all").keys) == ["cat/1", "dog/2", "elk/3", "elk/5"]
    for split, samples in (("val", 1), ("all", 4)):
        bushel.pack(photos, tmp_path / f"{split}.tar", split=split)
        packed = bushel.open(tmp_path / f"{split}.tar")
        assert (len(packed), packed.labels["label"]) == (samples, ("cat", "dog", "elk"))
    bushel.pack(photos / "val", tmp_path / "bag", container="bag")
    assert len(bushel.open(tmp_path / "bag")) == 1


@pytest.mark.parametrize(
    "name", ["bag", "arrayrecord-plain", "lerobot", "litdata-plain", "mds-plain", "tfrecord-plain"]
)
def test_a_dataset_without_splits_is_its_train_split_whole(name: str, tmp_path: Path) -> None:
    root = tmp_path / "data"
    if name == "bag":
        bushel.pack([{"n": number} for number in range(3)], root, container="bag")
        shutil.rmtree(root / ".bushel")  # as the original writes it
    else:
        shutil.copytree(GOLDEN / "foreign" / name, root)
    whole = bushel.open(root)
    train = bushel.open(root, split="train")
    assert (len(train), train.spec, train.info.container) == (len(whole), whole.spec, whole.info.container)
    with pytest.raises(SpecError, match="has no split 'test'"):
        bushel.open(root, split="test")


def test_folders_in_a_list_are_said_not_to_be_classes(photos: Path, caplog: pytest.LogCaptureFixture) -> None:
    folders = sorted((photos / "val").iterdir())
    assert "label" not in bushel.open(folders).spec
    assert (
        f"{folders[0]}: folders in a list are not classes, and may share keys: open the folder around them"
        in caplog.text
    )
    caplog.clear()
    assert bushel.open([photos / "train", photos / "val"]).labels
    assert "in a list" not in caplog.text

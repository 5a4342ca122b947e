"""Which samples, fields and classes a listing has: a table of layouts, and properties of any listing."""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel._recognise.layout import FolderLayout, layout_of
from bushel.errors import FormatError

PHOTOS = [f"{name}/{number}.jpg" for name in ("cat", "dog") for number in range(3)]
KEYS = [name[:-4] for name in PHOTOS]
PAIRS = [f"{stem}.{suffix}" for stem in ("a", "b", "c") for suffix in ("jpg", "txt")]
PARTS = [f"{number}.{part}" for number in (1, 2) for part in ("left.jpg", "right.jpg", "json")]

Row = tuple[Sequence[str], list[str], dict[str, str], tuple[str, ...], list[str]]
LAYOUTS: dict[str, Row] = {
    # names; keys; fields and codecs; classes; names that are left out
    "classes": (PHOTOS, KEYS, {"image": "jpg"}, ("cat", "dog"), []),
    "no classes": (["b.jpg", "a.jpg"], ["a", "b"], {"image": "jpg"}, (), []),
    "kinds of images": (["b.png", "a.jpg"], ["a", "b"], {"image": "image"}, (), []),
    "kinds of sounds": (["b.wav", "a.FLAC", "c.m4a"], ["a", "b", "c"], {"audio": "audio"}, (), []),
    "clips": (["x/b.mp4", "y/a.mp4"], ["x/b", "y/a"], {"clip": "mp4"}, ("x", "y"), []),
    "a stray text": ([*PHOTOS, "cat/0.txt"], KEYS, {"image": "jpg"}, ("cat", "dog"), ["cat/0.txt"]),
    "texts of other names": ([*PHOTOS, "a.txt"], KEYS, {"image": "jpg"}, ("cat", "dog"), ["a.txt"]),
    "a stray photo": ([*PHOTOS, "x.jpg"], KEYS, {"image": "jpg"}, ("cat", "dog"), ["x.jpg"]),
    "most outside": (["a.jpg", "b.jpg", "x/c.jpg"], ["a", "b", "x/c"], {"image": "jpg"}, (), []),
    "a stray clip": ([*PHOTOS, "cat/a.mp4"], KEYS, {"image": "jpg"}, ("cat", "dog"), ["cat/a.mp4"]),
    "dots": (["v.2.jpg", "v.1.jpg"], ["v.1", "v.2"], {"image": "jpg"}, (), []),
    "dots and numbers": (
        [f"{name}.{number}.jpg" for name in ("cat", "dog") for number in range(3)],
        [f"{name}.{number}" for name in ("cat", "dog") for number in range(3)],
        {"image": "jpg"},
        (),
        [],
    ),
    "colours and depths": (["rgb/1.png", "depth/1.png"], ["1"], {"image": "png", "depth": "png"}, (), []),
    "twins": (["a.jpg", "a.jpeg", "b.jpg"], ["a.jpeg", "a.jpg", "b"], {"image": "jpg"}, (), []),
    "a twin of another kind": (
        [*PHOTOS, "cat/0.png"],
        ["cat/0.jpg", "cat/0.png", *KEYS[1:]],
        {"image": "image"},
        ("cat", "dog"),
        [],
    ),
    "captions": (PAIRS, ["a", "b", "c"], {"jpg": "jpg", "txt": "utf8"}, (), []),
    "most captions": (PAIRS[:-1], ["a", "b", "c"], {"jpg": "jpg", "txt": "utf8"}, (), []),
    "captions and a stray": ([*PAIRS, "README.md"], ["a", "b", "c"], {"jpg": "jpg", "txt": "utf8"}, (), ["README.md"]),
    "a text without a photo": ([*PAIRS, "d.txt"], ["a", "b", "c"], {"jpg": "jpg", "txt": "utf8"}, (), ["d.txt"]),
    "masks": (["a.jpg", "a.png", "b.jpg", "b.png"], ["a", "b"], {"jpg": "jpg", "png": "png"}, (), []),
    "parts after the first dot": (PARTS, ["1", "2"], {"json": "json", "left.jpg": "jpg", "right.jpg": "jpg"}, (), []),
    "compressed texts": (
        ["a.jpg", "a.txt.gz", "b.jpg", "b.txt.gz"],
        ["a", "b"],
        {"jpg": "jpg", "txt.gz": "gzip(utf8)"},
        (),
        [],
    ),
    "a folder around the classes": (
        ["set/cat/1.jpg", "set/dog/1.jpg", "set/x.jpg", "y.jpg"],
        ["set/cat/1", "set/dog/1"],
        {"image": "jpg"},
        ("cat", "dog"),
        ["set/x.jpg", "y.jpg"],
    ),
    "a folder around splits": (
        ["set/train/cat/1.jpg", "set/val/dog/1.jpg"],
        ["set/train/cat/1", "set/val/dog/1"],
        {"image": "jpg"},
        ("cat", "dog"),
        [],
    ),
    "one class": (
        ["cat/1.jpg", "cat/2.jpg", "cat/old/3.jpg"],
        ["cat/1", "cat/2", "cat/old/3"],
        {"image": "jpg"},
        ("cat",),
        [],
    ),
    "splits": (
        ["train/cat/1.jpg", "train/dog/1.jpg", "val/cat/2.jpg"],
        ["train/cat/1", "train/dog/1", "val/cat/2"],
        {"image": "jpg"},
        ("cat", "dog"),
        [],
    ),
    "splits without classes": (["train/1.jpg", "val/2.jpg"], ["train/1", "val/2"], {"image": "jpg"}, (), []),
    "one split": (["train/1.jpg", "train/2.jpg"], ["train/1", "train/2"], {"image": "jpg"}, (), []),
    "classes of one split": (["val/cat/1.jpg"], ["val/cat/1"], {"image": "jpg"}, ("cat",), []),
    "images and labels": (
        ["images/a.jpg", "images/b.jpg", "labels/a.txt", "labels/b.txt", "labels/classes.txt"],
        ["a", "b"],
        {"image": "jpg", "label": "utf8"},
        (),
        ["labels/classes.txt"],
    ),
    "annotations of several kinds": (
        ["images/a.jpg", "images/b.jpg", "annotation/a.xml", "annotation/b.png"],
        ["a", "b"],
        {"image": "jpg", "annotation": "bytes"},
        (),
        [],
    ),
    "labels and strays of other suffixes": (
        ["images/a.jpg", "labels/a.txt", "labels/classes", "labels/x.json"],
        ["a"],
        {"image": "jpg", "label": "utf8"},
        (),
        ["labels/classes", "labels/x.json"],
    ),
    "a folder around fields": (
        ["set/images/a.jpg", "set/labels/a.txt", "set/data.yaml", "README.md"],
        ["set/a"],
        {"image": "jpg", "label": "utf8"},
        (),
        ["README.md", "set/data.yaml"],
    ),
    "a folder around splits of fields": (
        ["set/train/images/a.jpg", "set/train/labels/a.txt", "set/val/images/b.jpg", "set/val/labels/b.txt"],
        ["set/train/a", "set/val/b"],
        {"image": "jpg", "label": "utf8"},
        (),
        [],
    ),
    "other folders without media": (
        [
            *("VOC/JPEGImages/a.jpg", "VOC/JPEGImages/b.jpg", "VOC/Annotations/a.xml", "VOC/Annotations/b.xml"),
            *("VOC/SegmentationClass/a.png", "VOC/SegmentationObject/a.png", "VOC/ImageSets/Main/train.txt"),
        ],
        ["VOC/a", "VOC/b"],
        {"image": "jpg", "annotation": "bytes", "mask": "png", "object_mask": "png"},
        (),
        ["VOC/ImageSets/Main/train.txt"],
    ),
    "fields beside a folder of images": (
        ["images/a.jpg", "masks/a.png", "cat/b.jpg"],
        ["cat/b", "images/a", "masks/a"],
        {"image": "image"},
        ("cat", "images", "masks"),
        [],
    ),
    "a folder of one field": (["images/a.jpg", "labels.csv"], ["images/a"], {"image": "jpg"}, (), ["labels.csv"]),
    "classes in a folder of one field": (
        ["images/cat/a.jpg", "images/dog/b.jpg"],
        ["images/cat/a", "images/dog/b"],
        {"image": "jpg"},
        ("cat", "dog"),
        [],
    ),
    "images and masks": (
        ["images/x/a.jpg", "masks/x/a.png"],
        ["x/a"],
        {"image": "jpg", "mask": "png"},
        (),
        [],
    ),
    "fields of splits": (
        ["train/images/a.jpg", "train/labels/a.txt", "val/images/b.jpg", "val/labels/b.txt"],
        ["train/a", "val/b"],
        {"image": "jpg", "label": "utf8"},
        (),
        [],
    ),
    "numbers before suffixes": (
        ["x.1.jpg", "x.1.seg.png", "x.2.jpg", "x.2.seg.png"],
        ["x.1", "x.2"],
        {"jpg": "jpg", "seg.png": "png"},
        (),
        [],
    ),
    "numbers before suffixes, of several names": (
        ["x.1.jpg", "x.1.seg.png", "y.1.jpg", "y.1.seg.png"],
        ["x.1", "y.1"],
        {"jpg": "jpg", "seg.png": "png"},
        (),
        [],
    ),
    "a thousand photos of two names": (
        ["cat.0.jpg", "cat.1.jpg", "cat.2.jpg", "cat.txt", "dog.0.jpg", "dog.1.jpg", "dog.2.jpg", "dog.txt"],
        ["cat.0", "cat.1", "cat.2", "dog.0", "dog.1", "dog.2"],
        {"image": "jpg"},
        (),
        ["cat.txt", "dog.txt"],
    ),
    "numbers of copies": (
        ["a.1.jpg", "a.jpg", "b.1.jpg", "b.jpg"],
        ["a", "a.1", "b", "b.1"],
        {"image": "jpg"},
        (),
        [],
    ),
    "upper case": (["A.JPG", "B.Jpg"], ["A", "B"], {"image": "jpg"}, (), []),
    "other suffixes of JPEG": (["a.jfif", "b.jpe", "c.mpo"], ["a", "b", "c"], {"image": "jpg"}, (), []),
    "order of whole keys": (["a/x.jpg", "a-b/x.jpg"], ["a-b/x", "a/x"], {"image": "jpg"}, ("a", "a-b"), []),
}


@pytest.mark.parametrize("title", LAYOUTS)
def test_layouts(title: str) -> None:
    names, keys, fields, classes, left_out = LAYOUTS[title]
    found = layout_of(names)
    assert found.keys == keys
    assert {name: own.codec for name, own in found.fields.items()} == fields
    assert found.classes == classes
    assert sorted(name for name, _ in found.left_out) == left_out


def test_a_declared_field_is_read_in_any_case() -> None:
    found = layout_of([*PHOTOS, "cat/0.txt", "note.txt"], ["txt"])
    assert found.fields["txt"].codec == "utf8"
    assert found.keys == [*KEYS, "note"]


def test_a_declared_field_may_begin_with_a_number() -> None:
    layout = layout_of(["a.0.jpg", "a.1.jpg", "b.0.jpg", "b.1.jpg"], declared={"0.jpg", "1.jpg"})
    assert list(layout.keys) == ["a", "b"]
    assert set(layout.fields) == {"0.jpg", "1.jpg"}


def test_classes_of_other_splits_are_numbered_too() -> None:
    found = layout_of(["cat/1.jpg", "elk/1.jpg"], known=["cat", "dog", "elk"])
    assert (found.classes, list(found.class_of)) == (("cat", "dog", "elk"), [0, 2])


def test_folders_that_might_be_fields_are_refused_with_the_way_to_say_it() -> None:
    with pytest.raises(FormatError, match=r"masks/ would be the field 'mask' .* only 0 of 2 .*open images/ alone"):
        layout_of(["images/a.jpg", "images/b.jpg", "masks/1.png", "masks/2.png"])


WORDS = st.sampled_from(["a", "b", "cat", "train", "val", "images", "masks", "v.1", "x y", "é"])
SUFFIXES = st.sampled_from(["", ".jpg", ".jpeg", ".JPG", ".png", ".txt", ".json", ".txt.gz", ".seg.png", ".mp4", ".gz"])
NAMES = st.builds(
    lambda folders, word, suffix: "/".join([*folders, word + suffix]), st.lists(WORDS, max_size=3), WORDS, SUFFIXES
)


@given(st.lists(NAMES, unique=True, min_size=1, max_size=12), st.randoms())
def test_every_file_is_in_one_place(names: list[str], draw: random.Random) -> None:
    names = sorted(name for name in names if not any(other.startswith(f"{name}/") for other in names))
    try:
        found: FolderLayout = layout_of(names)
    except FormatError:
        return
    assert found.keys == sorted(set(found.keys))
    used = [number for field in found.fields.values() for number in field.files if number >= 0]
    assert len(set(used)) == len(used)
    assert sorted([*(names[number] for number in used), *(name for name, _ in found.left_out)]) == names
    assert all(len(field.files) == len(found.keys) for field in found.fields.values())
    assert len(found.class_of) == (len(found.keys) if found.classes else 0)
    shuffled = draw.sample(names, len(names))
    again = layout_of(shuffled)
    assert (again.keys, again.classes) == (found.keys, found.classes)
    assert {name: [shuffled[at] for at in own.files if at >= 0] for name, own in again.fields.items()} == {
        name: [names[at] for at in own.files if at >= 0] for name, own in found.fields.items()
    }


def test_many_names_with_dots_inside_leave_the_garbage_collector_alone() -> None:
    names = [f"class{number % 100}/v1.{number:07d}.jpg" for number in range(20_000)]
    collections: list[str] = []

    def count(phase: str, info: dict[str, int]) -> None:
        collections.append(phase)

    gc.collect()
    gc.callbacks.append(count)
    try:
        assert len(layout_of(names).keys) == len(names)
    finally:
        gc.callbacks.remove(count)
    assert len(collections) < 20  # a pair for each name that lives on made 57 collections

"""Annotations of pictures: which fields they are, what their numbers mean, and where their shapes are."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.viewer.annotated import write_annotated
from tests.viewer.serving import client_of

import bushel
from bushel.viewer.annotations import Form, guessed_form, shapes_of
from bushel.viewer.overlay_pages import checked_overlay

SIZE = (200, 100)
EXPECTED = [[0.1, 0.2], [0.5, 0.6]]  # pixels 20, 20 to 100, 60


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (np.array([[20, 20, 100, 60]], np.float32), Form("xyxy")),
        ([[20, 20, 80, 40]], Form("xywh")),
        ([20, 20, 80, 40], Form("xywh")),
        ([[60, 40, 80, 40]], Form("cxcywh")),
        (np.array([[0.1, 0.2, 0.5, 0.6]]), Form("xyxy", relative=True)),
        ([{"bbox": [20, 20, 80, 40]}], Form("xywh")),
        ({"bbox": [[20, 20, 80, 40]], "category": [3]}, Form("xywh")),
        ({"annotations": [{"box": [20, 20, 100, 60]}]}, Form("xyxy")),
        ([{"xmin": 20, "ymin": 20, "xmax": 100, "ymax": 60}], Form("xywh")),
        ([{"bbox": {"x": 20, "y": 20, "width": 80, "height": 40}}], Form("xyxy")),
    ],
)
def test_boxes_of_any_layout_are_the_same_corners(value: Any, form: Form) -> None:
    [shape] = shapes_of(value, form, SIZE)
    assert shape.kind == "box"
    assert np.allclose(shape.places, EXPECTED)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"bbox": [0, 0, 9, 9], "category_id": 3, "score": 0.5}, (3, 0.5)),
        ({"bbox": [0, 0, 9, 9], "label": "dog"}, ("dog", None)),
        ([0, 0, 9, 9, 7], (7, None)),
        ([0, 0, 9, 9, 0.25, 4], (4, 0.25)),
        ([0, 0, 9, 9], (None, None)),
    ],
)
def test_boxes_have_classes_and_scores(item: Any, expected: Any) -> None:
    [shape] = shapes_of([item], Form(), SIZE)
    assert (shape.name, shape.score) == expected


def test_annotations_of_coco_are_boxes_polygons_and_points() -> None:
    item = {
        "bbox": [20, 20, 80, 40],
        "category_id": 1,
        "segmentation": [[20, 20, 100, 20, 100, 60]],
        "keypoints": [20, 20, 2, 0, 0, 0],
    }
    box, polygon, points = shapes_of([item], Form("xywh"), SIZE)
    assert [each.kind for each in (box, polygon, points)] == ["box", "polygon", "points"]
    assert polygon.places.tolist() == [[0.1, 0.2], [0.5, 0.2], [0.5, 0.6]]
    assert list(points.seen) == [True, False]
    assert points.places[0].tolist() == [0.1, 0.2]


@pytest.mark.parametrize(
    "value", [None, 3, "boxes", {}, [], [None], [["a"]], [[1, 2], [3]], np.zeros((0, 4)), {"bbox": 3}]
)
def test_other_values_have_no_shapes(value: Any) -> None:
    assert shapes_of(value, Form(), SIZE) == []


def test_damaged_numbers_have_no_shapes() -> None:
    assert shapes_of([[0, 0, float("nan"), 1]], Form(), SIZE) == []
    assert shapes_of([{"bbox": [1, 2, 3, 4], "category_id": float("inf")}], Form(), SIZE)[0].name is None


def test_forms_are_guessed() -> None:
    rng = np.random.default_rng(0)
    low, size = rng.uniform(0, 40, (50, 2)), rng.uniform(10, 60, (50, 2))
    sizes = np.full((50, 2), 100.0)
    corners, sized = np.hstack([low, low + size]), np.hstack([low, size])
    middles = np.hstack([low + size / 2, size])
    assert guessed_form(corners, sizes, usual="xywh") == Form("xyxy", relative=False, guessed=True)
    assert guessed_form(sized, sizes, usual="xyxy") == Form("xywh", relative=False, guessed=True)
    assert guessed_form(middles / 100, sizes, usual="xywh") == Form("cxcywh", relative=True, guessed=True)
    assert guessed_form(np.zeros((0, 4)), sizes[:0], usual="xywh") == Form("xywh", guessed=True)


@pytest.mark.parametrize("text", ["", "odd", "xyxy,xywh", "mask,relative", "xyxy,relative,pixels", "boxes,odd"])
def test_malformed_declarations(text: str) -> None:
    with pytest.raises(ValueError, match="the overlay things="):
        checked_overlay("things", text)


def test_recognised_fields_are_annotations(tmp_path: Path) -> None:
    with client_of(write_annotated(tmp_path / "data")) as client:
        found = client.get("/api/0/overlays?i=1&i=3").json()
        assert found["picture"] == "image"
        assert [(each["name"], each["kind"], each["form"]) for each in found["fields"]] == [
            ("boxes", "boxes", "xywh, pixels"),
            ("mask", "mask", "xyxy, pixels"),
            ("keypoints", "keypoints", "xyxy, pixels"),
            ("caption", "caption", "xyxy, pixels"),
        ]
        one = found["samples"]["3"]
        assert one["size"] == [200, 100]
        box, points = one["shapes"]
        assert box["places"] == [[0.6, 0.5], [0.95, 0.9]]
        assert box["name"] == "1"
        assert points["seen"] == [True, False]
        assert [(number, name) for number, name, _ in one["masks"][0]["classes"]] == [(3, "3"), (7, "7")]
        assert one["captions"] == [{"field": "caption", "text": "number 3"}]
        assert one["errors"] == []


def test_declared_fields_are_annotations(tmp_path: Path) -> None:
    declared = {"things": "xywh", "boxes": "none", "caption": "none"}
    with client_of(write_annotated(tmp_path / "data"), overlays=declared) as client:
        found = client.get("/api/0/overlays?i=0").json()
        assert [each["name"] for each in found["fields"]] == ["things", "mask", "keypoints"]
        assert found["samples"]["0"]["shapes"][0]["places"] == EXPECTED
    with (
        pytest.raises(KeyError, match="no dataset has a field 'odd'"),
        client_of(tmp_path / "data", overlays={"odd": "mask"}),
    ):
        pass


def test_masks_are_transparent_where_there_is_no_class(tmp_path: Path) -> None:
    with client_of(write_annotated(tmp_path / "data")) as client:
        whole = np.asarray(Image.open(io.BytesIO(client.get("/d/0/mask?i=0&f=mask&side=512").content)))
        assert whole.shape == (100, 200, 4)
        assert (whole[10, 10, 3] > 0, whole[80, 180, 3] > 0, whole[80, 10, 3]) == (True, True, 0)
        part = np.asarray(Image.open(io.BytesIO(client.get("/d/0/mask?i=0&f=mask&side=512&without=7").content)))
        assert (part[10, 10, 3] > 0, part[80, 180, 3]) == (True, 0)
        assert client.get("/d/0/mask?i=0&f=none").status_code == 404
        assert client.get("/d/0/mask?i=99&f=mask").status_code == 404


def test_datasets_without_annotations_have_none(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "png", "label": "int"}, container="bag") as writer:
        writer.append({"image": np.zeros((4, 4, 3), np.uint8), "label": 1}, key="a")
    with client_of(tmp_path / "data") as client:
        assert client.get("/api/0/overlays?i=0").json() == {"picture": None, "fields": [], "samples": {}}
        assert "overlay.js" not in client.get("/d/0").text
        assert "overlay.js" not in client.get("/d/0/s/0").text


def test_a_damaged_annotation_is_named_and_the_others_are_there(tmp_path: Path) -> None:
    spec = {"image": "png", "boxes": "json", "caption": "utf8"}
    with bushel.Writer(tmp_path / "data", spec, container="bag") as writer:
        writer.append({"image": np.zeros((9, 9, 3), np.uint8), "boxes": b"{", "caption": "a"}, key="a")
    with client_of(tmp_path / "data") as client:
        one = client.get("/api/0/overlays?i=0").json()["samples"]["0"]
        assert one["captions"] == [{"field": "caption", "text": "a"}]
        assert "boxes" in one["errors"][0]


def test_classes_lie_in_a_field_beside_the_boxes(tmp_path: Path) -> None:
    spec = {"image": "png", "boxes": "array", "classes": "json"}
    with bushel.Writer(tmp_path / "data", spec, container="bag") as writer:
        boxes = np.array([[0, 0, 4, 4], [2, 2, 8, 8]], np.float32)
        writer.append({"image": np.zeros((9, 9, 3), np.uint8), "boxes": boxes, "classes": ["cat", "dog"]}, key="a")
    with client_of(tmp_path / "data") as client:
        shapes = client.get("/api/0/overlays?i=0").json()["samples"]["0"]["shapes"]
        assert [each["name"] for each in shapes] == ["cat", "dog"]
        assert shapes[0]["colour"] != shapes[1]["colour"]


def test_classes_that_are_no_numbers_and_captions_that_are_null(tmp_path: Path) -> None:
    """An infinite class was an error of the server, and NaN hid the boxes of the sample."""
    spec = {"image": "png", "boxes": "array(float32,-1,4)", "labels": "array(float32,-1)", "caption": "json"}
    with bushel.Writer(tmp_path / "data", spec, container="bag") as writer:
        labels = np.array([np.inf, np.nan, 3], np.float32)
        boxes = np.tile(np.array([1, 1, 4, 4], np.float32), (3, 1))
        image = np.zeros((8, 8, 3), np.uint8)
        writer.append({"image": image, "boxes": boxes, "labels": labels, "caption": None}, key="a")
    with client_of(tmp_path / "data") as client:
        found = client.get("/api/0/overlays?i=0").json()["samples"]["0"]
    assert [shape["name"] for shape in found["shapes"]] == ["inf", "nan", "3"]
    assert found["errors"] == []

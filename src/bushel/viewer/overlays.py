"""The fields that annotate a dataset's pictures: declared ones, and fields with usual names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel.errors import BushelError
from bushel.transforms.fused import image_size

from .annotations import FORMS, Form, box_numbers, guessed_form
from .kinds import ShownField
from .shelf import Shown
from .stored import stored_values

_KINDS = ("boxes", "mask", "keypoints", "caption")
_WORDS: Mapping[str, frozenset[str]] = {
    "boxes": frozenset(("box", "boxes", "bbox", "bboxes", "objects", "annotations", "detections")),
    "keypoints": frozenset(("keypoint", "keypoints", "landmarks", "joints")),
    "mask": frozenset(("mask", "segmentation", "seg", "labelmap", "semantic")),
    "caption": frozenset(("caption", "captions", "text", "title", "description", "prompt", "alt")),
}
_SUITS: Mapping[str, tuple[str, ...]] = {
    "boxes": ("array", "tree"),
    "keypoints": ("array", "tree"),
    "mask": ("image", "array"),
    "caption": ("text", "tree"),
}
_CLASSES = ("labels", "classes", "categories", "category_ids", "category", "class_ids")
_LOOKED_AT = 64  # samples by which the form of boxes is guessed
_HEAD = 1 << 16


class Overlay(Struct, frozen=True):
    """A field that annotates pictures."""

    field: str
    kind: str  # `boxes`, `mask`, `keypoints` or `caption`
    form: Form | None = Form()  # how its numbers are to be read; None if the values are to say so
    # the field with the class of each box, or None if boxes have no classes
    classes: str | None = None


class Overlays(Struct, frozen=True):
    """The annotations of the pictures of a field."""

    picture: str
    fields: tuple[Overlay, ...]


def checked_overlay(field: str, text: str) -> tuple[str, Form | None]:
    """Return kind and form of a declaration such as `xywh,relative`; of boxes and key points without a form, None.

    Raises:
        ValueError: It is malformed.
    """
    kind, _, unit = text.replace(" ", "").partition(",")
    if kind not in (*_KINDS, "none", *FORMS) or unit not in ("", "relative", "pixels"):
        raise ValueError(
            f"the overlay {field}={text}: expected {', '.join(_KINDS)}, none, or of boxes "
            f"{', '.join(FORMS)}; then, if need be, ,relative or ,pixels"
        )
    if kind in FORMS:
        return "boxes", Form(kind, unit == "relative")
    if unit and kind == "keypoints":
        return kind, Form("xyxy", unit == "relative")
    if unit:
        raise ValueError(
            f"the overlay {field}={text}: only boxes with a form and key points have a unit"
        )
    return kind, None


def find_overlays(shown: Shown, declared: Mapping[str, str]) -> Overlays | None:
    """Return the annotations of a dataset's pictures, by the spec alone; None without any.

    Declared kinds and forms override the names.

    Raises:
        ValueError: A declaration is malformed.
    """
    declared_kinds = {name: checked_overlay(name, text) for name, text in declared.items()}
    kinds = {
        field.name: declared_kinds[field.name][0]
        if field.name in declared_kinds
        else _kind_by_name(field)
        for field in shown.fields
    }
    pictures = [
        field.name
        for field in shown.fields
        if field.kind == "image" and not field.sequence and kinds[field.name] != "mask"
    ]
    if not pictures:
        return None
    overlays = []
    for field in shown.fields:
        kind = kinds[field.name]
        if kind not in _KINDS or field.name == pictures[0]:
            continue
        form = declared_kinds.get(field.name, ("", None))[1]
        if form is None and kind not in ("boxes", "keypoints"):
            form = Form()
        overlays.append(
            Overlay(
                field.name, kind, form, _classes_field(shown, field) if kind == "boxes" else None
            )
        )
    if overlays:
        return Overlays(pictures[0], tuple(overlays))
    return None


def settled(shown: Shown, overlays: Overlays) -> Overlays:
    """Return the same overlays, all with a form: those without one get it from the values of the first samples."""
    settled_overlays = []
    for overlay in overlays.fields:
        form = overlay.form or _guess(
            shown, shown.field(overlay.field), overlays.picture, overlay.kind
        )
        settled_overlays.append(replace(overlay, form=form))
    return Overlays(overlays.picture, tuple(settled_overlays))


def _kind_by_name(field: ShownField) -> str:
    words = set(re.split(r"[^a-z0-9]+", field.name.lower()))
    for kind, words_of_kind in _WORDS.items():
        if (
            words & words_of_kind
            and field.kind in _SUITS[kind]
            and (not field.sequence or kind in ("boxes", "caption"))
        ):
            return kind
    return ""


def _classes_field(shown: Shown, field: ShownField) -> str | None:
    if field.name.endswith("boxes"):
        stem = field.name.removesuffix("es")
    else:
        stem = field.name.removesuffix("s")
    names = {field.name: field for field in shown.fields}
    candidates = [
        f"{start}{mark}{word}" for start in (field.name, stem) for mark in "._" for word in _CLASSES
    ] + [*_CLASSES]
    for name in candidates:
        candidate_field = names.get(name)
        if candidate_field is not None and (
            candidate_field.sequence or candidate_field.kind in ("array", "tree")
        ):
            return name
    return None


def _guess(shown: Shown, field: ShownField, picture: str, kind: str) -> Form:
    """Return the form of a field by the values of its first samples."""
    boxes, sizes, most = [], [], 0.0
    for position in range(min(_LOOKED_AT, len(shown.dataset))):
        try:
            size = picture_size(shown, position, picture)
            value = shown.dataset[position, [field.name]].get(field.name)
        except (BushelError, OSError, ValueError, LookupError):  # its tile and its page say why
            continue
        if size is None or value is None:
            continue
        if kind == "keypoints":
            most = max(most, _greatest(value))
            continue
        boxes_of_value = box_numbers(value)
        boxes.append(boxes_of_value)
        sizes.append(np.broadcast_to(np.array(size[:2], np.float64), (len(boxes_of_value), 2)))
    if kind == "keypoints":
        return Form("xyxy", most <= 1.001, guessed=True)
    usual = "xyxy"
    if "bbox" in field.name.lower() or field.kind == "tree":
        usual = "xywh"
    empty = np.zeros((0, 4))
    return guessed_form(
        np.concatenate([*boxes, empty]), np.concatenate([*sizes, empty[:, :2]]), usual=usual
    )


def _greatest(value: Any) -> float:
    """Return the greatest coordinate of key points."""
    try:
        array = np.asarray(value, np.float64)
    except (ValueError, TypeError):
        return 2.0  # annotations in mappings have pixels, as COCO's
    places = array.reshape(-1, array.shape[-1])[:, :2] if array.ndim > 1 else array
    if places.size:
        return float(np.nanmax(places))
    return 0.0


def picture_size(shown: Shown, position: int, name: str) -> tuple[int, int, bool] | None:
    """Return the shown width and height of a picture, and whether its Exif orientation turned it.

    None if the sample has no picture.

    Raises:
        BushelError: It cannot be read.
    """
    values = stored_values(shown.dataset, position, name)
    if not values:
        return None
    head = values[0].read(0, _HEAD)
    try:
        upright, stored = image_size(head, exif_rotate=True), image_size(head)
    except BushelError:  # a header after a long profile
        data = values[0].read()
        upright, stored = image_size(data, exif_rotate=True), image_size(data)
    return (*upright, upright != stored)

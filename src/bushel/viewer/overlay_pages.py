"""Annotations of pictures: the fields that have them, their shapes as JSON, and masks as transparent pictures.

They are declared, or have usual names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._pictures.pixels import (
    class_colours,
    displayable,
    encode_png,
    is_index_mask,
    mask_classes,
)
from bushel._pictures.texts import plain_text
from bushel._pictures.thumbnail import Picture
from bushel._runtime.arrays import U8
from bushel.errors import BushelError
from bushel.transforms.fused import image_size

from .annotations import FORMS, Form, box_numbers, guessed_form, shapes_of
from .kinds import ShownField
from .rows import line_of
from .shelf import Shown
from .site import Pages, Site, at, number_in, numbers_in
from .stored import side_for, stored_values

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
    return float(np.nanmax(places, initial=0.0))


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


_MOST = 120  # samples of one request
_OPAQUE = 150
_CAPTION = 400
_LARGEST = 1 << 22  # bytes of an annotation up to which it is read


def overlays_of(site: Site, shown: Shown, *, forms: bool = False) -> Overlays | None:
    """Return the annotations of a dataset's pictures; None without any."""
    by_forms: dict[bool, Overlays | None] = shown.overlays
    if False not in by_forms:
        spec, declared = shown.dataset.spec, site.shelf.overlays
        of_dataset = {name: text for name, text in declared.items() if name in spec}
        by_forms[False] = find_overlays(shown, of_dataset)
    overlays = by_forms[False]
    if forms and overlays is not None and True not in by_forms:
        by_forms[True] = settled(shown, overlays)
    return by_forms.get(forms)


class OverlayPages(Pages):
    """The handlers of annotations."""

    @at("/api/{d:int}/overlays")
    def overlays(self, shown: Shown, request: Any) -> Any:
        """The annotations of samples: `i`, a position, once or more."""
        parameters = request.query_params
        overlays = overlays_of(self._site, shown, forms=True)
        positions = numbers_in(parameters, "i")[:_MOST]
        if overlays is None:
            return {"picture": None, "fields": [], "samples": {}}
        fields = [
            {
                "name": overlay.field,
                "kind": overlay.kind,
                "form": str(overlay.form),
                "guessed": overlay.form is not None and overlay.form.guessed,
            }
            for overlay in overlays.fields
        ]
        samples = {
            str(position): annotations_of(shown, overlays, position) for position in positions
        }
        return {"picture": overlays.picture, "fields": fields, "samples": samples}

    @at("/d/{d:int}/mask")
    def mask(self, shown: Shown, request: Any) -> Any:
        """A mask in the colours of its classes, without class 0 and those that `without` names."""
        parameters = request.query_params
        position, name = number_in(parameters, "i"), parameters.get("f", "")
        side = side_for(number_in(parameters, "side", 256))
        without = tuple(sorted(numbers_in(parameters, "without", most=255)))
        key = (shown.number, position, name, side, "mask", without)
        return self._site.picture(key, lambda: _mask_picture(shown, position, name, side, without))


def annotations_of(shown: Shown, overlays: Overlays, position: int) -> dict[str, Any]:
    """Return the annotations of a sample as JSON values. An error in one of them is named, the others are there."""
    facts: dict[str, Any] = {"size": None, "shapes": [], "masks": [], "captions": [], "errors": []}
    try:
        size = picture_size(shown, position, overlays.picture)
    except (BushelError, OSError, ValueError) as error:
        return facts | {"errors": [plain_text(str(error))]}
    if size is None:
        return facts
    facts["size"], facts["turned"] = size[:2], size[2]
    for overlay in overlays.fields:
        try:
            _annotate(shown, overlay, position, size[:2], facts)
        except (BushelError, OSError, ValueError, TypeError) as error:
            facts["errors"].append(f"{overlay.field}: {plain_text(str(error))}")
    return facts


def _annotate(
    shown: Shown, overlay: Overlay, position: int, size: tuple[int, int], found: dict[str, Any]
) -> None:
    stored = stored_values(shown.dataset, position, overlay.field)
    if not stored or sum(value.size for value in stored) > _LARGEST:
        return
    if overlay.kind == "mask":
        mask = _class_numbers(shown, position, overlay.field)
        classes = () if mask is None else mask_classes(mask)
        named = [(number, *_class(shown, overlay, number)) for number, _ in classes if number]
        found["masks"].append({"field": overlay.field, "classes": named})
        return
    names = (overlay.field, overlay.classes)
    sample = shown.dataset[position, [name for name in names if name is not None]]
    value: Any = sample.get(overlay.field)
    if overlay.kind == "caption":
        lines = [value] if isinstance(value, str) else _listed(value)
        text = " / ".join(line for line in lines if isinstance(line, str))
        found["captions"].append({"field": overlay.field, "text": plain_text(text[:_CAPTION])})
        return
    if isinstance(value, list) and value and all(isinstance(mask, np.ndarray) for mask in value):
        value = np.stack(value) if len({mask.shape for mask in value}) == 1 else []
    labels = _listed(sample.get(overlay.classes or ""))
    shapes = shapes_of(value, overlay.form or Form(), size, points=overlay.kind == "keypoints")
    for number, shape in enumerate(shapes):
        label = shape.name
        if label is None and len(labels) == len(shapes):
            label = labels[number]
        name, colour = _class(shown, overlay, label)
        places = np.where(np.isfinite(shape.places), shape.places, 0.0)
        found["shapes"].append(
            {
                "field": overlay.field,
                "kind": shape.kind,
                "places": places.round(5).tolist(),
                "name": name,
                "colour": colour,
                "score": shape.score,
                "seen": list(shape.seen),
            }
        )


def _listed(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return value
    return []


def _class(shown: Shown, overlay: Overlay, name: Any) -> tuple[str, str]:
    """Return the name of a class and its colour: as in masks for a number, in the order of appearance for a text."""
    colours = class_colours()
    is_number = isinstance(name, int | float) and not isinstance(name, bool)
    if not is_number or not abs(name) < np.inf:
        text = overlay.field if name is None else plain_text(str(name))
        number = shown.class_numbers.setdefault(text, len(shown.class_numbers) + 1) % 255
    else:
        if overlay.classes in shown.labels:
            labelled = overlay.classes
        else:
            labelled = overlay.field
        text, number = line_of(shown, labelled or overlay.field, int(name)), int(name) % 255
    return text, "#" + bytes(colours[number or 254]).hex()


def _class_numbers(shown: Shown, position: int, name: str) -> U8 | None:
    """Return a mask (height, width) of class numbers; None if it is a picture of another kind."""
    stored = stored_values(shown.dataset, position, name)
    if stored is None:
        raise KeyError(f"this sample lacks the field {name!r}")
    value = np.asarray(shown.dataset[position, [name]][name])
    if value.dtype.kind in "biu" and value.ndim == 3 and value.shape[2] == 1:
        value = value[:, :, 0]
    if value.ndim != 2 or value.dtype.kind not in "biu" or not value.size or int(value.min()) < 0:
        return None
    if int(value.max()) > 255:
        return None
    mask: U8 = value.astype(np.uint8)
    if not is_index_mask(mask):
        if len(np.unique(mask[:: max(1, mask.shape[0] // 64)])) > 2:  # grey levels
            return None
        mask = (mask > 0).astype(np.uint8)
    return mask


def _mask_picture(
    shown: Shown, position: int, name: str, side: int, without: Sequence[int]
) -> Picture:
    mask = _class_numbers(shown, position, name)
    if mask is None:
        pixels = displayable(np.asarray(shown.dataset[position, [name]][name]))
        pixels = _nearest(pixels, side)
        alpha = np.where(pixels.any(2, keepdims=True), _OPAQUE, 0).astype(np.uint8)
    else:
        mask = _nearest(mask, side)
        pixels = class_colours()[mask]
        hidden = np.isin(mask, [0, 255, *without])
        alpha = np.where(hidden, 0, _OPAQUE).astype(np.uint8)[:, :, None]
    drawn = np.concatenate([pixels, alpha], axis=2)
    return Picture(encode_png(drawn), "image/png", drawn.shape[1], drawn.shape[0])


def _nearest(pixels: U8, side: int) -> U8:
    """Return every k-th pixel, so that class numbers stay class numbers."""
    step = max(1, -(-max(pixels.shape[:2]) // side))
    return pixels[::step, ::step]

"""Annotations of pictures for the grid and the pages of samples: shapes as JSON, masks as transparent pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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

from .annotations import Form, shapes_of
from .overlays import Overlay, Overlays, find_overlays, picture_size, settled
from .rows import line_of
from .shelf import Shown
from .site import Pages, Site, at, number_in, numbers_in
from .stored import side_for, stored_values

_MOST = 120  # samples of one request
_OPAQUE = 150
_CAPTION = 400
_LARGEST = 1 << 22  # bytes of an annotation up to which it is read


def overlays_of(site: Site, shown: Shown, *, forms: bool = False) -> Overlays | None:
    """Return the annotations of a dataset's pictures; None without any."""
    key = (shown.number, forms)
    if key not in site.overlays and forms:
        without_forms = overlays_of(site, shown)
        site.overlays[key] = without_forms and settled(shown, without_forms)
    elif key not in site.overlays:
        spec, declared = shown.dataset.spec, site.shelf.overlays
        site.overlays[key] = find_overlays(
            shown, {name: text for name, text in declared.items() if name in spec}
        )
    return site.overlays[key]


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

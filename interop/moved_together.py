"""Move masks, boxes and points with torchvision's transforms v2 or with Albumentations, by geometries that are given.

    python moved_together.py torchvision|albumentations PLAN.json OUT.npz

PLAN.json is a list of cases. A case has `mask` (rows of numbers), `boxes`, `format` (xyxy, xywh, cxcywh, or relative,
which is cxcywh in fractions), `points` (x and y), and a geometry: `box` (left, top, right, bottom of a crop), `scaled`
(width and height that it is resized to), `window` (a crop of that) and `flip`. OUT.npz has `mask0`, `boxes0`, `rows0`
(numbers of the boxes that are left) and `points0` of the first case, then `mask1` and the others of the second one, …
Boxes are clipped to the image; those without area are left out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]


def by_torchvision(case: Case) -> tuple[Any, Any, Any, Any]:
    """Return mask, boxes, the numbers of the boxes that are left, and points."""
    import torch
    from torchvision import tv_tensors
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as v2

    mask = torch.tensor(case["mask"], dtype=torch.uint8)
    height, width = mask.shape
    (left, top, right, bottom), (start, above, stop, below) = case["box"], case["window"]

    def moved(value: Any) -> Any:
        value = v2.crop(value, top, left, bottom - top, right - left)
        value = v2.resize(value, case["scaled"][::-1], InterpolationMode.NEAREST_EXACT)
        value = v2.crop(value, above, start, below - above, stop - start)
        return v2.horizontal_flip(value) if case["flip"] else value

    numbers = torch.tensor(case["boxes"], dtype=torch.float32)
    if case["format"] == "relative":
        numbers = numbers * torch.tensor([width, height, width, height])
    name = "CXCYWH" if case["format"] == "relative" else case["format"].upper()
    boxes = moved(tv_tensors.BoundingBoxes(numbers, format=name, canvas_size=(height, width)))
    clipped = v2.clamp_bounding_boxes(v2.convert_bounding_box_format(boxes, new_format="XYXY"))
    plain = clipped.as_subclass(torch.Tensor)
    kept = (plain[:, 2] > plain[:, 0]) & (plain[:, 3] > plain[:, 1])
    found = v2.convert_bounding_box_format(clipped, new_format=name).as_subclass(torch.Tensor)[kept].numpy()
    if case["format"] == "relative":
        size = clipped.canvas_size[::-1]
        found = found / np.array([*size, *size], np.float32)
    points = moved(tv_tensors.KeyPoints(torch.tensor(case["points"]), canvas_size=(height, width)))
    rows = torch.nonzero(kept)[:, 0].numpy()
    return moved(tv_tensors.Mask(mask)).numpy(), found, rows, points.as_subclass(torch.Tensor).numpy()


def by_albumentations(case: Case) -> tuple[Any, Any, Any, Any]:
    """Return mask, boxes, the numbers of the boxes that are left, and points."""
    import albumentations
    import cv2

    mask = np.array(case["mask"], np.uint8)
    (left, top, right, bottom), (start, above, stop, below) = case["box"], case["window"]
    width, height = case["scaled"]
    steps = [
        albumentations.Crop(left, top, right, bottom),
        albumentations.Resize(height, width, mask_interpolation=cv2.INTER_NEAREST_EXACT),
        albumentations.Crop(start, above, stop, below),
        *([albumentations.HorizontalFlip(p=1)] if case["flip"] else []),
    ]
    format_ = {"xyxy": "pascal_voc", "xywh": "coco", "cxcywh": "cxcywh", "relative": "yolo"}[case["format"]]
    numbers = np.array(case["boxes"], np.float32)
    if format_ == "cxcywh":  # which it lacks in pixels
        format_, own = "pascal_voc", numbers.copy()
        numbers = np.concatenate([own[:, :2] - own[:, 2:] / 2, own[:, :2] + own[:, 2:] / 2], 1)
    composed = albumentations.Compose(
        steps,
        bbox_params=albumentations.BboxParams(format_, label_fields=["rows"], filter_invalid_bboxes=True),
        keypoint_params=albumentations.KeypointParams("xy", remove_invisible=False),
        seed=0,
    )
    image = np.zeros((*mask.shape, 3), np.uint8)
    points = np.array(case["points"], np.float32)
    rows = np.arange(len(numbers))
    found = composed(image=image, mask=mask, bboxes=numbers, rows=rows, keypoints=points)
    boxes = np.array(found["bboxes"], np.float32).reshape(-1, 4)
    if case["format"] == "cxcywh":
        boxes = np.concatenate([(boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]], 1)
    return found["mask"], boxes, np.array(found["rows"], np.int64), np.array(found["keypoints"], np.float32)


def main() -> None:
    """Write what one of the packages makes of the cases."""
    _, package, plan, out = sys.argv
    move = {"torchvision": by_torchvision, "albumentations": by_albumentations}[package]
    arrays: dict[str, Any] = {}
    for number, case in enumerate(json.loads(Path(plan).read_text())):
        for name, value in zip(("mask", "boxes", "rows", "points"), move(case), strict=True):
            arrays[f"{name}{number}"] = value
    np.savez(out, **arrays)


if __name__ == "__main__":
    main()

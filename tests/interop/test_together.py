"""Masks, boxes and points move as torchvision and Albumentations move them, and packs have what Grain's packs have."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.loader.documents import LENGTHS, write

import bushel
from bushel.transforms import Boxes, Mask, Points, RandomCrop, RandomHorizontalFlip, RandomResizedCrop, Resize
from bushel.transforms.fused import plan_decode

pytestmark = pytest.mark.interop

Original = Callable[..., list[dict[str, Any]]]
LISTS: tuple[list[Any], ...] = (
    [RandomResizedCrop(32), RandomHorizontalFlip()],
    [RandomCrop(30), RandomHorizontalFlip()],
    [Resize((61, 47)), RandomCrop((33, 40)), RandomHorizontalFlip()],
)
FORMATS = ("xyxy", "xywh", "cxcywh", "relative")
CASES = 96
TOKENS, BINS = 64, 8


def geometry_of(seed: int) -> tuple[Any, tuple[int, int], dict[str, Any]]:
    """Return a geometry that Bushel draws, the size of the image, and the case for the other packages."""
    rng = np.random.default_rng(seed)
    width, height = (int(size) for size in rng.integers(34, 90, 2))
    drawn = plan_decode(LISTS[seed % 3]).geometry(width, height, rng)
    corners = rng.uniform(0, (width, height), (12, 2, 2))
    low, high = corners.min(axis=1), corners.max(axis=1)
    sizes = {"xyxy": [low, high], "xywh": [low, high - low], "cxcywh": [(low + high) / 2, high - low]}
    format_ = FORMATS[seed // 3 % 4]
    boxes = np.concatenate(sizes["cxcywh" if format_ == "relative" else format_], 1)
    if format_ == "relative":
        boxes = boxes / (width, height, width, height)
    case = {
        "mask": rng.integers(0, 255, (height, width)).tolist(),
        "boxes": boxes.astype(np.float32).tolist(),
        "format": format_,
        "points": rng.uniform(0, (width, height), (7, 2)).astype(np.float32).tolist(),
        "box": [int(each) for each in drawn.box],
        "scaled": [int(each) for each in drawn.scaled],
        "window": [int(each) for each in drawn.window],
        "flip": bool(drawn.flip_horizontal),
    }
    return drawn, (width, height), case


def clear_of(case: dict[str, Any], axis: int) -> Any:
    """Return which columns (axis 0) or rows of the result have their centre within a pixel, and not between two."""
    size = case["box"][axis + 2] - case["box"][axis]
    places = np.arange(case["window"][axis], case["window"][axis + 2])
    clear = (2 * places + 1) * size % (2 * case["scaled"][axis]) != 0
    return clear[::-1] if case["flip"] and axis == 0 else clear


@pytest.mark.parametrize("package", ["torchvision", "albumentations"])
def test_masks_boxes_and_points_move_alike(original: Callable[[str], Original], package: str, tmp_path: Path) -> None:
    cases = [geometry_of(seed) for seed in range(CASES)]
    (tmp_path / "plan.json").write_text(json.dumps([case for _, _, case in cases]))
    original("transforms")("moved_together.py", package, tmp_path / "plan.json", tmp_path / "out.npz")
    theirs, left = np.load(tmp_path / "out.npz"), 0
    for number, (geometry, size, case) in enumerate(cases):
        relative = case["format"] == "relative"
        format_: Any = "cxcywh" if relative else case["format"]
        sample: dict[str, Any] = {
            "mask": np.array(case["mask"], np.uint8),
            "boxes": np.array(case["boxes"], np.float32),
            "rows": np.arange(len(case["boxes"])),
            "points": np.array(case["points"], np.float32),
        }
        own: dict[str, Any] = {}
        # Albumentations counts the centres of pixels from 0, which are 0.5 for Bushel; torchvision does that in flips
        centre = 0.5 if package == "albumentations" else 0.0
        sample["points"] += centre
        for one in (Mask("mask"), Boxes("boxes", format_, relative, rows=("rows",)), Points("points")):
            own |= one.follow(sample, geometry, size)
        own["points"] -= centre if package == "albumentations" else [float(case["flip"]), 0]
        clear = np.ix_(clear_of(case, 1), clear_of(case, 0))
        np.testing.assert_array_equal(own["mask"][clear], theirs[f"mask{number}"][clear])
        assert own["rows"].tolist() == theirs[f"rows{number}"].tolist()
        np.testing.assert_allclose(own["boxes"], theirs[f"boxes{number}"], atol=1e-5 if relative else 1e-3)
        np.testing.assert_allclose(own["points"], theirs[f"points{number}"], atol=1e-3)
        left += len(sample["rows"]) - len(own["rows"])
    assert left > 50  # boxes without area were dropped by both


def test_packs_have_the_documents_of_grain_in_no_more_rows(original: Callable[[str], Original], tmp_path: Path) -> None:
    ds = write(tmp_path / "data", LENGTHS, container="bag")
    (tmp_path / "documents.json").write_text(json.dumps([sample["tokens"].tolist() for sample in ds]))
    rows = original("transforms")("grain_packs.py", tmp_path / "documents.json", str(TOKENS), str(BINS))
    theirs = [document for row in rows for document in row["documents"]]
    own, count, padding = [], 0, 0
    loader: Any = bushel.Loader(ds, 4, pack_by="tokens.length", pack_tokens=TOKENS, shuffle=True, fields=["tokens"])
    for batch in loader:
        for row, documents, places in zip(batch["tokens"], batch["documents"], batch["positions"], strict=True):
            for number in range(int(documents.max()) + 1):
                chosen = documents == number
                own.append([row[chosen].tolist(), places[chosen].tolist()])
            count, padding = count + 1, padding + int((documents < 0).sum())
    assert sorted(own) == sorted(theirs)
    assert count <= len(rows)
    assert padding <= len(rows) * TOKENS - sum(LENGTHS)

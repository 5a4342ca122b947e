"""`granular.formats` of 0.24: what a function encodes, the other decodes, and writers take them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel.compat.granular.v24 as granular
from bushel.compat.granular.v24 import formats
from bushel.errors import SpecError

CLIP = np.arange(4 * 16 * 16 * 3, dtype=np.uint8).reshape(4, 16, 16, 3)


@pytest.mark.parametrize("kind", ["int", "array", "tree", "image", "video"])
def test_a_value_comes_back(kind: str) -> None:
    if kind == "video":
        pytest.importorskip("av")
    value: Any = {"int": 300, "array": CLIP, "tree": {"a": [CLIP]}, "image": CLIP[0], "video": CLIP}[kind]
    data = getattr(formats, f"encode_{kind}")(value)
    back = getattr(formats, f"decode_{kind}")(data)
    if kind in ("image", "video"):
        assert back.shape == value.shape
    elif kind == "tree":
        np.testing.assert_array_equal(back["a"][0], CLIP)
    else:
        np.testing.assert_array_equal(back, value)


def test_both_kinds_of_clips_are_decoded() -> None:
    pytest.importorskip("av")
    assert formats.decode_video(formats.encode_video(CLIP, format="webm", codec="vp9")).shape == CLIP.shape
    with pytest.raises(SpecError, match="format='mp4' with codec='vp9' cannot be written"):
        formats.encode_video(CLIP, codec="vp9")


def test_a_program_wraps_a_function(tmp_path: Path) -> None:
    encoders = {**formats.encoders, "tree": lambda value: formats.encode_tree({"wrapped": value})}
    with granular.DatasetWriter(tmp_path / "set", {"x": "tree"}, encoders) as writer:
        writer.append({"x": [1, 2]}, flush=True)
    with granular.DatasetReader(tmp_path / "set", formats.decoders) as reader:
        assert reader[0]["x"] == {"wrapped": [1, 2]}

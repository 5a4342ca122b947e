"""docs/compat-mxnet.md lists every public name and parameter."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

import bushel.compat.mxnet as mx

PAGE = Path(__file__).resolve().parents[3] / "docs" / "compat-mxnet.md"


def test_every_parameter_and_name_is_on_the_page() -> None:
    text = PAGE.read_text("utf-8")
    names = [field.name for field in fields(mx.io.Im2recParams)] + [*mx.recordio.__all__, *mx.gluon.data.__all__]
    assert [name for name in names if name not in text] == []


@pytest.mark.parametrize("module", [mx, mx.recordio, mx.io, mx.image, mx.gluon, mx.gluon.data, mx.gluon.data.vision])
def test_every_public_name_is_there(module: object) -> None:
    missing = [name for name in module.__all__ if not hasattr(module, name)]  # type: ignore[attr-defined]
    assert missing == []

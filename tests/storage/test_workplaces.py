"""Staging folders."""

from __future__ import annotations

from pathlib import Path

import pytest

import bushel
from bushel.storage import Staging


@pytest.mark.parametrize("name", ["..", "../x", "a/../../x", "/etc/x", "a//b", ""])
def test_names_that_lead_out_of_staging(tmp_path: Path, name: str) -> None:
    staging = Staging(tmp_path, "shard")
    with pytest.raises(bushel.errors.FormatError, match="not the name of a file in this folder"):
        staging.open(name)
    staging.discard()
    if name == "..":
        with pytest.raises(bushel.errors.FormatError, match="not the name"):
            Staging(tmp_path, name)
    assert list(tmp_path.iterdir()) == []

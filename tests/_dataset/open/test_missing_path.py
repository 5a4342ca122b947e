"""The error about a path that does not exist."""

from __future__ import annotations

from pathlib import Path

from bushel._dataset.open.source_paths import missing
from bushel.storage import as_path


def test_advice(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    assert str(missing(tmp_path / "trian")).endswith("trian: did you mean 'train'?")
    assert str(missing(tmp_path / "no" / "such")).endswith(f": {tmp_path} has no no")
    link = tmp_path / "link"
    link.symlink_to("nowhere")
    assert str(missing(link)).endswith("link: it is a symbolic link to nowhere, which does not exist")
    (tmp_path / "x-part-00000.tar").touch()
    assert "it was packed in parts: open" in str(missing(tmp_path / "x.tar"))
    assert str(missing(as_path("s3://bucket/set"))) == "no such file or folder: s3://bucket/set"

"""The error about a path that does not exist."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import bushel
from bushel._dataset.open.sources import expand_paths, missing
from bushel.storage import as_path


class Unreachable:
    """A path on a server that does not answer, as UPath has them."""

    name = "y"

    def open(self) -> None:
        """Be a path."""

    def exists(self) -> bool:
        raise OSError(-2, "Name or service not known")

    def __str__(self) -> str:
        return "ftp://nowhere/y"


def test_a_server_that_is_not_reached_is_named() -> None:
    with pytest.raises(OSError, match="ftp://nowhere/y"):
        expand_paths(Unreachable())


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


def test_links_that_lead_nowhere_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("b.tar", "c.tar"):
        (tmp_path / name).symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"[bc].tar: it is a symbolic link to nowhere"):
        bushel.open(tmp_path)
    with bushel.Writer(tmp_path / "a.tar", {"label": "int"}) as writer:
        writer.append({"label": 3}, key="k")
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert list(bushel.open(tmp_path).keys) == ["k"]
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}: left out links that lead nowhere: b.tar, c.tar"
    ]

"""A package that is not installed is named with the command that installs it, before data are read or written."""

from __future__ import annotations

import base64
import sys
import zlib
from pathlib import Path

import pytest
from tests.cli.running import fails

import bushel
from bushel.errors import MissingPackageError

NESTED = zlib.decompress(
    base64.b85decode(
        "c-m!9O>4t243#tC^^mJf3_j!%(?MF+L3iq9m$E_`C5PSJ&agt7W{LOlQ}%NwdmB5<#<DHFC+TT-*DMIAq_QUDha_nLAmf8VuyxVw"
        "IZ{*oAHo~pA_s`5xCnK-ghGyoXMb{pKzWrF82m@5U>kYMtdN}_gMXro<aQNZSYUe`17$IK>05vDUHlO;SvXLrjjk;i%5^0{e<vjN"
        "tF>C&$;NPBz=RberM9W92*(7!|0$S?{H7N!@f+3Hhd=(6MbM8?T-2vNg+e>w3#Mi7hL=|#W{19?xnVfJmv4R;kLRwuxt(9n7rJJ7"
        "CJhc?$8-Gx?({T$"
    )
)
"""A Parquet file of pyarrow with a text and a list of structs, in two rows."""

HEADS = {"heic": b"\0\0\0\x18ftypheic\0\0\0\0mif1heic", "jxl": b"\xff\x0a"}


@pytest.fixture
def nested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "x.parquet"
    path.write_bytes(NESTED)
    return path


def test_nested_columns_of_parquet(nested: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bushel.containers.parquet.table.scan_places", lambda *_: pytest.fail("a column was read"))
    with pytest.raises(MissingPackageError, match=r"x\.parquet: column 'nested'.* pip install 'bushel\[arrow\]'"):
        bushel.open(nested, index="memory")
    for command in ("info", "index", "verify"):
        assert "pip install 'bushel[arrow]'" in fails(command, nested)
    assert "pip install 'bushel[arrow]'" in fails("convert", nested, nested.parent / "out", "-c", "bag")
    assert [each.name for each in nested.parent.iterdir()] == ["x.parquet"]


@pytest.mark.parametrize(
    ("extension", "package", "extra"),
    [
        ("mp4", "av", "video"),
        ("flac", "av", "audio"),
        ("mp3", "av", "audio"),
        ("heic", "pillow_heif", "heif"),
        ("jxl", "pillow_jxl", "jxl"),
    ],
)
def test_values_of_codecs(
    extension: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    for number in range(4):
        (tmp_path / f"{number}.{extension}").write_bytes(HEADS.get(extension, b"") + bytes(100))
    dataset = bushel.open(tmp_path, index="memory")
    message = rf"needs {package}, which is not installed: pip install 'bushel\[{extra}\]'"
    with pytest.raises(MissingPackageError, match=message):
        dataset[0]
    for on_error in ("raise", "skip", "replace"):
        with pytest.raises(MissingPackageError, match=message):
            next(iter(bushel.Loader(dataset, 2, on_error=on_error)))
    assert f"pip install 'bushel[{extra}]'" in fails("verify", tmp_path, "--decode")
    assert len(dataset.read([0, 1], decode=False)) == 2

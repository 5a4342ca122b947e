"""Samples that are added to one file: it is cloned, or copied, which the log says."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import SPECS, make_samples
from tests._writer.killed_writer import SUFFIX

import bushel
from bushel.storage import whole


def add(path: Path, container: str, samples: list[Any], mode: Any = "append") -> None:
    with bushel.Writer(path, SPECS[container], container=container, mode=mode, sync=False) as writer:
        for sample in samples:
            writer.append({**dict.fromkeys(SPECS[container]), **sample})


@pytest.mark.parametrize("container", list(SUFFIX))
@pytest.mark.parametrize("error", [None, errno.EOPNOTSUPP, errno.EXDEV, errno.ENOTTY, errno.EIO])
def test_one_file_is_cloned_or_copied(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    container: str,
    error: int | None,
) -> None:
    def clone(target: int, request: int, source: int) -> None:
        assert request == 0x40049409
        if error is not None:
            raise OSError(error, os.strerror(error))
        os.sendfile(target, source, 0, os.fstat(source).st_size)

    samples = make_samples(container, 6)
    one, two = (tmp_path / f"{name}{SUFFIX[container]}" for name in ("one", "two"))
    add(one, container, samples, "create")
    add(two, container, samples[:4], "create")
    monkeypatch.setattr("fcntl.ioctl", clone)
    with caplog.at_level(logging.INFO, "bushel"):
        if error == errno.EIO:
            with pytest.raises(OSError, match=two.name):
                add(two, container, samples[4:])
            assert len(bushel.open(two, allow_incomplete=True)) == 4
            return
        add(two, container, samples[4:])
    assert two.read_bytes() == one.read_bytes()
    said = [record for record in caplog.records if "are copied to add samples" in record.message]
    assert bool(said) == (error is not None)
    assert all(record.levelno == logging.INFO and str(two) in record.message for record in said)


def test_a_large_copy_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(whole, "_LARGE_COPY", 10)
    monkeypatch.setenv("BUSHEL_PORTABLE", "1")
    (tmp_path / "x").write_bytes(b"x" * 10)
    whole.copy_to_append(tmp_path / "x", tmp_path / "y")
    assert (tmp_path / "y").read_bytes() == b"x" * 10
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("suffix", [".tar", ".rec", ".ffr"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_manifest_of_the_folder_follows_a_file_in_it(mode: Any, suffix: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for path in paths:
        with bushel.Writer(path, {"x": "int"}) as writer:
            writer.append({"x": 1}, key=path.stem)
    bushel.index(tmp_path)
    with bushel.Writer(paths[0], {"x": "int"}, mode=mode) as writer:
        writer.append({"x": 2}, key="c")
    for path, samples in ((paths[0], 1 + (mode == "append")), (tmp_path, 2 + (mode == "append"))):
        assert bushel.verify(path).ok
        assert len(bushel.open(path)) == samples

"""Single records, by offset, without an index."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bushel import kernels
from bushel.containers.recordio.scan import RecordSink, read_record
from bushel.errors import FormatError
from bushel.storage import open_file

MAGIC = bytes.fromhex("0a23d7ce")


@given(st.lists(st.lists(st.sampled_from([MAGIC, b"abcd", b"x"])).map(b"".join), min_size=1))
def test_a_written_dataset_is_read(tmp_path_factory: pytest.TempPathFactory, records: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("records") / "a.rec"
    sink = RecordSink(path)
    places = [sink.append(record) for record in records]
    sink.close()
    assert path.read_bytes() == b"".join(map(kernels.split_recordio, records))
    file = open_file(path)
    ends = [*places[1:], file.size]
    for record, place, end in zip(records, places, ends, strict=True):
        assert read_record(file, place) == (record, end)
        assert read_record(file, place, end) == (record, end)
        assert read_record(file, place, file.size) == (record, end)


@pytest.mark.parametrize("append", [False, True])
def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, append: bool) -> None:
    sink = RecordSink(tmp_path / "a.rec", append=append)
    sink.append(b"first")
    before = (tmp_path / "a.rec").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            sink.append(bytes(2000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "a.rec").read_bytes() == before
    assert sink.position == len(before)
    sink.append(b"second")
    sink.close()
    assert (tmp_path / "a.rec").read_bytes() == before + kernels.split_recordio(b"second")


@given(st.binary(max_size=60), st.integers(-8, 80), st.one_of(st.none(), st.integers(-8, 80)))
def test_any_bytes_are_a_record_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, tail: bytes, offset: int, end: int | None
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.rec"
    path.write_bytes(kernels.split_recordio(b"abc") + MAGIC + tail)
    try:
        record, behind = read_record(open_file(path), offset, end)
    except (FormatError, ValueError):
        return
    assert len(record) <= os.path.getsize(path)
    assert behind > offset

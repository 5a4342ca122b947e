"""Images, lists and record files in object stores, by a stand-in in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.sources.folders import jpeg
from tests.storage.objects.memory import Buckets

import bushel.compat.mxnet as mx
from bushel.storage import as_path, read_whole, write_whole

LIST = "5\t1\ta/0.jpg\n6\t0\ta/1.jpg\n7\t0\ts3://other/2.jpg\n8\t2\ta/none.jpg\n"


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    buckets = Buckets(monkeypatch, tmp_path / "scratch")
    for number, name in enumerate(["bucket/photos/a/0.jpg", "bucket/photos/a/1.jpg", "other/2.jpg"]):
        write_whole(as_path(f"s3://{name}"), jpeg(number))
    write_whole(as_path("s3://bucket/photos/some.lst"), LIST.encode())
    return buckets


def test_images_from_a_bucket(buckets: Buckets, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    params = {"pass_through": True, "num_workers": 2}
    made = mx.io.im2rec("s3://bucket/photos/some.lst", None, params, tmp_path)
    reader = mx.recordio.MXIndexedRecordIO(tmp_path / "some.idx", made, "r")
    assert [mx.recordio.unpack(reader.read_idx(key))[1] for key in reader.keys] == [jpeg(number) for number in range(3)]
    assert reader.keys == [5, 6, 7]
    assert "s3://bucket/photos/a/none.jpg" in caplog.text


def test_into_a_bucket_and_out_of_it(buckets: Buckets, tmp_path: Path) -> None:
    (tmp_path / "some.lst").write_text(LIST)
    params = {"root": "s3://bucket/photos", "resize": 6}
    for _ in range(2):
        made = mx.io.im2rec(tmp_path / "some.lst", None, params, "s3://bucket/out")
    assert made == "s3://bucket/out/some.rec"
    local = mx.io.im2rec(tmp_path / "some.lst", None, params, tmp_path)
    assert read_whole(as_path(made)) == Path(local).read_bytes()
    reader = mx.recordio.MXIndexedRecordIO("s3://bucket/out/some.idx", made, "r")
    assert mx.recordio.unpack_img(reader.read_idx(6))[0].id == 6
    [batch] = mx.io.ImageRecordIter(made, (3, 6, 6), 3)
    assert batch.label[0].tolist() == [1, 0, 0]

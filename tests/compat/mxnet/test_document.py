"""The examples of the design document of `im2rec`, word for word except for the import, and its table of parameters."""

# mypy: disable-error-code="assignment, attr-defined, no-untyped-def"

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.sources.folders import image_folder, jpeg

import bushel
import bushel.compat.mxnet as mx
from bushel.compat.mxnet.gluon.data.vision import transforms


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_writing_and_reading_a_record(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "img.jpg").write_bytes(jpeg(1))

    # fmt: off
    # Write a record
    label1 = [2,3]
    id1 = 2
    header1 = mx.recordio.IRHeader(0, label1, id1, 0)
    with open('img.jpg', 'rb') as fin:
        img = fin.read()
        s1 = mx.recordio.pack(header1, img)
    write_record = mx.recordio.MXIndexedRecordIO('img.idx', 'img.rec', 'w')
    write_record.write_idx(id1, s1)

    # Read record
    read_record = mx.recordio.MXIndexedRecordIO('img.idx', 'img.rec', 'r')
    item = read_record.read_idx(2)
    header, img = mx.recordio.unpack_img(item)
    print(header.label)
    # fmt: on

    assert capsys.readouterr().out == "[2. 3.]\n"
    assert img.shape == (12, 16, 3)


def test_the_ideal_workflow(here: Path) -> None:
    image_folder(here / "class", 3)
    list_filename, output_path = "some.lst", "out"
    Path(list_filename).write_text("7\t1\tclass/class0/0000.jpg\n2\t0\tclass/class1/0001.jpg\n")
    dataset_params = {"num_workers": 2, "batch_size": 4096, "pass_through": False, "pack_label": False, "parts": 1}

    # fmt: off
    imageTransform = transforms.Compose([
                                transforms.Resize(300),
                                transforms.ResizedCrop(224),
                                transforms.Brightness(0.1),
                                transforms.Normalize(0, 1)])
    # fmt: on

    rec_file_path = mx.io.im2rec(list_filename, imageTransform, dataset_params, output_path)

    assert rec_file_path == "out/some.rec"
    assert Path("out/some.idx").read_text().split("\t")[0] == "7"
    dataset = bushel.open(rec_file_path)
    assert [(sample["image"].shape, sample["label"], sample["__key__"]) for sample in dataset] == [
        ((224, 224, 3), 1.0, "7"),
        ((224, 224, 3), 0.0, "2"),
    ]


def test_a_block_of_ones_own(here: Path) -> None:
    class Upside(mx.gluon.HybridBlock):
        def hybrid_forward(self, F, x):  # noqa: ANN001, ANN202
            return F.flip(x, 0)

    (here / "a.jpg").write_bytes(jpeg(1, 16, 16))
    (here / "a.lst").write_text("0\t0\ta.jpg\n")
    mx.io.im2rec("a.lst", transforms.Compose([Upside()]), {"encoding": ".png"}, here)
    found = bushel.open(here / "a.rec")[0]["image"]
    assert np.array_equal(found, mx.image.imread(here / "a.jpg")[::-1])


def test_the_defaults_are_those_of_the_table() -> None:
    params = mx.io.Im2recParams()
    assert (params.num_workers, params.batch_size, params.pass_through, params.parts) == (1, 4096, False, 1)
    assert (params.color, params.encoding, params.inter_method, params.center_crop) == (1, ".jpg", 1, 0)

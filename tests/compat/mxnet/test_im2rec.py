"""`io.im2rec`: lists and arrays into record files."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.sources.folders import image_folder, jpeg, picture, png
from tests.storage.paths import Elsewhere

import bushel
import bushel.compat.mxnet as mx
from bushel.compat.mxnet.gluon.data.vision import transforms
from bushel.errors import TooManyErrors

LIST = "7\t1\tclass0/0000.jpg\n2\t0.5\tclass1/0001.jpg\n30\t2\t5.5\tclass2/0002.jpg\n4\t3\tclass0/0003.jpg\n"


@pytest.fixture
def listed(tmp_path: Path) -> Path:
    root = image_folder(tmp_path / "photos", 6)
    (root / "some.lst").write_text(LIST)
    return root / "some.lst"


def records(path: str | Path) -> list[tuple[mx.recordio.IRHeader, bytes]]:
    path = Path(path)
    reader = mx.recordio.MXIndexedRecordIO(path.with_suffix(".idx"), path, "r")
    return [mx.recordio.unpack(reader.read_idx(key)) for key in reader.keys]


class TestLists:
    def test_bytes_as_they_are(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(listed, None, {"pass_through": True}, tmp_path / "out")
        assert made == str(tmp_path / "out/some.rec")
        found = records(made)
        assert [(header.id, header.flag, header.label) for header, _ in found] == [
            (7, 0, 1),
            (2, 0, 0.5),
            (30, 0, 2),
            (4, 0, 3),
        ]
        assert [data for _, data in found] == [jpeg(number) for number in range(4)]
        assert (tmp_path / "out/some.idx").read_text().splitlines()[1].startswith("2\t")

    def test_all_labels(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(listed, None, {"pass_through": True, "pack_label": True}, tmp_path)
        found = records(made)
        assert [header.flag for header, _ in found] == [0, 0, 2, 0]
        assert found[2][0].label.tolist() == [2, 5.5]

    def test_any_number_of_workers_writes_the_same(self, listed: Path, tmp_path: Path) -> None:
        whole = [
            Path(
                mx.io.im2rec(listed, None, {"num_workers": workers, "resize": 8}, tmp_path / str(workers))
            ).read_bytes()
            for workers in (1, 2, 5)
        ]
        assert whole[0] == whole[1] == whole[2]

    def test_shuffling_is_a_choice(self, listed: Path, tmp_path: Path) -> None:
        def ids(**params: Any) -> list[int]:
            made = mx.io.im2rec(listed, None, {"pass_through": True, **params}, tmp_path)
            return [header.id for header, _ in records(made)]

        assert ids(num_workers=4) == [7, 2, 30, 4]
        assert ids(shuffle=True, seed=1) == ids(shuffle=True, seed=1, num_workers=4)
        assert sorted(ids(shuffle=True, seed=1)) == [2, 4, 7, 30]
        assert len({tuple(ids(shuffle=True, seed=seed)) for seed in range(5)}) > 1

    def test_a_root_and_a_name(self, listed: Path, tmp_path: Path) -> None:
        (tmp_path / "list.txt").write_text("0\t0\t0003.jpg\n")
        params = {"root": listed.parent / "class0", "name": "other", "pass_through": True}
        assert records(mx.io.im2rec(tmp_path / "list.txt", None, params, tmp_path))[0][1] == jpeg(3)
        assert (tmp_path / "other.rec").exists()

    def test_from_elsewhere(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(Elsewhere(listed), None, {"pass_through": True}, tmp_path)
        assert [data for _, data in records(made)] == [jpeg(number) for number in range(4)]

    def test_what_is_there_is_replaced(self, listed: Path, tmp_path: Path) -> None:
        for params in ({"pass_through": True}, {"resize": 5}):
            made = mx.io.im2rec(listed, None, params, tmp_path)
        assert bushel.open(made)[0]["image"].shape == (5, 6, 3)
        assert bushel.verify(made).ok

    def test_appending(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(listed, None, {"pass_through": True}, tmp_path)
        (listed.parent / "some.lst").write_text("50\t9\tclass1/0004.jpg\n")
        mx.io.im2rec(listed, None, {"pass_through": True, "mode": "append"}, tmp_path)
        assert [header.id for header, _ in records(made)] == [7, 2, 30, 4, 50]


class TestImages:
    @pytest.mark.parametrize(
        ("params", "shape"),
        [
            ({}, (12, 16, 3)),
            ({"resize": 6}, (6, 8, 3)),
            ({"resize": (5, 4)}, (4, 5, 3)),
            ({"center_crop": 1}, (12, 12, 3)),
            ({"center_crop": 1, "resize": 30}, (30, 30, 3)),
            ({"color": 0}, (12, 16)),
            ({"color": -1}, (12, 16, 3)),
            ({"resize": 24, "inter_method": 9}, (24, 32, 3)),
            ({"resize": 24, "inter_method": 10}, (24, 32, 3)),
        ],
    )
    @pytest.mark.parametrize("encoding", [".jpg", ".png"])
    def test_shapes(self, listed: Path, tmp_path: Path, params: dict[str, Any], shape: Any, encoding: str) -> None:
        made = mx.io.im2rec(listed, None, {**params, "encoding": encoding}, tmp_path)
        assert {sample["image"].shape for sample in bushel.open(made)} == {shape}
        start = b"\xff\xd8" if encoding == ".jpg" else b"\x89PNG"
        assert all(data.startswith(start) for _, data in records(made))

    def test_pixels(self, listed: Path, tmp_path: Path) -> None:
        (listed.parent / "class0/0000.jpg").write_bytes(png(0))
        made = mx.io.im2rec(listed, None, {"encoding": ".png", "resize": 6, "center_crop": True}, tmp_path)
        expected = mx.image.imresize(picture(0)[:, 2:14], 6, 6)
        assert np.array_equal(bushel.open(made)[0]["image"], expected)

    def test_quality(self, listed: Path, tmp_path: Path) -> None:
        def sizes(**params: Any) -> list[int]:
            return [len(data) for _, data in records(mx.io.im2rec(listed, None, params, tmp_path))]

        assert sizes(quality=10) < sizes(quality=95) == sizes()
        assert sizes(encoding=".png", quality=0) > sizes(encoding=".png") == sizes(encoding=".png", quality=3)

    def test_a_turned_image_is_stored_upright(self, listed: Path, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x112] = 6
        Image.open(io.BytesIO(jpeg(0))).save(listed.parent / "class0/0000.jpg", exif=exif)
        for color, height in ((1, 16), (0, 16), (-1, 12)):
            made = mx.io.im2rec(listed, None, {"color": color}, tmp_path)
            assert bushel.open(made)[0]["image"].shape[0] == height

    def test_transforms_come_first(self, listed: Path, tmp_path: Path) -> None:
        def darker(image: Any) -> Any:
            assert image.shape == (12, 16, 3)
            return image * 0.5

        made = mx.io.im2rec(listed, [darker], {"encoding": ".png", "resize": 6}, tmp_path)
        source = mx.image.imread(listed.parent / "class0/0000.jpg").asnumpy()
        half = np.rint(source * 0.5).astype(np.uint8)
        assert np.array_equal(bushel.open(made)[0]["image"], mx.image.imresize(half, 8, 6))

    def test_random_ones_do_not_depend_on_the_workers(self, listed: Path, tmp_path: Path) -> None:
        chosen: list[Any] = [
            transforms.RandomResizedCrop(9),
            transforms.RandomFlipLeftRight(),
            transforms.RandomHue(0.1),
        ]
        made = [
            Path(mx.io.im2rec(listed, chosen, {"num_workers": workers, "seed": seed}, tmp_path)).read_bytes()
            for workers, seed in ((1, 0), (4, 0), (1, 1))
        ]
        assert made[0] == made[1] != made[2]


class TestArrays:
    def test_images_and_labels(self, tmp_path: Path) -> None:
        images = np.stack([picture(number) for number in range(5)])
        labels = np.array([3, 1, 4, 1, 5])
        made = mx.io.im2rec(images, None, {"encoding": ".png", "labels": labels, "name": "pi"}, tmp_path)
        assert made == str(tmp_path / "pi.rec")
        dataset = bushel.open(made)
        assert np.array_equal(np.stack([sample["image"] for sample in dataset]), images)
        assert [header.id for header, _ in records(made)] == [0, 1, 2, 3, 4]
        assert [sample["label"] for sample in dataset] == labels.tolist()

    def test_vectors_and_grey(self, tmp_path: Path) -> None:
        images = np.stack([picture(number)[:, :, 0] for number in range(2)])
        made = mx.io.im2rec(images, None, {"encoding": ".png", "labels": [[1, 2], [3, 4.5]]}, tmp_path)
        assert [sample["label"].tolist() for sample in bushel.open(made)] == [[1, 2], [3, 4.5]]
        assert np.array_equal(bushel.open(made)[1]["image"], images[1])

    def test_wrong_arrays(self, tmp_path: Path) -> None:
        with pytest.raises(bushel.errors.SpecError, match="float64"):
            mx.io.im2rec(np.zeros((2, 3, 4)), None, {}, tmp_path)
        with pytest.raises(bushel.errors.SpecError, match="2 images"):
            mx.io.im2rec(np.zeros((2, 3, 4), np.uint8), None, {"labels": [1]}, tmp_path)


class TestErrors:
    @pytest.fixture
    def damaged(self, listed: Path) -> Path:
        (listed.parent / "class1/0001.jpg").unlink()
        whole = (listed.parent / "class2/0002.jpg").read_bytes()
        (listed.parent / "class2/0002.jpg").write_bytes(whole[: len(whole) // 2])
        listed.write_text(LIST + "no line at all\n")
        return listed

    def test_they_are_logged_and_passed_over(
        self, damaged: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.WARNING):
            made = mx.io.im2rec(damaged, None, {"num_workers": 3}, tmp_path)
        assert [header.id for header, _ in records(made)] == [7, 4]
        told = "\n".join(caplog.messages)
        assert "class1/0001.jpg: FileNotFoundError" in told
        assert "class2/0002.jpg: ImageError" in told
        assert "some.lst: FormatError: " in told
        assert "3 images could not be packed" in told
        log = [json.loads(line) for line in (tmp_path / "some.rec.errors.jsonl").read_text().splitlines()]
        assert [entry["position"] for entry in log] == [1, 2, 4]

    def test_up_to_a_limit(self, damaged: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(TooManyErrors):
            mx.io.im2rec(damaged, None, {"max_errors": 1}, tmp_path)
        assert not (tmp_path / "some.rec").exists()
        assert "class1/0001.jpg: FileNotFoundError" in caplog.text
        mx.io.im2rec(damaged, None, {"max_errors": 3}, tmp_path)
        mx.io.im2rec(damaged, None, {"max_errors": 0.6}, tmp_path)

    def test_bytes_that_are_kept_are_only_looked_at_if_requested(self, damaged: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(damaged, None, {"pass_through": True}, tmp_path)
        assert [header.id for header, _ in records(made)] == [7, 30, 4]
        made = mx.io.im2rec(damaged, None, {"pass_through": True, "check": True}, tmp_path)
        assert [header.id for header, _ in records(made)] == [7, 4]
        (damaged.parent / "class0/0003.jpg").write_bytes(b"no image")
        assert [header.id for header, _ in records(mx.io.im2rec(damaged, None, {"pass_through": 1}, tmp_path))] == [
            7,
            30,
        ]

    @pytest.mark.parametrize(
        ("params", "message"),
        [
            ({"workers": 3}, "no 'workers': there are num_workers"),
            ({"encoding": ".gif"}, "encoding"),
            ({"color": 2}, "color"),
            ({"resize": -1}, "resize"),
            ({"resize": (3, 0)}, "resize"),
            ({"inter_method": 7}, "7"),
            ({"parts": 0}, "parts"),
            ({"parts": 2, "part": 2}, "part=2 does not exist"),
            ({"labels": [1]}, "labels go with an array"),
            ({"pass_through": True}, "pass_through"),
        ],
    )
    def test_wrong_parameters(self, listed: Path, tmp_path: Path, params: dict[str, Any], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            mx.io.im2rec(listed, [transforms.Resize(3)], params, tmp_path)

    def test_a_tensor_is_no_image(self, listed: Path, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match="ToTensor"):
            mx.io.im2rec(listed, transforms.Compose([transforms.ToTensor()]), {}, tmp_path)


class TestParts:
    def test_all_at_once(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(listed, None, {"parts": 3, "pass_through": True}, tmp_path)
        assert made == [str(tmp_path / f"some-part-0000{number}.rec") for number in range(3)]
        assert [[header.id for header, _ in records(path)] for path in made] == [[7], [2], [30, 4]]

    def test_one_of_them(self, listed: Path, tmp_path: Path) -> None:
        made = mx.io.im2rec(listed, None, {"parts": 3, "part": 2, "pass_through": True}, tmp_path)
        assert made == str(tmp_path / "some-part-00002.rec")
        assert [header.id for header, _ in records(made)] == [30, 4]
        assert not (tmp_path / "some-part-00001.rec").exists()

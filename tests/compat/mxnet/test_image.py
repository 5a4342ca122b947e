"""Functions of images, augmenters, and `ImageIter`."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.folders import image_folder, jpeg, picture, png

import bushel.compat.mxnet as mx
from bushel.compat.mxnet import commands
from bushel.compat.mxnet.image.augment import YIQ, turned_hue
from bushel.errors import FormatError, UnsupportedError

IMAGE = picture(3, 40, 50)


class TestFunctions:
    def test_imdecode(self, tmp_path: Path) -> None:
        image = mx.image.imdecode(png(1))
        assert isinstance(image, mx.NDArray)
        assert np.array_equal(image.asnumpy(), picture(1))
        assert np.array_equal(mx.img.imdecode(np.frombuffer(png(1), np.uint8), to_rgb=0), picture(1)[:, :, ::-1])
        assert mx.image.imdecode(bytearray(png(1)), flag=0).shape == (12, 16, 1)
        out = np.zeros((12, 16, 3), np.uint8)
        mx.image.imdecode(png(2), out=out)
        assert np.array_equal(out, picture(2))
        (tmp_path / "a.png").write_bytes(png(3))
        assert np.array_equal(mx.image.imread(tmp_path / "a.png"), picture(3))
        with pytest.raises(ValueError, match="str"):
            mx.image.imdecode("text")
        with pytest.raises(mx.MXNetError, match="no image can be decoded"):
            mx.image.imdecode(b"text")

    def test_sizes(self) -> None:
        assert mx.image.scale_down((640, 480), (720, 120)) == (640, 106)
        assert mx.image.resize_short(IMAGE, 20).shape == (20, 25, 3)
        assert mx.image.resize_short(IMAGE.swapaxes(0, 1), 20).shape == (25, 20, 3)
        assert mx.image.fixed_crop(IMAGE, 1, 2, 3, 4).tolist() == IMAGE[2:6, 1:4].tolist()
        assert mx.image.fixed_crop(IMAGE, 1, 2, 3, 4, (7, 8)).shape == (8, 7, 3)
        crop, box = mx.image.center_crop(IMAGE, (21, 11), interp=1)
        assert box == (14, 14, 21, 11)
        assert np.array_equal(crop, IMAGE[14:25, 14:35])
        crop, box = mx.image.center_crop(IMAGE, (100, 100))
        assert (crop.shape, box) == ((100, 100, 3), (5, 0, 40, 40))

    def test_random_crops_lie_inside(self) -> None:
        for _ in range(50):
            crop, (left, top, width, height) = mx.image.random_crop(IMAGE, (30, 20))
            assert crop.shape == (20, 30, 3)
            assert np.array_equal(crop, IMAGE[top : top + height, left : left + width])
            crop, (left, top, width, height) = mx.image.random_size_crop(IMAGE, (9, 8), 0.3, (0.5, 2.0))
            assert crop.shape == (8, 9, 3)
            assert min(left, top) >= 0
            assert left + width <= 50
            assert top + height <= 40
        assert mx.image.random_size_crop(IMAGE, (9, 8), (1.0, 1.0), (5.0, 5.0))[1] == (20, 16, 9, 8)  # none fits

    def test_normalising(self) -> None:
        found = mx.image.color_normalize(IMAGE.astype(np.float32), [1, 2, 3], [2, 2, 4])
        assert np.allclose(found, (IMAGE - [1.0, 2, 3]) / [2, 2, 4])
        assert np.array_equal(mx.image.color_normalize(IMAGE, None), IMAGE)


class TestAugmenters:
    def test_the_usual_ones(self) -> None:
        chosen = mx.image.CreateAugmenter(
            (3, 20, 24), resize=30, rand_crop=True, rand_resize=True, rand_mirror=True, mean=True, std=True,
            brightness=0.1, contrast=0.1, saturation=0.1, hue=0.1, pca_noise=0.1, rand_gray=0.5,
        )  # fmt: skip
        names = "Resize RandomSizedCrop HorizontalFlip Cast ColorJitter HueJitter Lighting RandomGray ColorNormalize"
        assert [type(one).__name__ for one in chosen] == [f"{name}Aug" for name in names.split()]
        image: Any = IMAGE
        for augmenter in chosen:
            image = augmenter(image)
        assert (image.shape, image.dtype) == ((20, 24, 3), np.float32)
        assert json.loads(chosen[0].dumps()) == ["resizeaug", {"size": 30, "interp": 2}]
        assert mx.image.SequentialAug(chosen[:1]).dumps()[0] == "sequentialaug"

    def test_none_of_them_changes_its_input(self) -> None:
        image = IMAGE.astype(np.float32)
        for augmenter in mx.image.CreateAugmenter((3, 40, 50), mean=True, brightness=0.5, hue=0.5, pca_noise=1)[2:]:
            augmenter(image)
            assert np.array_equal(image, IMAGE)

    def test_numbers(self) -> None:
        image = IMAGE.astype(np.float32)
        assert np.allclose(turned_hue(image, 0.0), image @ np.linalg.inv(YIQ).T @ YIQ.T, atol=2)
        random.seed(0)
        factor = 1 + random.uniform(-0.5, 0.5)
        random.seed(0)
        assert np.allclose(mx.image.BrightnessJitterAug(0.5)(image), image * factor)
        grey = mx.image.RandomGrayAug(1.0)(image)
        assert np.ptp(grey, axis=2).max() == 0
        assert np.array_equal(mx.image.HorizontalFlipAug(1.0)(image), image[:, ::-1])
        assert np.array_equal(mx.image.LightingAug(0, [1, 2, 3], np.eye(3))(image), image)
        assert mx.image.ForceResizeAug((7, 9))(IMAGE).shape == (9, 7, 3)
        assert mx.image.CastAug("int64")(image).dtype == np.int64

    def test_wrong_use(self) -> None:
        with pytest.raises(ValueError, match="rand_crop"):
            mx.image.CreateAugmenter((3, 4, 4), rand_resize=True)
        with pytest.raises(ValueError, match="mean"):
            mx.image.CreateAugmenter((3, 4, 4), mean=[1, 2])
        with pytest.raises(NotImplementedError):
            mx.image.Augmenter()(IMAGE)


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str, str]:
    """A record file of 7 images, its index, its list and the folder of the images."""
    root, prefix = image_folder(tmp_path / "photos", 7, classes=2), str(tmp_path / "few")
    commands.im2rec(["--list", "--recursive", "--no-shuffle", prefix, str(root)])
    commands.im2rec(["--pass-through", prefix, str(root)])
    return f"{prefix}.rec", f"{prefix}.idx", f"{prefix}.lst", str(root)


LABELS = [0.0] * 4 + [1.0] * 3


class TestImageIter:
    def test_batches(self, files: tuple[str, str, str, str]) -> None:
        iterator = mx.image.ImageIter(4, (3, 12, 16), path_imgrec=files[0], path_imgidx=files[1])
        for _ in range(2):
            first, second = iterator
            assert (first.pad, second.pad) == (0, 1)
            assert first.data[0].shape == (4, 3, 12, 16)
            labels = [*first.label[0].tolist(), *second.label[0].tolist()]
            assert labels == [*LABELS, LABELS[0]]
            assert np.array_equal(first.data[0][0], mx.image.imdecode(jpeg(0)).transpose(2, 0, 1))
            assert np.array_equal(second.data[0][3], first.data[0][0])
            iterator.reset()

    def test_a_dataset_that_is_smaller_than_a_batch(self, files: tuple[str, str, str, str]) -> None:
        [batch] = mx.image.ImageIter(20, (3, 12, 16), path_imgrec=files[0])
        assert batch.pad == 13
        assert batch.label[0].tolist() == (LABELS * 3)[:20]

    def test_rolling_over_loses_nothing(self, files: tuple[str, str, str, str]) -> None:
        iterator = mx.image.ImageIter(3, (3, 8, 8), path_imglist=files[2], path_root=files[3],
                                      last_batch_handle="roll_over")  # fmt: skip
        seen = []
        for _ in range(3):
            batches = list(iterator)
            assert all(batch.pad == 0 for batch in batches)
            seen += [label for batch in batches for label in batch.label[0].tolist()]
            iterator.reset()
        assert seen == LABELS * 3
        assert len(seen) == 21

    def test_parts_lose_nothing(self, files: tuple[str, str, str, str]) -> None:
        seen = []
        for part in range(3):
            iterator = mx.image.ImageIter(
                1, (3, 8, 8), path_imgrec=files[0], path_imgidx=files[1], num_parts=3, part_index=part
            )
            seen += [batch.label[0].tolist()[0] for batch in iterator]
        assert seen == LABELS

    def test_shuffling_follows_the_module_random(self, files: tuple[str, str, str, str]) -> None:
        def order(seed: int) -> list[float]:
            random.seed(seed)
            iterator = mx.image.ImageIter(
                7, (3, 8, 8), path_imgrec=files[0], path_imgidx=files[1], shuffle=True, last_batch_handle="discard"
            )
            labels: list[float] = next(iterator).data[0].mean((1, 2, 3)).tolist()
            return labels

        assert order(1) == order(1) != order(2)

    def test_vectors(self, files: tuple[str, str, str, str]) -> None:
        rows = [[1, 2.5, "class0/0000.jpg"], [3, 4, "class1/0001.jpg"]]
        iterator = mx.image.ImageIter(2, (3, 8, 8), label_width=2, imglist=rows, path_root=files[3])
        assert next(iterator).label[0].tolist() == [[1, 2.5], [3, 4]]
        with pytest.raises(ValueError, match="label_width=1"):
            next(mx.image.ImageIter(2, (3, 8, 8), imglist=rows, path_root=files[3]))

    def test_a_broken_image_is_named(self, files: tuple[str, str, str, str]) -> None:
        (Path(files[3]) / "class0/0002.jpg").write_bytes(b"no image")
        iterator = mx.image.ImageIter(7, (3, 8, 8), path_imglist=files[2], path_root=files[3])
        with pytest.raises(RuntimeError, match=r"Broken image filename: class0/0002\.jpg"):
            iterator.next()

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"imglist": [], "data_shape": (1, 8, 8)},
            {"imglist": [], "part_index": 2, "num_parts": 2},
            {"imglist": [], "last_batch_handle": "drop"},
            {"imglist": [], "dtype": "uint8"},
            {"imglist": [], "mean": False},
        ],
    )
    def test_wrong_use(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=r".+"):
            mx.image.ImageIter(**{"batch_size": 2, "data_shape": (3, 8, 8), **options})

    def test_mistakes_in_the_order_of_the_original(self, files: tuple[str, str, str, str], tmp_path: Path) -> None:
        missing, odd = tmp_path / "no.rec", (1, 8, 8)
        with pytest.raises(AssertionError, match="dtype"):
            mx.image.ImageIter(2, odd, path_imgrec=missing, dtype="int8")
        with pytest.raises(FileNotFoundError):
            mx.image.ImageIter(2, odd, path_imglist=tmp_path / "no.lst", path_root=files[3])

    def test_labels_of_a_list_that_are_no_integers(self, tmp_path: Path) -> None:
        (tmp_path / "a.lst").write_text("0\t1.5\ta.jpg\n")
        with pytest.raises(TypeError, match=r"a\.lst: entry 0: the labels .*1\.5.* are not int32"):
            mx.image.ImageIter(1, (3, 8, 8), path_imglist=tmp_path / "a.lst", path_root=tmp_path, dtype="int32")

    def test_an_order_needs_an_index(self, files: tuple[str, str, str, str]) -> None:
        with pytest.raises(ValueError, match="path_imgidx"):
            mx.image.ImageIter(2, (3, 8, 8), path_imgrec=files[0], shuffle=True)


class TestImageRecordIter:
    def test_batches(self, files: tuple[str, str, str, str]) -> None:
        iterator = mx.io.ImageRecordIter(path_imgrec=files[0], data_shape=(3, 10, 12), batch_size=3, mean_r=5, scale=2)
        for _ in range(2):
            batches = list(iterator)
            assert [batch.pad for batch in batches] == [0, 0, 2]
            assert [batch.label[0].tolist() for batch in batches] == [LABELS[:3], LABELS[3:6], [1.0, 0.0, 0.0]]
            middle = mx.image.imdecode(jpeg(0)).asnumpy()[1:11, 2:14].transpose(2, 0, 1).astype(np.float32)
            middle[0] -= 5
            assert np.allclose(batches[0].data[0][0], middle * 2, atol=1e-4)
            assert batches[0].index.tolist() == [0, 1, 2]
            iterator.reset()

    def test_an_order_for_each_epoch(self, files: tuple[str, str, str, str]) -> None:
        iterator = mx.io.ImageRecordIter(files[0], (3, 8, 8), 7, shuffle=True, seed=3, rand_crop=True, rand_mirror=True)
        epochs = []
        for _ in range(3):
            [batch] = iterator
            epochs.append(batch.index.tolist())
            iterator.reset()
        assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1

    def test_parts(self, files: tuple[str, str, str, str]) -> None:
        seen: list[int] = []
        for part in range(3):
            iterator = mx.io.ImageRecordIter(files[0], (3, 8, 8), 1, num_parts=3, part_index=part)
            seen += [int(batch.index[0]) for batch in iterator]
        assert len(seen) == len(set(seen)) == 7

    @pytest.mark.parametrize(
        ("options", "shape", "dtype"),
        [
            ({"dtype": "uint8"}, (3, 8, 8), np.uint8),
            ({"dtype": "float16"}, (3, 8, 8), np.float16),
            ({"data_shape": (1, 8, 8)}, (1, 8, 8), np.float32),
            ({"resize": 9, "random_resized_crop": True, "min_random_area": 0.5}, (3, 8, 8), np.float32),
            ({"mirror": True, "brightness": 0.1}, (3, 8, 8), np.float32),
            ({"pca_noise": 0.1}, (3, 8, 8), np.float32),
        ],
    )
    def test_options(self, files: tuple[str, str, str, str], options: dict[str, Any], shape: Any, dtype: Any) -> None:
        iterator = mx.io.ImageRecordIter(
            **{"path_imgrec": files[0], "data_shape": (3, 8, 8), "batch_size": 2, **options}
        )
        data = next(iterator).data[0]
        assert (data.shape, data.dtype) == ((2, *shape), dtype)

    def test_labels_of_a_list(self, files: tuple[str, str, str, str], tmp_path: Path) -> None:
        lines = [line.split("\t") for line in Path(files[2]).read_text().splitlines()]
        (tmp_path / "other.lst").write_text("".join(f"{key}\t{key}.5\t7\t{name}\n" for key, _, name in lines))
        iterator = mx.io.ImageRecordIter(files[0], (3, 8, 8), 7, path_imglist=tmp_path / "other.lst", label_width=2)
        assert next(iterator).label[0].tolist() == [[int(key) + 0.5, 7.0] for key, _, _ in lines]

    def test_wrong_use(self, files: tuple[str, str, str, str], tmp_path: Path) -> None:
        with pytest.raises(UnsupportedError, match="max_rotate_angle=3"):
            mx.io.ImageRecordIter(files[0], (3, 8, 8), 1, max_rotate_angle=3)
        with pytest.raises(ValueError, match="use resize="):
            next(mx.io.ImageRecordIter(files[0], (3, 50, 50), 1))
        with mx.recordio.MXRecordIO(tmp_path / "raw.rec", "w") as writer:
            writer.write(b"text")
        with pytest.raises(FormatError, match="no image records"):
            mx.io.ImageRecordIter(tmp_path / "raw.rec", (3, 8, 8), 1)


class TestDatasets:
    def test_records(self, files: tuple[str, str, str, str]) -> None:
        dataset = mx.gluon.data.RecordFileDataset(files[0])
        assert len(dataset) == 7
        assert mx.recordio.unpack(dataset[-1])[1] == jpeg(5)

    def test_images(self, files: tuple[str, str, str, str]) -> None:
        dataset = mx.gluon.data.vision.ImageRecordDataset(files[0])
        image, label = dataset[1]
        assert np.array_equal(image, mx.image.imdecode(jpeg(2)))
        assert label == 0.0
        assert mx.gluon.data.vision.ImageRecordDataset(files[0], flag=0)[0][0].shape == (12, 16, 1)
        changed = mx.gluon.data.vision.ImageRecordDataset(files[0], transform=lambda data, label: label + 1)
        assert list(changed) == [label + 1 for label in LABELS]

    def test_views(self, files: tuple[str, str, str, str]) -> None:
        dataset = mx.gluon.data.vision.ImageRecordDataset(files[0])
        assert [len(dataset.shard(3, part)) for part in range(3)] == [3, 2, 2]
        assert len(dataset.filter(lambda sample: sample[1] == 1)) == 3
        assert [label for _, label in dataset.take(2)] == [0, 0]
        assert [label for _, label in dataset.sample([6, 0])] == [1, 0]
        shapes = dataset.transform_first(lambda image: image.shape, lazy=False)
        assert shapes[0] == ((12, 16, 3), 0.0)
        assert dataset.transform(lambda image, label: label)[6] == 1.0
        pairs = mx.gluon.data.ArrayDataset([1, 2], ["a", "b"])
        assert list(pairs) == [(1, "a"), (2, "b")]
        assert mx.gluon.data.SimpleDataset([5, 6]).transform_first(str)[0] == "5"
        with pytest.raises(ValueError, match="3 out of 3"):
            dataset.shard(3, 3)
        with pytest.raises(ValueError, match="same length"):
            mx.gluon.data.ArrayDataset([1], [1, 2])

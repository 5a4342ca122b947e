"""The first GulpIO's datasets, loader, samplers and transforms."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, write

from bushel.compat.gulpio2 import GulpDirectory
from bushel.compat.gulpio2.dataset import GulpImageDataset, GulpIOEmptyFolder, GulpVideoDataset
from bushel.compat.gulpio2.loader import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    default_collate,
)
from bushel.compat.gulpio2.transforms import (
    CenterCrop,
    Compose,
    ComposeVideo,
    JitterCrop,
    JitterCropVideo,
    Normalize,
    RandHorFlipVideo,
    RandomCrop,
    RandomCropVideo,
    RandVerFlipVideo,
    Scale,
    UnitNorm,
)


@pytest.fixture
def clips(tmp_path: Path) -> Path:
    items = [
        (f"v{n}", {"label": "ab"[n % 2]}, [np.full((8, 8, 3), 20 * k, np.uint8) for k in range(3 + 3 * n)])
        for n in range(4)
    ]
    folder = write(tmp_path / "clips", items, per_chunk=2)
    (folder / "label2idx.json").write_text('{"a": 0, "b": 1}')
    return folder


def numbers(frames: Any) -> list[int]:
    return [round(float(image.mean()) / 20) for image in frames]


def test_clips(clips: Path) -> None:
    dataset = GulpVideoDataset(str(clips), num_frames=2, step_size=2, is_val=True)
    assert len(dataset) == 4
    assert (dataset.num_chunks, list(dataset.classes)) == (2, ["a", "b"])
    frames, target = dataset[3]
    assert (frames.shape, target) == ((2, 8, 8, 3), 1)
    assert numbers(frames) == [0, 2]


def test_clips_begin_anywhere(clips: Path) -> None:
    dataset = GulpVideoDataset(clips, 4, 2, is_val=False)
    np.random.seed(1)
    found = [numbers(dataset[3][0]) for _ in range(6)]
    np.random.seed(1)
    assert found == [[start, start + 2, start + 4, start + 6] for start in (np.random.randint(0, 4) for _ in range(6))]
    assert numbers(GulpVideoDataset(clips, 4, 2, is_val=False, random_offset=False)[3][0]) == [0, 2, 4, 6]


@pytest.mark.parametrize("stack", [True, False])
def test_short_videos_repeat_their_last_frame(clips: Path, stack: bool) -> None:
    frames, _ = GulpVideoDataset(clips, 5, 2, is_val=True, stack=stack)[0]
    assert isinstance(frames, np.ndarray) == stack
    assert numbers(frames) == [0, 2, 2, 2, 2]
    assert numbers(GulpVideoDataset(clips, -1, 1, is_val=True)[1][0]) == [0, 1, 2, 3, 4, 5]


def test_transforms_of_clips_and_targets(clips: Path) -> None:
    dataset = GulpVideoDataset(clips, 2, 1, True, transform=lambda f: f[::-1], target_transform=lambda t: -t)
    frames, target = dataset[1]
    assert (numbers(frames), target) == ([1, 0], -1)


def test_images(tmp_path: Path) -> None:
    folder = write(tmp_path / "d", [(n, {"label": "x"}, [frame(n)]) for n in range(3)] + [("v", {"label": "x"}, [])])
    with pytest.raises(FileNotFoundError):
        GulpImageDataset(folder)
    (folder / "label2idx.json").write_text('{"x": 5}')
    dataset = GulpImageDataset(str(folder), transform=Scale(12))
    assert len(dataset) == 4
    image, target = dataset[1]
    assert (image.shape, target) == ((12, 18, 3), 5)
    with pytest.raises(ValueError, match="item 'v' is not an image: it has 0 frames"):
        dataset[3]
    (tmp_path / "empty").mkdir()
    for make in (GulpImageDataset, lambda path: GulpVideoDataset(path, 1, 1, True)):
        with pytest.raises(GulpIOEmptyFolder, match="Found 0 data binaries"):
            make(tmp_path / "empty")


class Squares:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> tuple[Any, dict[str, Any]]:
        if index > 9:
            raise IndexError(index)
        return np.full((2, 3), index), {"square": index**2, "name": str(index)}


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_loader(workers: int) -> None:
    loader = DataLoader(Squares(), batch_size=4, num_workers=workers)
    assert len(loader) == 3
    batches = list(loader)
    assert [batch[0].shape for batch in batches] == [(4, 2, 3), (4, 2, 3), (2, 2, 3)]
    assert [number for _, meta in batches for number in meta["square"].tolist()] == [n**2 for n in range(10)]
    assert batches[2][1]["name"] == ["8", "9"]
    assert len(list(DataLoader(Squares(), 4, drop_last=True, num_workers=workers))) == 2
    np.random.seed(2)
    loader = DataLoader(Squares(), 3, shuffle=True, num_workers=workers)
    shuffled = [int(value) for batch, _ in loader for value in batch[:, 0, 0]]
    np.random.seed(2)
    assert shuffled == np.random.permutation(10).tolist() != list(range(10))
    chosen = DataLoader(Squares(), batch_sampler=[[9, 0], [5]], collate_fn=lambda b: [int(x.max()) for x, _ in b])
    assert list(chosen) == [[9, 0], [5]]
    with pytest.raises(IndexError):
        list(DataLoader(Squares(), sampler=[1, 10], num_workers=workers))


def test_loader_refuses_what_excludes_each_other() -> None:
    for options in (
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"sampler": [1], "shuffle": True},
        {"num_workers": -1},
        {"batch_size": 0},
    ):
        with pytest.raises(ValueError):
            DataLoader(Squares(), **options)


def test_samplers() -> None:
    assert list(SequentialSampler(Squares())) == list(range(10))
    assert sorted(RandomSampler(Squares())) == list(range(10))
    subset = SubsetRandomSampler([3, 5, 7])
    assert (sorted(subset), len(subset)) == ([3, 5, 7], 3)
    batches = BatchSampler(SequentialSampler(Squares()), 4, False)
    assert (list(batches)[2], len(batches)) == ([8, 9], 3)


def test_collate() -> None:
    assert default_collate([1, 2]).tolist() == [1, 2]
    assert default_collate([np.float32(1), np.float32(2)]).dtype == np.float32
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]
    assert default_collate([{"a": 1}, {"a": 2}])["a"].tolist() == [1, 2]
    with pytest.raises(TypeError):
        default_collate([object()])


def test_flips_and_compositions() -> None:
    clip = [frame(n) for n in range(3)]
    random.seed(0)
    draws = [random.random() < 0.5 for _ in range(10)]
    assert {True, False} == set(draws)
    for flip, turned in ((RandHorFlipVideo(), np.s_[:, ::-1]), (RandVerFlipVideo(), np.s_[::-1])):
        random.seed(0)
        for drawn in draws:
            for image, original in zip(flip(clip), clip, strict=True):
                np.testing.assert_array_equal(image, original[turned] if drawn else original)
    whole = ComposeVideo([CenterCrop(8), Compose([Scale((4, 6))])], [lambda imgs: np.stack(imgs)])
    assert whole(clip).shape == (3, 6, 4, 3)
    assert clip[0].shape == (24, 36, 3)


def test_normalisation() -> None:
    image = frame(2)
    found = Normalize([1, 2, 3], [2, 4, 8])(image)
    np.testing.assert_allclose(found, (image - np.array([1, 2, 3])) / np.array([2, 4, 8]), rtol=1e-6)
    found = UnitNorm()(image)
    assert (bool(abs(found.mean()) < 1e-9), round(float(found.std()), 6)) == (True, 1.0)


def test_crops() -> None:
    image = frame(3)
    np.testing.assert_array_equal(CenterCrop(8)(image), image[8:16, 14:22])
    assert CenterCrop((10, 20))(image).shape == (10, 20, 3)
    assert CenterCrop(48)(image).shape == (48, 48, 3)
    random.seed(5)
    x, y = random.randint(0, 28), random.randint(0, 16)
    random.seed(5)
    np.testing.assert_array_equal(RandomCrop(8)(image), image[y : y + 8, x : x + 8])
    clip = RandomCropVideo((4, 6), padding=2)([image, image])
    assert [part.shape for part in clip] == [(4, 6, 3)] * 2
    np.testing.assert_array_equal(clip[0], clip[1])
    assert RandomCrop(40, padding=(2, 8, 2, 8))(image).shape == (40, 40, 3)
    with pytest.raises(ValueError, match="no crop of 40x40"):
        RandomCrop(40)(image)
    random.seed(6)
    shapes = {JitterCrop([8, 16])(image).shape for _ in range(30)}
    assert shapes == {(h, w, 3) for h in (8, 16) for w in (8, 16)}
    first, second = JitterCropVideo([8, 16])([image, image])
    np.testing.assert_array_equal(first, second)


def test_scale() -> None:
    image = frame(4)
    assert Scale(24)(image) is image
    np.testing.assert_array_equal(Scale(12)(image), np.asarray(Image.fromarray(image).resize((18, 12), 2)))
    assert Scale(12)(image.transpose(1, 0, 2)).shape == (18, 12, 3)
    assert Scale((10, 20), interpolation=0)(image).shape == (20, 10, 3)
    with pytest.raises(ValueError, match="width, height"):
        Scale((1, 2, 3))


def test_a_dataset_of_the_original(golden: Path) -> None:
    dataset = GulpImageDataset(golden / "gulpio2-0.0.4" / "image-folder" / "data")
    labels = json.loads((golden / "gulpio2-0.0.4" / "image-folder" / "data" / "label2idx.json").read_text())
    directory = GulpDirectory(dataset.data_path)
    for index, (id_, entry) in enumerate(directory.merged_meta_dict.items()):
        image, target = dataset[index]
        np.testing.assert_array_equal(image, directory[id_][0][0])
        assert target == labels[entry["meta_data"][0]["label"]]

"""Results of `mxnet.image` and the vision transforms, the same for both: ``mxnet_images.py PACKAGE PHOTO…``."""

from __future__ import annotations

import hashlib
import importlib
import random
import sys

import numpy as np


def exact(value) -> str:  # noqa: ANN001
    """Return shape, dtype and digest of an array."""
    array = np.ascontiguousarray(value.asnumpy())
    return f"{array.shape} {array.dtype} {hashlib.sha256(array.tobytes()).hexdigest()[:16]}"


def near(value) -> str:  # noqa: ANN001
    """Return shape, dtype and coarse statistics of an array, for pixels that agree only within a level."""
    array = value.asnumpy()
    part = array[: array.shape[0] // 2].astype(np.float64)
    return f"{array.shape} {array.dtype} {array.mean():.0f} {part.mean():.0f} {array.std():.0f}"


def main() -> None:
    """Print a line per test."""
    package = sys.argv[1]
    image = importlib.import_module(f"{package}.image")
    transforms = importlib.import_module(f"{package}.gluon.data.vision.transforms")
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            content = file.read()
        for flag in (1, 0):
            print(
                "imdecode", exact(image.imdecode(content, flag=flag)), exact(image.imdecode(bytearray(content), flag))
            )
        print("bgr", exact(image.imdecode(content, to_rgb=0)), exact(image.imread(path)))
        picture = image.imdecode(content)
        height, width = picture.shape[:2]
        for method in (0, 1, 3):
            for size in (
                (width // 2, height // 2),
                (97, 64),
                (width * 3 // 5, height * 2 // 3),
                (width + 9, height + 40),
            ):
                print("imresize", method, size, exact(image.imresize(picture, *size, interp=method)))
        print("imresize cubic", near(image.imresize(picture, 300, 200, interp=2)))
        print("imresize lanczos", near(image.imresize(picture, 300, 200, interp=4)))
        print("scale_down", image.scale_down((640, 480), (720, 120)), image.scale_down((100, 300), (224, 224)))
        print("resize_short", exact(image.resize_short(picture, 256, interp=1)), near(image.resize_short(picture, 99)))
        crop, box = image.center_crop(picture, (224, 160), interp=1)
        print("center_crop", exact(crop), box)
        crop, box = image.center_crop(picture, (900, 700), interp=1)
        print("center_crop larger", exact(crop), box)
        print("fixed_crop", exact(image.fixed_crop(picture, 5, 6, 70, 80)))
        print("fixed_crop", exact(image.fixed_crop(picture, 5, 6, 70, 80, (35, 50), 1)))
        random.seed(1)
        np.random.seed(1)
        for _ in range(3):
            crop, box = image.random_crop(picture, (200, 100), interp=1)
            print("random_crop", exact(crop), box)
            crop, box = image.random_size_crop(picture, (224, 224), (0.08, 1), (3 / 4, 4 / 3), interp=1)
            print("random_size_crop", exact(crop), box)
        shape = (3, 120, 150)
        every = {
            "rand_crop": True,
            "rand_resize": True,
            "rand_mirror": True,
            "mean": True,
            "std": True,
            "inter_method": 1,
        }
        for options in (
            {},
            {"resize": 200},
            every,
            {"brightness": 0.3, "contrast": 0.2, "saturation": 0.4, "hue": 0.2},
        ):
            augmented = picture
            augmenters = image.CreateAugmenter(shape, **options)
            print("CreateAugmenter", [type(one).__name__ for one in augmenters])
            for augmenter in augmenters:
                augmented = augmenter(augmented)
            print("augmented", near(augmented))
        noisy = image.CreateAugmenter(shape, pca_noise=0.1, rand_gray=0.5)
        print("dumps", noisy[0].dumps(), [type(one).__name__ for one in noisy])

        chosen = {
            "Resize": transforms.Resize((120, 90)),
            "Resize square": transforms.Resize(100),
            "Resize short": transforms.Resize(100, keep_ratio=True),
            "CenterCrop": transforms.CenterCrop((100, 80)),
            "CenterCrop square": transforms.CenterCrop(64),
            "CropResize": transforms.CropResize(10, 20, 60, 50),
            "CropResize to": transforms.CropResize(10, 20, 60, 50, (30, 40), 1),
            "ToTensor": transforms.ToTensor(),
            "Cast": transforms.Cast("float64"),
            "Compose": transforms.Compose([transforms.Resize(80), transforms.CenterCrop(64), transforms.ToTensor()]),
        }
        for name, transform in chosen.items():
            print(name, exact(transform(picture)))
        normalised = transforms.Normalize((0.4, 0.5, 0.6), (0.2, 0.3, 0.4))(transforms.ToTensor()(picture))
        print("Normalize", normalised.shape, f"{normalised.asnumpy().mean():.4f} {normalised.asnumpy().std():.4f}")
        tensor = transforms.ToTensor()(picture)
        for angle, zoom_in, zoom_out in ((30, False, False), (-100.5, True, False), (75, False, True)):
            turned = transforms.Rotate(angle, zoom_in, zoom_out)(tensor).asnumpy()
            part = [f"{turned[:, row, column].sum():.2f}" for row in (3, 70, 200) for column in (2, 60, 250)]
            print("Rotate", turned.shape, part, f"{turned.mean():.3f}")
        random.seed(2)
        print("RandomResizedCrop", exact(transforms.RandomResizedCrop((64, 48))(picture)))
        jitters = {
            "RandomBrightness": transforms.RandomBrightness(0),
            "RandomContrast": transforms.RandomContrast(0),
            "RandomSaturation": transforms.RandomSaturation(0),
            "RandomLighting": transforms.RandomLighting(0),
        }
        for name, transform in jitters.items():
            print(name, near(transform(picture)))


if __name__ == "__main__":
    main()

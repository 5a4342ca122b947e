"""Images that a device decodes: which, with which crops, and what becomes of errors. The CPU stands in for it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.loader.device.cpu_decoder import CpuDeviceDecoder, check_device_decoder

import bushel
from bushel.errors import BushelError, CodecError
from bushel.loader.device import device_step
from bushel.loader.device.device import goes_to_device
from bushel.loader.device.device_step import Tuning
from bushel.testing.expect import ConformanceError
from bushel.transforms import (
    CenterCrop,
    ColorJitter,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToCHW,
)
from bushel.transforms.geometry import Geometry

torch = pytest.importorskip("torch")

CROPS = [RandomResizedCrop(32), RandomHorizontalFlip()]
COUNT = 24


def picture(seed: int, width: int = 800, height: int = 600, **options: Any) -> bytes:
    small = Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 8, 3), np.uint8))
    stream = io.BytesIO()
    mode = options.pop("mode", "RGB")
    image = small.resize((width, height), Image.Resampling.BICUBIC).convert(mode)
    image.save(stream, options.pop("format", "JPEG"), **options)
    return stream.getvalue()


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    path = tmp_path_factory.mktemp("device") / "data"
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="tar") as writer:
        for number in range(COUNT):
            kinds: dict[int, dict[str, Any]] = {5: {"progressive": True}, 6: {"mode": "L"}, 7: {"mode": "CMYK"}}
            options = kinds.get(number, {})
            width = 20 if number == 8 else 800
            writer.append({"image": picture(number, width, **options), "label": number}, key=f"k{number}")
    return bushel.open(path)


def loaders(ds: bushel.Dataset, decoder: Any = None, **options: Any) -> tuple[bushel.Loader, bushel.Loader]:
    """Return the loader of the CPU, and that with a decoder."""
    options = {"batch_size": 8, "shuffle": True, "seed": 3, "to": "torch", "transforms": CROPS, **options}
    share = options.pop("share", 1)
    other = bushel.Loader(ds, decode="device", decoder=decoder or CpuDeviceDecoder(), share=share, **options)
    return bushel.Loader(ds, **options), other


def assert_equal(one: Any, other: Any) -> None:
    assert list(one) == list(other)
    for name, value in one.items():
        if torch.is_tensor(value):
            assert value.dtype == other[name].dtype
            assert torch.equal(value, other[name]), name
        else:
            assert value == other[name]


@pytest.mark.parametrize("threads", [0, 2])
@pytest.mark.parametrize("share", [1, 0.5, 0, "tuned"])
@pytest.mark.parametrize("more", [[], [Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.3)), ToCHW()], [ToCHW()]], ids=str)
def test_batches_are_those_of_the_cpu(ds: bushel.Dataset, threads: int, share: Any, more: list[Any]) -> None:
    decoder = CpuDeviceDecoder()
    plain, device = loaders(ds, decoder, threads=threads, share=share, transforms=[*CROPS, *more])
    for epoch in range(2):
        for one, other in zip(plain, device, strict=True):
            assert_equal(one, other)
        assert plain.state_dict() == device.state_dict(), epoch
    decoded = device.stats().device_images
    assert decoded == sum(decoder.batches)
    if share == 1:
        assert decoded == 2 * (COUNT - 3)  # but progressive, CMYK and small ones
        assert "images decoded on the device" in str(device.stats())
    elif share == 0:
        assert not decoder.batches
    else:
        assert 0 < decoded < 2 * (COUNT - 3)


def test_a_whole_batch_of_the_device_is_not_copied(ds: bushel.Dataset) -> None:
    made: list[Any] = []

    class Kept(CpuDeviceDecoder):
        def decode(self, images: Any) -> Any:
            pixels, errors = super().decode(images)
            made.append(torch.from_numpy(pixels))
            return made[-1], errors

    _, device = loaders(ds[9:17], Kept(), shuffle=False)
    [batch] = device
    assert batch["image"].data_ptr() == made[0].data_ptr()


def test_the_decoder_gets_one_buffer_and_crops(ds: bushel.Dataset) -> None:
    seen: list[Any] = []

    class Seen(CpuDeviceDecoder):
        def decode(self, images: Any) -> Any:
            assert images.size == (32, 32)
            assert images.device is None
            assert len(images) == 8
            assert images.offsets.dtype == np.int64
            seen.append([bytes(images.data(number)) for number in range(len(images))])
            assert b"".join(seen[-1]) == images.buffer.tobytes()
            assert ((images.boxes[:, 2:] - images.boxes[:, :2]) > 0).all()
            assert (images.scaled == 32).all()
            return super().decode(images)

    _, device = loaders(ds[9:17], Seen(), shuffle=False)
    list(device)
    assert seen[0] == [each["image"] for each in ds.read(range(9, 17), decode=False)]


def test_which_images_go_to_the_device() -> None:
    whole = Geometry.whole(800, 600)
    assert goes_to_device(picture(0), whole)
    assert goes_to_device(picture(0) + bytes(20), whole)  # padding at the end
    assert goes_to_device(picture(0, mode="L"), whole)
    assert goes_to_device(picture(0, exif=b"Exif\x00\x00" + bytes(3000)), whole)
    assert not goes_to_device(picture(0, progressive=True), whole)
    assert not goes_to_device(picture(0, mode="CMYK"), whole)
    assert not goes_to_device(picture(0)[:-100], whole)  # truncated
    assert not goes_to_device(picture(0, format="PNG"), whole)
    assert not goes_to_device(picture(0), Geometry((0, 0, 100, 90), (32, 32), (0, 0, 32, 32)))  # small
    for stop in range(0, 700, 7):
        assert not goes_to_device(picture(0)[:stop], whole)


def test_images_that_the_device_refuses_are_decoded_on_the_cpu(ds: bushel.Dataset) -> None:
    decoder = CpuDeviceDecoder(lambda data: "no" if len(data) % 2 else None)
    plain, device = loaders(ds, decoder)
    for one, other in zip(plain, device, strict=True):
        assert_equal(one, other)
    stats = device.stats()
    assert 0 < stats.device_refused < COUNT
    assert stats.device_refused + stats.device_images == COUNT - 3
    assert "refused there" in str(stats)


def test_a_device_without_memory_warns_once(ds: bushel.Dataset) -> None:
    class Full(CpuDeviceDecoder):
        def decode(self, images: Any) -> Any:
            raise MemoryError("8 of 8 GB are used")

    plain, device = loaders(ds, Full(), threads=0)
    with pytest.warns(UserWarning, match="no memory for .* images, which are decoded on the CPU") as caught:
        found = list(device)
    assert len(caught) == 1
    for one, other in zip(plain, found, strict=True):
        assert_equal(one, other)
    assert device.stats().device_images == 0


@pytest.mark.parametrize("how", ["raise", "skip", "replace"])
def test_damaged_images_are_bad_samples_as_on_the_cpu(tmp_path: Path, how: Any) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="bag") as writer:
        for number in range(12):
            data = picture(number)
            if number == 7:  # its header and its end are intact
                middle = len(data) // 2
                data = data[:middle] + b"\xff\xd9" + data[-2:]
            writer.append({"image": data, "label": number}, key=f"k{number}")
    damaged = bushel.open(tmp_path / "data")
    plain, device = loaders(damaged, CpuDeviceDecoder(), on_error=how, batch_size=4)
    if how == "raise":
        with pytest.raises(BushelError) as one:
            list(plain)
        with pytest.raises(BushelError) as other:
            list(device)
        assert str(one.value) == str(other.value)
        assert one.value.__notes__ == other.value.__notes__
        return
    for first, second in zip(plain, device, strict=True):
        assert_equal(first, second)
    assert [each.key for each in device.errors] == [each.key for each in plain.errors] == ["k7"]
    assert str(device.errors[0]) == str(plain.errors[0])


def test_a_batch_transform_gets_the_tensor(ds: bushel.Dataset) -> None:
    def negative(batch: Any) -> Any:
        assert torch.is_tensor(batch["image"])
        return {**batch, "image": 255 - batch["image"]}

    plain, device = loaders(ds)
    turned = loaders(ds, batch_transform=negative)[1]
    for one, other in zip(plain, turned, strict=True):
        assert torch.equal(255 - one["image"], other["image"])
    assert pickle.loads(pickle.dumps(device)).peek(1)["image"].shape == (8, 32, 32, 3)


def test_images_with_an_orientation_stay_on_the_cpu(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    with bushel.Writer(tmp_path / "data", {"image": "jpg"}, container="tar") as writer:
        for number in range(4):
            writer.append({"image": picture(number, exif=exif) if number < 2 else picture(number)}, key=f"k{number}")
    turned = bushel.open(tmp_path / "data")
    decoder = CpuDeviceDecoder()
    plain, device = loaders(turned, decoder, exif_rotate=True, batch_size=4)
    assert_equal(*(next(iter(each)) for each in (plain, device)))
    assert decoder.batches == [2]


def tuned(monkeypatch: pytest.MonkeyPatch, *, host: float, cpu: float, device: float, seconds: float = 20) -> float:
    """Return the share after some seconds in which both sides were busy for these parts of the time."""
    clock = [0.0]
    monkeypatch.setattr(device_step, "perf_counter", lambda: clock[0])
    tuning = Tuning("tuned", threads=4)
    for _ in range(int(seconds / 0.05)):  # a batch on the device in this time
        with tuning.on_device(), tuning.on_device():  # of batches that are decoded at once, time counts once
            clock[0] += 0.05 * device * tuning.share
        busy = 0.05 * host * (1 - tuning.share)
        tuning.on_host(4 * busy, 4 * busy * cpu)
        clock[0] += 0.05 * (1 - device * tuning.share)
    return tuning.share


def test_a_share_is_tuned_until_both_sides_are_equally_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tuned(monkeypatch, host=0.8, cpu=1.0, device=0.2) == pytest.approx(0.8, abs=0.03)
    assert tuned(monkeypatch, host=0.3, cpu=0.95, device=0.9) == pytest.approx(0.25, abs=0.03)
    assert tuned(monkeypatch, host=0.5, cpu=0.6, device=1.0) > 0.97  # the threads wait for processors
    assert tuned(monkeypatch, host=0, cpu=1, device=1) == pytest.approx(0.02, abs=0.03)
    assert tuned(monkeypatch, host=0.8, cpu=1.0, device=0.2, seconds=0.1) == 0.75


def test_a_fixed_share_takes_the_same_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    fixed = Tuning(0.25, threads=2)
    with fixed.on_device():
        monkeypatch.setattr(device_step, "perf_counter", lambda: 1e9)
    assert fixed.share == 0.25
    taken = [number for number in range(10_000) if fixed.takes(number)]
    assert abs(len(taken) - 2500) < 20
    assert not any(Tuning(0, 1).takes(number) for number in range(100))
    assert all(Tuning(1, 1).takes(number) for number in range(100))


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"decode": "gpu"}, TypeError, "expected True, False or 'device'"),
    ({"decode": "device"}, ValueError, 'needs device="cuda", or decoder='),
    ({"decode": "device", "decoder": 3}, TypeError, "no method decode"),
    ({"decoder": CpuDeviceDecoder()}, ValueError, 'need decode="device"'),
    ({"decode": "device", "decoder": CpuDeviceDecoder(), "to": "numpy"}, ValueError, 'add to="torch"'),
    ({"decode": "device", "decoder": CpuDeviceDecoder(), "share": 2}, ValueError, "share=2"),
    ({"decode": "device", "decoder": CpuDeviceDecoder(), "processes": 1}, ValueError, "leave out processes="),
    ({"decode": "device", "decoder": CpuDeviceDecoder(), "batch_size": None}, ValueError, "batch_size=None"),
    (
        {"decode": "device", "decoder": CpuDeviceDecoder(), "transforms": [Resize(40), ColorJitter(0.1)]},
        ValueError,
        "batch_transform=",
    ),
    ({"decode": "device", "decoder": CpuDeviceDecoder(), "transforms": None}, ValueError, "needs an image field"),
]


@pytest.mark.parametrize(("options", "kind", "text"), MISTAKES, ids=[text for _, _, text in MISTAKES])
def test_mistakes(ds: bushel.Dataset, options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        bushel.Loader(ds, **{"batch_size": 4, "to": "torch", "transforms": [CenterCrop(16)], **options})


def test_a_decoder_that_returns_something_else_is_an_error(ds: bushel.Dataset) -> None:
    class Wrong:
        def decode(self, images: Any) -> Any:
            return np.zeros((len(images), 3, *images.size), np.uint8), {}

    _, device = loaders(ds, Wrong())
    with pytest.raises(CodecError, match=r"Wrong returned torch.uint8\[.*expected uint8"):
        list(device)


def test_the_suite_for_decoders() -> None:
    check_device_decoder(CpuDeviceDecoder())

    def spoiled(change: Callable[[Any, Any], Any]) -> Any:
        class Spoiled(CpuDeviceDecoder):
            def decode(self, images: Any) -> Any:
                return change(*super().decode(images))

        return Spoiled()

    for change, text in (
        (lambda pixels, errors: (pixels[:, :, ::-1].copy(), errors), "within 1 level"),
        (lambda pixels, errors: (pixels, {0: "no"}), "no errors"),
        (lambda pixels, errors: (pixels[1:].copy(), errors), "expected uint8"),
    ):
        with pytest.raises(ConformanceError, match=text):
            check_device_decoder(spoiled(change))

"""Photos that a GPU of NVIDIA decodes. Without one, the kernel runs on the CPU, and nvImageCodec has a stand-in."""

from __future__ import annotations

import ctypes
import io
import pickle
import shutil
import subprocess
import sys
import threading
from importlib.resources import files
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.loader.device.cpu_decoder import check_device_decoder

import bushel
from bushel.errors import MissingPackageError
from bushel.loader import EncodedImages, NvidiaDecoder
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW

torch = pytest.importorskip("torch")

from bushel.loader.device import nvidia  # noqa: E402
from bushel.loader.device.nvidia import CROP  # noqa: E402

CROPS: list[Any] = [RandomResizedCrop(96), RandomHorizontalFlip()]
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch has no GPU here")


def photo(seed: int, width: int = 640, height: int = 480, **options: Any) -> bytes:
    rng = np.random.default_rng(seed)
    image = Image.fromarray(rng.integers(0, 256, (12, 16, 3), np.uint8)).resize((width, height), 3)
    stream = io.BytesIO()
    image.convert(options.pop("mode", "RGB")).save(stream, "JPEG", quality=90, **options)
    return stream.getvalue()


def encoded(datas: list[bytes], boxes: list[tuple[int, int, int, int]], device: Any = "cuda") -> EncodedImages:
    many = len(datas)
    return EncodedImages(
        np.frombuffer(b"".join(datas), np.uint8),
        np.cumsum([0, *map(len, datas)]).astype(np.int64),
        np.array(boxes, np.int32).reshape(many, 4),
        np.full((many, 2), 64, np.int32),
        np.tile(np.array([0, 0, 64, 64], np.int32), (many, 1)),
        np.zeros((many, 2), np.bool_),
        (64, 64),
        device,
    )


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return the kernel of the GPU, compiled for the CPU: a function that runs it for all pixels."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "resample.cu").write_bytes(files("bushel.loader.device").joinpath("resample.cu").read_bytes())
    (folder / "kernel.cpp").write_text("""
#include <algorithm>
#include <cmath>
#include <cstddef>
using std::max;
using std::min;
#define __device__
#define __global__
static struct { int x, y, z; } blockIdx, threadIdx, blockDim;
#include "resample.cu"
extern "C" void run(const void* crops, unsigned char* results, int images, int height, int width) {
    blockDim = {32, 8, 1};
    for (blockIdx.z = 0; blockIdx.z < images; ++blockIdx.z)
        for (blockIdx.y = 0; blockIdx.y <= height / 8; ++blockIdx.y)
            for (blockIdx.x = 0; blockIdx.x <= width / 32; ++blockIdx.x)
                for (threadIdx.y = 0; threadIdx.y < 8; ++threadIdx.y)
                    for (threadIdx.x = 0; threadIdx.x < 32; ++threadIdx.x)
                        resample((const Crop*)crops, results, height, width);
}
""")
    library = folder / "kernel.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", library, folder / "kernel.cpp"], check=True)
    return ctypes.CDLL(str(library)).run


def resized(kernel: Any, crops: np.ndarray[Any, Any], height: int, width: int) -> np.ndarray[Any, Any]:
    out = np.full((len(crops), height, width, 3), 77, np.uint8)
    kernel(ctypes.c_void_p(crops.ctypes.data), ctypes.c_void_p(out.ctypes.data), len(crops), height, width)
    return out


def test_the_kernel_resizes_as_pillow_does(kernel: Any) -> None:
    rng = np.random.default_rng(3)
    for _ in range(40):
        height, width, scaled_height, scaled_width = rng.integers((20, 20, 30, 30), (500, 500, 200, 200)).tolist()
        pixels = rng.integers(0, 256, (height, width, 3), np.uint8)
        left, top = rng.integers(0, (scaled_width - 29, scaled_height - 19)).tolist()
        mirrored, upside_down = rng.integers(0, 2, 2).tolist()
        size = width, height, scaled_width, scaled_height
        crops = np.array([(pixels.ctypes.data, 3 * width, *size, left, top, mirrored, upside_down)], CROP)
        [found] = resized(kernel, crops, 20, 30)
        whole = np.asarray(Image.fromarray(pixels).resize((scaled_width, scaled_height), Image.Resampling.BILINEAR))
        expected = whole[top : top + 20, left : left + 30][:: -1 if upside_down else 1, :: -1 if mirrored else 1]
        levels = np.abs(found.astype(int) - expected)
        assert levels.max() <= 1  # Pillow rounds between columns and rows
        assert levels.mean() < 0.3


def test_the_kernel_writes_nothing_but_zeros_for_an_image_without_pixels(kernel: Any) -> None:
    pixels = np.full((40, 50, 3), 9, np.uint8)
    crops = np.array([(0, 0, 50, 40, 20, 20, 0, 0, 0, 0), (pixels.ctypes.data, 150, 50, 40, 20, 20, 0, 0, 0, 0)], CROP)
    none, one = resized(kernel, crops, 20, 20)
    assert not none.any()
    assert (one == 9).all()


class TestWithoutAGpu:
    """What needs neither a GPU nor nvImageCodec."""

    @pytest.fixture(autouse=True)
    def stand_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(nvidia, "_library", lambda: SimpleNamespace())

    def test_it_is_pickled_without_what_it_has_on_the_gpu(self) -> None:
        copy = pickle.loads(pickle.dumps(NvidiaDecoder(batches=3, memory=1 << 20)))
        assert copy.__reduce__()[1] == (3, 1 << 20)

    @pytest.mark.parametrize("name", ["batches", "memory"])
    def test_mistakes(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"{name}=0: expected at least 1"):
            NvidiaDecoder(**{name: 0})

    def test_another_device_is_refused(self) -> None:
        with pytest.raises(ValueError, match="expected device='cuda', not 'cpu'"):
            NvidiaDecoder().decode(encoded([photo(0)], [(0, 0, 64, 64)], "cpu"))

    def test_batches_are_cut_to_the_memory(self) -> None:
        slot = object.__new__(nvidia._Slot)
        slot._memory = 1 << 20
        for sizes in ([100] * 50, [600], [10, 600, 20], [], [400, 10, 10, 10, 400]):
            images = encoded([b"x"] * len(sizes), [(5, 7, 5 + one, 7 + one) for one in sizes])
            parts = list(slot._parts(images))
            assert [number for part in parts for number in range(*part)] == list(range(len(sizes)))
            for first, last in parts:
                assert first < last
                assert sum(3 * one * one for one in sizes[first:last]) <= (1 << 20) + 3 * max(sizes) ** 2

    def test_a_slot_serves_one_thread_at_a_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[int] = []

        def slot_of(_codec: Any, index: int, *_: Any) -> int:
            made.append(index)
            return len(made)

        monkeypatch.setattr(nvidia, "_Slot", slot_of)
        decoder, busy, most = NvidiaDecoder(batches=2), set[Any](), 0
        lock, several = threading.Lock(), threading.Barrier(2)

        def work() -> None:
            nonlocal most
            for turn in range(20):
                with decoder._slot(0) as slot:
                    with lock:
                        assert slot not in busy
                        busy.add(slot)
                        most = max(most, len(busy))
                    if not turn:
                        several.wait(10)
                    with lock:
                        busy.remove(slot)

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert most == 2
        assert made == [0, 0]

    def test_a_slot_that_cannot_be_made_is_tried_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fails(*_: Any) -> Any:
            raise RuntimeError("no driver")

        monkeypatch.setattr(nvidia, "_Slot", fails)
        decoder = NvidiaDecoder(batches=1)
        for _ in range(3):  # it would wait forever if the slot were lost
            with pytest.raises(RuntimeError, match="no driver"), decoder._slot(0):
                pass


@pytest.mark.parametrize("missing", ["cuda.bindings", "nvidia.nvimgcodec"])
def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str) -> None:
    for name in ("cuda", "cuda.bindings", "cuda.bindings.nvrtc", "nvidia"):  # packages with nothing in them
        module = ModuleType(name)
        module.__path__ = []
        monkeypatch.setitem(sys.modules, name, module)
    if missing == "cuda.bindings":
        monkeypatch.setitem(sys.modules, missing, None)
    else:
        monkeypatch.setattr(sys.modules["cuda.bindings"], "nvrtc", None, raising=False)
        monkeypatch.delitem(sys.modules, missing, raising=False)
    with pytest.raises(MissingPackageError, match=r"NvidiaDecoder needs .*pip install 'bushel\[nvidia\]'"):
        NvidiaDecoder()
    with bushel.Writer(tmp_path / "data", {"image": "jpg"}, container="bag") as writer:
        writer.append({"image": photo(0)}, key="0")
    with pytest.raises(MissingPackageError, match=r"pip install 'bushel\[nvidia\]'"):
        bushel.Loader(bushel.open(tmp_path / "data"), 4, transforms=CROPS, to="torch", device="cuda", decode="device")


def test_the_blocks_that_a_box_needs_are_decoded() -> None:
    assert nvidia._decoded_region((0, 0, 15, 15), 640, 480) == (0, 0, 16, 16)
    assert nvidia._decoded_region((16, 17, 32, 31), 640, 480) == (0, 16, 48, 32)
    assert nvidia._decoded_region((600, 470, 640, 480), 640, 480) == (592, 464, 640, 480)
    for box in ((0, 0, 641, 10), (0, 0, 10, 481), (-1, 0, 10, 10), (5, 5, 5, 10), (0, 9, 10, 9)):
        with pytest.raises(ValueError, match="640 x 480 pixels"):
            nvidia._decoded_region(box, 640, 480)


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    path = tmp_path_factory.mktemp("nvidia") / "data"
    kinds: dict[int, dict[str, Any]] = {5: {"progressive": True}, 6: {"mode": "L"}, 7: {"mode": "CMYK"}}
    with bushel.Writer(path, {"image": "jpg", "label": "int"}, container="bag") as writer:
        for number in range(64):
            options = kinds.get(number, {"subsampling": number % 3})
            data = photo(number, 300 + 20 * number, 500 + 7 * number, **options)
            writer.append({"image": data, "label": number}, key=f"{number}")
    return bushel.open(path)


@gpu
class TestOnAGpu:
    """What needs a GPU of NVIDIA, and nvImageCodec."""

    @pytest.mark.parametrize("memory", [1 << 28, 1 << 16])
    def test_the_suite(self, memory: int) -> None:
        check_device_decoder(NvidiaDecoder(memory=memory), "cuda")

    def test_bytes_that_are_no_photo_are_errors_of_their_images(self) -> None:
        datas = [photo(0), b"\xff", photo(1), bytes(5000), photo(2)]
        pixels, errors = NvidiaDecoder().decode(encoded(datas, [(0, 0, 640, 480)] * 5))
        assert sorted(errors) == [1, 3]
        assert not pixels[[1, 3]].any()
        good = NvidiaDecoder().decode(encoded(datas[::2], [(0, 0, 640, 480)] * 3))[0]
        assert torch.equal(pixels[::2], good)
        assert list(NvidiaDecoder().decode(encoded([b"no"], [(0, 0, 9, 9)]))[1]) == [0]
        outside = encoded([photo(0), photo(1)], [(0, 0, 640, 480), (0, 0, 641, 480)])
        assert "640 x 480 pixels, which do not have the box" in NvidiaDecoder().decode(outside)[1][1]

    def test_threads_do_not_disturb_each_other(self) -> None:
        decoder, rng = NvidiaDecoder(batches=3, memory=3 << 20), np.random.default_rng(0)
        batches = []
        for number in range(8):
            datas = [photo(16 * number + one, 400 + 30 * one) for one in range(16)]
            corners = rng.integers(0, 150, (16, 2)).tolist()
            batches.append(encoded(datas, [(x, y, x + 200 + 10 * n, y + 300) for n, (x, y) in enumerate(corners)]))
        expected = [decoder.decode(one)[0].cpu() for one in batches]
        wrong: list[str] = []

        def work(thread: int) -> None:
            for turn in range(24):
                number = (turn * 3 + thread) % len(batches)
                levels = (decoder.decode(batches[number])[0].cpu().int() - expected[number].int()).abs().amax((1, 2, 3))
                if levels.any():
                    wrong.append(f"batch {number} in turn {turn} of thread {thread}: {levels.tolist()}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        busy = torch.rand(2048, 2048, device="cuda")
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            busy = (busy @ busy).clamp_(0, 1)
            torch.cuda.synchronize()
        assert not wrong, wrong[:5]

    def test_memory_that_does_not_suffice_is_a_memory_error(self) -> None:
        decoder = NvidiaDecoder(batches=1)
        images = encoded([photo(0, 3000, 3000)] * 4, [(0, 0, 3000, 3000)] * 4)
        torch.cuda.empty_cache()
        used = torch.cuda.memory_reserved() / torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction(used + 1e-6)
        try:
            with pytest.raises(MemoryError):
                decoder.decode(images)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        assert not decoder.decode(images)[1]

    def test_memory_stays_bounded(self) -> None:
        decoder = NvidiaDecoder(batches=1, memory=4 << 20)
        images = encoded([photo(n, 900, 900) for n in range(32)], [(0, 0, 900, 900)] * 32)
        decoder.decode(images)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before, free = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()[0]
        for _ in range(20):
            decoder.decode(images)
        assert torch.cuda.max_memory_allocated() - before < (4 << 20) + 3 * 900 * 900 + (1 << 20)
        assert free - torch.cuda.mem_get_info()[0] < 64 << 20

    @pytest.mark.parametrize("share", [1, 0.5, "tuned"])
    @pytest.mark.parametrize("more", [[], [Normalize((0.4, 0.5, 0.6), (0.2, 0.2, 0.3)), ToCHW()]], ids=str)
    def test_batches_are_those_of_the_cpu(self, ds: bushel.Dataset, share: Any, more: list[Any]) -> None:
        options: dict[str, Any] = {"shuffle": True, "seed": 1, "to": "torch", "device": "cuda"}
        options |= {"transforms": [*CROPS, *more], "reducing_gap": None}
        plain = bushel.Loader(ds, 16, **options)
        device = bushel.Loader(ds, 16, decode="device", share=share, **options)
        for _ in range(2):
            for one, other in zip(plain, device, strict=True):
                assert torch.equal(one["label"], other["label"])
                assert other["image"].is_cuda
                assert other["image"].dtype == one["image"].dtype
                levels = (one["image"].float() - other["image"].float()).abs().mean()
                assert levels < (1 if not more else 1 / 255 / 0.2)
        assert device.stats().device_images > 0
        assert device.stats().device_refused == 0

    def test_a_batch_is_intact_until_the_trainer_has_read_it(self, ds: bushel.Dataset) -> None:
        options: dict[str, Any] = {"shuffle": True, "seed": 1, "to": "torch", "device": "cuda", "decode": "device"}
        big = torch.rand(4096, 4096, device="cuda")

        def sums(*, slow: bool, share: float, **more: Any) -> list[float]:
            loader = bushel.Loader(ds[np.arange(640) % 64], 16, transforms=CROPS, share=share, **options, **more)
            found = []
            for batch in loader:
                if slow:  # kernels that read a batch wait for others, while its memory is free for the next ones
                    for _ in range(4):
                        big @ big
                found.append(batch["image"].double().sum())
                del batch
            return [float(one) for one in found]

        near = 2000  # decoders may round differently from run to run; another photo differs by a hundred times more
        for share in (1, 0.5):
            assert sums(slow=True, share=share) == pytest.approx(sums(slow=False, share=share), abs=near)

        def negative(batch: dict[str, Any]) -> dict[str, Any]:
            return batch | {"image": 255 - batch["image"]}

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            turned = sums(slow=True, share=1, batch_transform=negative)
        whole = 255.0 * 16 * 96 * 96 * 3
        assert [whole - one for one in turned] == pytest.approx(sums(slow=False, share=1), abs=near)

"""Decoding of photos on GPUs of NVIDIA: nvImageCodec decodes the boxes, and a kernel resizes all of them at once."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
from queue import LifoQueue
from types import ModuleType
from typing import Any

import numpy as np

from bushel._runtime.arrays import I64, Array
from bushel._runtime.public import public
from bushel.errors import needed_by
from bushel.kernels import jpeg_header

from .device import EncodedImages

CROP = np.dtype(
    [
        (name, np.int64)
        for name in ("pixels", "stride", "width", "height", "scaled_width", "scaled_height")
    ]
    + [(name, np.int64) for name in ("left", "top", "mirrored", "upside_down")]
)
"""A row of the table that the kernel reads: `Crop` of resample.cu."""
_BLOCK = 32, 8
_kernels: dict[int, Any] = {}
_lock = threading.Lock()
_OPTIONS = ":fancy_upsampling=1 nvjpeg_cuda_decoder:hybrid_huffman_threshold=0"
"""Chroma as libjpeg-turbo interpolates it; where a GPU has no engines for JPEGs, its cores decode all of them."""
_BLOCKS = 16
"""Pixels on a side of the blocks that a JPEG in 4:2:0 is made of."""
_ALIGNED = 256
"""Boundaries on which the pixels of each image begin."""
_VERBOSITY = "PYNVIMGCODEC_VERBOSITY"


def resample(crops: Array, out: Any) -> None:
    """Launch the kernel on the current stream.

    Args:
        crops: CROP[images], where the pixels of each image are, and how they are resized. Each box
            is within its pixels, and each window within its resized box.
        out: A tensor on the GPU, uint8[images, height, width, 3], which is written.

    Raises:
        RuntimeError: CUDA refuses the kernel.
    """
    import torch
    from cuda.bindings import driver

    images, height, width = out.shape[:3]
    table = torch.from_numpy(crops.view(np.int64)).to(out.device, non_blocking=True)
    arguments = (table.data_ptr(), out.data_ptr(), height, width)
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    grid = -(-width // _BLOCK[0]), -(-height // _BLOCK[1]), images
    stream = torch.cuda.current_stream(out.device).cuda_stream
    _checked(
        driver.cuLaunchKernel(
            _kernel(out.device), *grid, *_BLOCK, 1, 0, stream, (arguments, kinds), 0
        )
    )


def _kernel(device: Any) -> Any:
    """Return the kernel of a device, which is compiled once."""
    import torch
    from cuda.bindings import driver

    with _lock:
        if device.index not in _kernels:
            major, minor = torch.cuda.get_device_capability(device)
            module = _checked(driver.cuModuleLoadData(_compiled(f"sm_{major}{minor}")))
            _kernels[device.index] = _checked(driver.cuModuleGetFunction(module, b"resample"))
        return _kernels[device.index]


def _compiled(architecture: str) -> bytes:
    """Return the machine code of the kernel."""
    from cuda.bindings import nvrtc

    source = files("bushel.loader.device").joinpath("resample.cu").read_bytes()
    program = _checked(nvrtc.nvrtcCreateProgram(source, b"resample.cu", 0, [], []))
    try:
        _checked(
            nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={architecture}".encode()])
        )
        code = bytearray(_checked(nvrtc.nvrtcGetCUBINSize(program)))
        _checked(nvrtc.nvrtcGetCUBIN(program, code))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(code)


def _checked(result: tuple[Any, ...]) -> Any:
    """Return the value that a function of CUDA returned after its status."""
    status, *values = result
    if status:
        raise RuntimeError(f"CUDA refused the kernel that resizes photos: {status!r}")
    if values:
        return values[0]
    return None


@public("bushel.loader")
class NvidiaDecoder:
    """Decodes JPEGs on GPUs of NVIDIA by nvImageCodec, on the GPU's own engines for JPEGs where it has some.

    `Loader(decode="device", device="cuda")` makes one by itself. It needs
    `pip install 'bushel[nvidia]'`.

    Args:
        batches: Number of batches that are decoded at the same time. Each has a CUDA stream and
            memory of its own.
        memory: Bytes on the GPU for the decoded pixels of one batch, and of one photo in any case.
            If a batch has more, it is decoded in parts.

    Raises:
        MissingPackageError: A package is not installed.
        ValueError: An argument is less than 1.

    Examples:
        >>> from bushel.loader import NvidiaDecoder  # doctest: +SKIP
        >>> loader = bushel.Loader(  # doctest: +SKIP
        ...     ds, 256, to="torch", device="cuda", decode="device", decoder=NvidiaDecoder(batches=3)
        ... )
    """

    def __init__(self, batches: int = 2, memory: int = 1 << 28) -> None:
        for name, value in {"batches": batches, "memory": memory}.items():
            if value < 1:
                raise ValueError(f"{name}={value!r}: expected at least 1")
        self._batches, self._memory = batches, memory
        self._codec = _library()
        self._slots: dict[int, LifoQueue[_Slot | None]] = {}
        self._engines: dict[int, threading.Lock] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._batches, self._memory)

    def decode(self, images: EncodedImages) -> tuple[Any, Mapping[int, str]]:
        """Decode, crop, resize and mirror images: see `DeviceDecoder`.

        Raises:
            MemoryError: The GPU has no memory for them.
            ValueError: The device is not a GPU of NVIDIA.
        """
        import torch

        device = torch.device("cuda" if images.device is None else images.device)
        if device.type != "cuda" or torch.version.cuda is None:
            raise ValueError(
                "NvidiaDecoder decodes on GPUs of NVIDIA: "
                f"expected device='cuda', not {images.device!r}"
            )
        if device.index is None:
            index = torch.cuda.current_device()
        else:
            index = device.index
        try:
            with torch.cuda.device(index), self._slot(index) as slot:
                return slot.decode(images)
        except torch.OutOfMemoryError as error:
            raise MemoryError(str(error)) from error

    @contextmanager
    def _slot(self, index: int) -> Iterator[_Slot]:
        """Wait for a slot of a GPU that no other thread uses."""
        with self._lock:
            if index not in self._slots:
                self._slots[index], self._engines[index] = LifoQueue(), threading.Lock()
                for _ in range(self._batches):
                    self._slots[index].put(None)
            free = self._slots[index]
        slot = free.get()
        try:
            slot = slot or _Slot(self._codec, index, self._memory, self._engines[index])
            yield slot
        finally:
            free.put(slot)


class _Slot:
    """The decoder of one batch at a time on a GPU: a decoder of nvImageCodec, a CUDA stream, and memory for pixels.

    Args:
        codec: The module `nvidia.nvimgcodec`.
        index: Number of the GPU.
        memory: Bytes for decoded pixels.
        engines: A lock that one slot of the GPU has at a time: threads in nvImageCodec keep a
            processor busy while they wait for the GPU.
    """

    def __init__(self, codec: ModuleType, index: int, memory: int, engines: threading.Lock) -> None:
        import torch

        self._codec, self._memory, self._engines = codec, memory, engines
        self._device = torch.device("cuda", index)
        self._stream = torch.cuda.Stream(self._device)
        # a thread that waits for an event that is not `blocking` keeps a processor busy
        self._done = torch.cuda.Event(blocking=True)
        self._decoder = codec.Decoder(device_id=index, max_num_cpu_threads=1, options=_OPTIONS)
        self._params = codec.DecodeParams(apply_exif_orientation=False)
        self._pixels = torch.empty(0, dtype=torch.uint8, device=self._device)

    def decode(self, images: EncodedImages) -> tuple[Any, dict[int, str]]:
        """Decode images, and wait until they are complete."""
        import torch

        errors: dict[int, str] = {}
        with torch.cuda.stream(self._stream):
            out = torch.empty(
                (len(images), *images.size, 3), dtype=torch.uint8, device=self._device
            )
            try:
                for first, last in self._parts(images):
                    errors |= self._decode_part(images, first, last, out[first:last])
            finally:  # the caller uses the buffer for other images
                self._done.record(self._stream)
                self._done.synchronize()
        return out, errors

    def _parts(self, images: EncodedImages) -> Iterator[tuple[int, int]]:
        """Yield the first and last of images whose pixels fit into the memory together, in parts of about one size."""
        ends = np.cumsum(_bytes_of(images.boxes.astype(np.int64)))
        parts = -(-int(ends[-1]) // self._memory) if len(ends) else 0
        if parts:
            cuts = np.searchsorted(ends, np.arange(1, parts) * (ends[-1] / parts))
        else:
            cuts = []
        yield from pairwise(np.unique([0, *cuts, len(images)]).tolist())

    def _decode_part(
        self, images: EncodedImages, first: int, last: int, out: Any
    ) -> dict[int, str]:
        """Decode images into `out`, and return errors by number of the image. Both may not be complete yet."""
        errors: dict[int, str] = {}
        sources, regions = {}, np.zeros((last - first, 4), np.int64)
        for number, box in enumerate(images.boxes[first:last].tolist()):
            start, stop = images.offsets[first + number : first + number + 2].tolist()
            try:
                data = images.buffer[start:stop]
                region = x, y, end_x, end_y = _decoded_region(box, *jpeg_header(data)[:2])
                part = self._codec.Region(y, x, end_y, end_x)
                sources[number] = self._codec.CodeStream(data).get_sub_code_stream(region=part)
                regions[number] = region
            except (RuntimeError, ValueError) as error:
                errors[first + number] = f"nvImageCodec: {error}"
        left, top, right, bottom = regions.T
        sizes = _bytes_of(regions)
        starts = self._memory_for(int(sizes.sum())) + np.cumsum(sizes) - sizes
        shapes = np.stack([bottom - top, right - left], axis=1).tolist()
        targets = [_Memory(int(starts[number]), (*shapes[number], 3)) for number in sources]
        crops = np.zeros(last - first, CROP)
        boxes = images.boxes[first:last].astype(np.int64)
        crops["width"], crops["height"] = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
        crops["stride"] = 3 * (right - left)
        crops["scaled_width"], crops["scaled_height"] = images.scaled[first:last].T
        crops["left"], crops["top"] = images.windows[first:last, :2].T
        crops["mirrored"], crops["upside_down"] = images.flips[first:last].T
        places = starts + (boxes[:, 1] - top) * crops["stride"] + 3 * (boxes[:, 0] - left)
        for number, image in zip(
            sources, self._found(list(sources.values()), targets), strict=True
        ):
            if image is None:
                errors[first + number] = "nvImageCodec cannot decode it"
            else:
                crops["pixels"][number] = places[number]
        resample(crops, out)
        return errors

    def _found(self, sources: list[Any], targets: list[_Memory]) -> list[Any]:
        """Decode regions into memory, and return None for each that cannot be decoded."""
        if not sources:
            return []
        stream = self._stream.cuda_stream
        pixels = self._codec.as_images(targets, stream)
        with self._engines:
            images: list[Any] = self._decoder.decode(
                sources, images=pixels, params=self._params, cuda_stream=stream
            )
        return images

    def _memory_for(self, size: int) -> int:
        """Return the address of memory for pixels. Its contents are lost."""
        import torch

        if len(self._pixels) < size:
            # it is free before more is taken
            self._pixels = torch.empty(0, dtype=torch.uint8, device=self._device)
            self._pixels = torch.empty(size, dtype=torch.uint8, device=self._device)
        return int(self._pixels.data_ptr())


class _Memory:
    """Memory on the GPU for an image, as nvImageCodec takes it."""

    __slots__ = ("__cuda_array_interface__",)

    def __init__(self, address: int, shape: tuple[int, int, int]) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": "|u1",
            "data": (address, False),
            "version": 2,
        }


def _decoded_region(box: Sequence[int], width: int, height: int) -> tuple[int, int, int, int]:
    """Return the blocks of a JPEG that a box needs: colours at its edges depend on pixels beside it.

    Raises:
        ValueError: The box is not within the image.
    """
    left, top, right, bottom = box
    if not (0 <= left < right <= width and 0 <= top < bottom <= height):
        raise ValueError(
            f"its header says {width} x {height} pixels, which do not have the box {tuple(box)}"
        )
    return (
        max(left - 1, 0) // _BLOCKS * _BLOCKS,
        max(top - 1, 0) // _BLOCKS * _BLOCKS,
        min(-(-(right + 1) // _BLOCKS) * _BLOCKS, width),
        min(-(-(bottom + 1) // _BLOCKS) * _BLOCKS, height),
    )


def _bytes_of(boxes: I64) -> I64:
    """Return int64[images], the bytes that decoded boxes take."""
    left, top, right, bottom = boxes.T
    sizes: I64 = 3 * (right - left) * (bottom - top)
    return -(-sizes // _ALIGNED) * _ALIGNED


def _library() -> ModuleType:
    """Return nvImageCodec, which reports images that it cannot decode as None, and does not print them, too."""
    before = os.environ.get(_VERBOSITY)
    os.environ.setdefault(_VERBOSITY, "0")
    try:
        with needed_by("bushel.loader.NvidiaDecoder", "bushel[nvidia]"):
            import torch  # noqa: F401
            from cuda.bindings import nvrtc  # noqa: F401

            # `from nvidia import` would be another error where other packages of NVIDIA are
            # installed
            return import_module("nvidia.nvimgcodec")
    finally:
        if before is None:
            del os.environ[_VERBOSITY]

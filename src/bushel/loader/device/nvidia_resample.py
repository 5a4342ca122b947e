"""The kernel that crops, resizes and mirrors decoded photos on a GPU: compiled by NVRTC, launched by the driver."""

from __future__ import annotations

import ctypes
import threading
from importlib.resources import files
from typing import Any

import numpy as np
import numpy.typing as npt

CROP = np.dtype(
    [(name, np.int64) for name in ("pixels", "stride", "width", "height", "scaled_width", "scaled_height")]
    + [(name, np.int64) for name in ("left", "top", "mirrored", "upside_down")]
)
"""A row of the table that the kernel reads: `Crop` of resample.cu."""

_BLOCK = 32, 8
_kernels: dict[int, Any] = {}
_lock = threading.Lock()


def resample(crops: npt.NDArray[Any], out: Any) -> None:
    """Launch the kernel on the current stream.

    Args:
        crops: CROP[images], where the pixels of each image are, and how they are resized. Each box is within its
            pixels, and each window within its resized box.
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
    _checked(driver.cuLaunchKernel(_kernel(out.device), *grid, *_BLOCK, 1, 0, stream, (arguments, kinds), 0))


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
        _checked(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={architecture}".encode()]))
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
    return values[0] if values else None

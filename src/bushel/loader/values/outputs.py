"""The output of a loader: NumPy arrays, torch tensors or JAX arrays, on a device if asked for."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from bushel.errors import needed_by

from .collate import is_masked

if TYPE_CHECKING:
    import jax
    import torch

AnyDevice: TypeAlias = "str | torch.device | jax.Device | jax.sharding.Sharding"
"""With torch, a device to copy tensors to, such as `cuda` or `cuda:1`; with JAX, a device or a sharding."""
To = Literal["numpy", "torch", "jax"]


class Output(Struct, frozen=True):
    """The form in which a batch leaves the loader.

    Attributes:
        to: Library of the arrays.
        pin_memory: With torch: whether to use page-locked memory.
        device: With torch: device to copy tensors to; None for the CPU. With JAX: device or
            sharding; None for the default device.
    """

    to: To = "numpy"
    pin_memory: bool = False
    device: AnyDevice | None = None

    def __post_init__(self) -> None:
        if self.to not in get_args(To):
            raise ValueError(f"unknown to={self.to!r}: expected {', '.join(get_args(To))}")
        if self.pin_memory and self.to != "torch":
            raise ValueError(f'pin_memory=True needs to="torch", but to={self.to!r}')
        if self.device is not None and self.to == "numpy":
            raise ValueError('device= needs to="torch" or to="jax"')
        if self.to == "numpy":
            return
        library = _library(self.to)  # a missing library is an error now, not at the first batch
        if self.pin_memory and not library.cuda.is_available():
            warnings.warn("pin_memory=True has no effect: torch has no GPU here", stacklevel=5)
            force_setattr(self, "pin_memory", False)

    def to_host(self, batch: Any) -> Any:
        """Convert the arrays of a batch to tensors in host memory. Any thread may do this.

        Only arrays of numbers are converted, also within dicts, lists and tuples. All other values
        stay.
        """
        if self.to == "torch":
            return _each(batch, _is_numbers, self._tensor)
        return batch

    def _tensor(self, array: np.ndarray[Any, Any]) -> Any:
        # torch supports neither read-only arrays nor negative strides
        shared = _native(array)
        if not shared.flags.writeable or min(shared.strides, default=0) < 0:
            shared = shared.copy()
        tensor = _library("torch").from_numpy(shared)
        if self.pin_memory:
            return tensor.pin_memory()
        return tensor


class Finished(Struct, frozen=True):
    """A finished batch.

    Attributes:
        consumed: Positions of the epoch that all ranks have consumed after this batch.
        batch: The batch; None if all of its samples were skipped.
        samples: Number of samples in it.
        stored_bytes: Bytes that were read for it.
        past_end: Whether the batch is empty because a stream ended before it.
    """

    consumed: int
    batch: Any
    samples: int
    stored_bytes: int
    past_end: bool = False


class Upload:
    """Copies the batches of one iteration to their device, while the device computes."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._stream: Any = None
        if output.to == "torch" and output.device is not None:
            torch = _library("torch")
            if torch.device(output.device).type == "cuda":
                # on the default stream, copies would wait for the kernels that were launched before
                self._stream = torch.cuda.Stream(output.device)

    def start(self, batch: Any) -> Any:
        """Start to copy a batch that `to_host` returned."""
        output = self._output
        if output.to == "jax":
            return _each(batch, _has_jax_type, self._to_jax)
        if output.to == "numpy" or output.device is None:
            return batch
        torch = _library("torch")
        with torch.cuda.stream(self._stream):
            return _each(
                batch, torch.is_tensor, lambda tensor: tensor.to(output.device, non_blocking=True)
            )

    def finish(self, batch: Any) -> Any:
        """Let the trainer's kernels wait for a batch that `start` returned."""
        if self._stream is None:
            return batch
        torch = _library("torch")
        current = torch.cuda.current_stream(self._output.device)
        current.wait_stream(self._stream)

        def note_use(tensor: Any) -> Any:
            # or its memory could be reused by the next copy too early
            tensor.record_stream(current)
            return tensor

        return _each(batch, torch.is_tensor, note_use)

    def _to_jax(self, array: np.ndarray[Any, Any]) -> Any:
        jax, device, array = _library("jax"), self._output.device, _native(array)
        if isinstance(device, jax.sharding.Sharding):
            return jax.make_array_from_process_local_data(device, array)
        return jax.device_put(array, device)


def _is_numbers(value: Any) -> bool:
    if is_masked(value):
        raise TypeError(
            "a batch with masked arrays has no form as tensors: "
            "fill them in a transform (array.filled(0))"
        )
    return isinstance(value, np.ndarray) and value.dtype.kind in "biufc"


def _has_jax_type(value: Any) -> bool:
    """Return whether JAX has arrays of a value's type. Its bfloat16 and other small types are of ml_dtypes."""
    if isinstance(value, np.ndarray) and value.dtype.type.__module__ == "ml_dtypes":
        return True
    return _is_numbers(value)


def _native(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in the byte order of this machine, and as the first of equal types (int64, not longlong)."""
    plain = np.dtype(array.dtype.str[1:])
    if array.dtype.isnative and (array.dtype.num == plain.num or array.dtype.kind == "V"):
        return array
    return array.astype(plain)


def _each(value: Any, wanted: Callable[[Any], bool], change: Callable[[Any], Any]) -> Any:
    """Replace the values in a batch for which `wanted` is true, also within dicts, lists and tuples."""
    if wanted(value):
        return change(value)
    if isinstance(value, dict):
        return {name: _each(inner, wanted, change) for name, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_each(inner, wanted, change) for inner in value)
    return value


def _library(name: str) -> ModuleType:
    with needed_by(f'to="{name}"', f"bushel[{name}]"):
        return import_module(name)

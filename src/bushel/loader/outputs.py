"""What batches are made of when they leave: NumPy arrays, torch tensors, or JAX arrays."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, get_args

import numpy as np

__all__ = ["Output", "To"]

To = Literal["numpy", "torch", "jax"]


@dataclass(frozen=True, slots=True)
class Output:
    """How a batch leaves the loader.

    Attributes:
        to: The library whose arrays it consists of.
        pin_memory: torch: page-locked memory.
        device: torch: where tensors go, or None to stay. JAX: a device or a sharding, or None for the default device.
    """

    to: To = "numpy"
    pin_memory: bool = False
    device: Any = None

    def __post_init__(self) -> None:
        if self.to not in get_args(To):
            raise ValueError(f"to is one of {', '.join(get_args(To))}, not {self.to!r}")
        if self.pin_memory and self.to != "torch":
            raise ValueError(f'pin_memory is for to="torch", not to={self.to!r}')
        if self.device is not None and self.to == "numpy":
            raise ValueError('device is for to="torch" and to="jax"')
        if self.to != "numpy":
            _library(self.to)  # a missing library is said now, not at the first batch

    def convert(self, value: Any) -> Any:
        """Convert every array of numbers in a batch: in dicts, lists and tuples too. Everything else stays."""
        if isinstance(value, np.ndarray):
            return self._convert_array(value) if value.dtype.kind in "biufc" else value
        if self.to == "numpy":
            return value
        if isinstance(value, dict):
            return {name: self.convert(one) for name, one in value.items()}
        if type(value) in (list, tuple):
            return type(value)(self.convert(one) for one in value)
        return value

    def _convert_array(self, array: np.ndarray[Any, Any]) -> Any:
        if self.to == "torch":
            return self._to_torch(array)
        if self.to == "jax":
            return self._to_jax(array)
        return array

    def _to_torch(self, array: np.ndarray[Any, Any]) -> Any:
        torch = _library("torch")
        # torch knows neither arrays that must not be written to nor negative strides
        tensor = torch.from_numpy(
            array if array.flags.writeable and min(array.strides, default=0) >= 0 else array.copy()
        )
        if self.pin_memory:
            tensor = tensor.pin_memory()
        return tensor if self.device is None else tensor.to(self.device, non_blocking=True)

    def _to_jax(self, array: np.ndarray[Any, Any]) -> Any:
        jax = _library("jax")
        if isinstance(self.device, jax.sharding.Sharding):
            return jax.make_array_from_process_local_data(self.device, array)
        return jax.device_put(array, self.device)


def _library(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise ImportError(f'to="{name}" needs {name}, which is not installed: pip install "bushel[{name}]"') from error

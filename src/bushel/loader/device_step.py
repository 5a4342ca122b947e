"""Images of a batch between the CPU and a device: which go where, the hand-over, and one tensor of both."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel.errors import CodecError
from bushel.loader.bad_samples import Failure
from bushel.loader.collate import Batch, Sample, collate
from bushel.loader.device import DeviceDecoder, EncodedImages
from bushel.loader.loadable import Loadable, failure_of
from bushel.spec import KEY
from bushel.transforms.fused import DecodePlan, decode_into
from bushel.transforms.spatial import Geometry

__all__ = ["DeviceImage", "DeviceStep", "HostImage", "Tuning", "goes_to_device"]

_SMALL = 128 * 128
"""Pixels up to which an image stays on the CPU: its hand-over costs as much as decoding."""
_GOLDEN = 0x9E3779B97F4A7C15
_LATEST = 0.2
"""Weight of the last batch in the mean of the rates."""
_LEAST, _MOST = 0.05, 0.95
"""Limits of a share that is tuned: both sides keep being measured."""
_KEPT = 4
"""Buffers of stored bytes that are kept for later batches."""


@dataclass(frozen=True, slots=True)
class HostImage:
    """An image that the CPU decoded.

    Attributes:
        pixels: Its pixels, as the transforms leave them.
    """

    pixels: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class DeviceImage:
    """An image that the device decodes.

    Attributes:
        data: The stored bytes.
        geometry: Its crop, size and flips.
        row: Its number among the images that the device decoded together; -1 before that.
        pixels: The results of all these images, a tensor on the device; None before that.
    """

    data: Any
    geometry: Geometry
    row: int = -1
    pixels: Any = None


def goes_to_device(data: Any, geometry: Geometry) -> bool:
    """Return whether a device may decode an image: an upright baseline JPEG that is complete and not small."""
    view = memoryview(data)
    if bytes(view[:2]) != b"\xff\xd8" or b"\xff\xd9" not in bytes(view[-64:]):
        return False
    left, top, right, bottom = geometry.box
    if (right - left) * (bottom - top) <= _SMALL:
        return False
    at = 2
    while at + 9 < len(view):  # over the segments up to the frame header: ITU T.81, B.1.1.2
        marker, length = view[at + 1], (view[at + 2] << 8) + view[at + 3]
        if view[at] != 0xFF or length < 2:
            return False
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            precision, components = view[at + 4], view[at + 9]
            return marker in (0xC0, 0xC1) and precision == 8 and components in (1, 3)
        at += 2 + length
    return False


class Tuning:
    """The share of the images that the device decodes, so that both sides are ready at the same time.

    Args:
        share: A fixed share; None to tune it by the rates of both sides.
        threads: Number of threads that decode on the CPU.
    """

    def __init__(self, share: float | None, threads: int) -> None:
        self._fixed, self._threads = share, max(1, threads)
        self._host = self._device = 0.0  # seconds an image takes; 0 as long as none was measured
        self._lock = threading.Lock()

    @property
    def share(self) -> float:
        """The share of the device in the rate of both, now."""
        if self._fixed is not None:
            return self._fixed
        with self._lock:
            if not self._host or not self._device:
                return 0.5
            host = self._host / self._threads
            return min(max(host / (host + self._device), _LEAST), _MOST)

    def measured(self, *, host: float = 0.0, device: float = 0.0) -> None:
        """Take the seconds that one image took on either side into account."""
        with self._lock:
            if host:
                self._host += (host - self._host) * (_LATEST if self._host else 1.0)
            if device:
                self._device += (device - self._device) * (_LATEST if self._device else 1.0)

    def takes(self, sample: int) -> bool:
        """Return whether the device decodes a sample: it depends on the sample and the share only."""
        return (sample * _GOLDEN & (1 << 64) - 1) < self.share * 2.0**64


@dataclass(frozen=True)
class DeviceStep:
    """The decoder of a loader, and what it is for.

    Attributes:
        decoder: Decodes on the device.
        device: The device; None for the CPU.
        plans: The image fields whose transforms all happen while decoding, and their plans.
        tuning: The share of the device.
        reducing_gap: As for `decode_into`, for images that the device refuses.
        host_only: Whether all images are decoded on the CPU, such as those that replace bad samples.
    """

    decoder: DeviceDecoder
    device: Any
    plans: Mapping[str, DecodePlan]
    tuning: Tuning
    reducing_gap: float | None = None
    host_only: bool = False
    _buffers: list[Any] = field(default_factory=list, repr=False)
    _warned: list[bool] = field(default_factory=list, repr=False)

    def routes(self, name: str, sample: int, data: Any, geometry: Geometry) -> bool:
        """Return whether the device decodes an image of a field."""
        return (
            name in self.plans and not self.host_only and self.tuning.takes(sample) and goes_to_device(data, geometry)
        )

    def left(self, data: Any, geometry: Geometry) -> DeviceImage:
        """Return an image that is left to the device."""
        return DeviceImage(data, geometry)

    def on_host(self, pixels: npt.NDArray[Any]) -> HostImage:
        """Return an image that the CPU decoded."""
        return HostImage(pixels)

    def finish(
        self, decoded: Sequence[Sample | Failure], numbers: npt.NDArray[np.int64], dataset: Loadable
    ) -> tuple[list[Sample | Failure], dict[str, float]]:
        """Decode the images of a batch that were left to the device.

        Args:
            decoded: The samples of the batch, in which these are `DeviceImage`.
            numbers: int64[samples], the positions of the samples in the dataset.
            dataset: The dataset, for errors.

        Returns:
            The samples, and counts for the clock.
        """
        done, counts = list(decoded), dict.fromkeys(("device", "device_images", "device_refused"), 0.0)
        for name, plan in self.plans.items():
            places = [
                place for place, one in enumerate(done) if isinstance(one, dict) and type(one.get(name)) is DeviceImage
            ]
            if not places:
                continue
            started = perf_counter()
            images = [done[place][name] for place in places]  # type: ignore[index]
            tensor, refused = self._decoded(images, plan)
            for number, place in enumerate(places):
                sample = done[place]
                if number not in refused and isinstance(sample, dict):
                    sample[name] = DeviceImage(None, images[number].geometry, number, tensor)
            seconds = perf_counter() - started
            for number in refused:
                place = places[number]
                if (error := self._on_host(done[place], name, images[number], plan)) is not None:
                    bad: Any = done[place]
                    done[place] = failure_of(dataset, error, int(numbers[place]), bad[KEY], name)
            if kept := len(places) - len(refused):
                self.tuning.measured(device=seconds / kept)
            counts["device"] += seconds
            counts["device_images"] += kept
            counts["device_refused"] += len(refused)
        return done, counts

    def _on_host(self, sample: Any, name: str, image: DeviceImage, plan: DecodePlan) -> CodecError | None:
        """Decode an image that the device refused on the CPU, and return the error if that fails, too."""
        out = np.empty(plan.array_shape(1, _size_of(plan)), plan.dtype)
        errors = decode_into(plan, [image.data], [image.geometry], out, reducing_gap=self.reducing_gap)
        if not errors:
            sample[name] = HostImage(out[0])
        return errors.get(0)

    def _decoded(self, images: Sequence[DeviceImage], plan: DecodePlan) -> tuple[Any, Sequence[int]]:
        """Return the pixels of images as a tensor on the device, and the numbers of those that it refused."""
        import torch

        with self._packed(images, plan) as packed:
            try:
                pixels, errors = self.decoder.decode(packed)
            except MemoryError as error:
                if not self._warned:
                    self._warned.append(True)
                    warnings.warn(
                        f"the device has no memory for {len(images)} images, which are decoded on the CPU; set share=, "
                        f"or make batches smaller: {error}",
                        stacklevel=2,
                    )
                return None, range(len(images))
        tensor = torch.from_dlpack(pixels)
        expected = (len(images), *packed.size, 3)
        if tuple(tensor.shape) != expected or tensor.dtype != torch.uint8:
            raise CodecError(
                f"the decoder {type(self.decoder).__name__} returned {tensor.dtype}{list(tensor.shape)}: expected "
                f"uint8{list(expected)}"
            )
        with self._own_stream():
            return _written(tensor, plan), sorted(errors)

    @contextmanager
    def _packed(self, images: Sequence[DeviceImage], plan: DecodePlan) -> Iterator[EncodedImages]:
        """Put the stored bytes of images into one buffer, which returns to the others afterwards."""
        offsets = np.zeros(len(images) + 1, np.int64)
        np.cumsum([len(image.data) for image in images], out=offsets[1:])
        whole = self._buffer(int(offsets[-1]))
        buffer = np.asarray(whole)
        for image, start, stop in zip(images, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
            buffer[start:stop] = np.frombuffer(image.data, np.uint8)
        geometries = [image.geometry for image in images]
        yield EncodedImages(
            buffer[: offsets[-1]],
            offsets,
            np.array([one.box for one in geometries], np.int32),
            np.array([one.scaled for one in geometries], np.int32),
            np.array([one.window for one in geometries], np.int32),
            np.array([(one.flip_horizontal, one.flip_vertical) for one in geometries], np.bool_),
            _size_of(plan),
            self.device,
        )
        if len(self._buffers) < _KEPT:
            self._buffers.append(whole)

    def _buffer(self, size: int) -> Any:
        """Return a tensor of bytes in memory of the CPU, page-locked if the device is a GPU."""
        import torch

        while self._buffers:
            try:
                found = self._buffers.pop()  # other threads take buffers, too
            except IndexError:
                break
            if len(found) >= size:
                return found
        return torch.empty(size + size // 4, dtype=torch.uint8, pin_memory=self._on_gpu)

    @property
    def _on_gpu(self) -> bool:
        import torch

        return self.device is not None and torch.device(self.device).type == "cuda"

    @contextmanager
    def _own_stream(self) -> Iterator[None]:
        """Launch kernels on a stream of their own, and wait for them: the trainer's stream is not delayed."""
        if not self._on_gpu:
            yield
            return
        import torch

        stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(stream):
            yield
        stream.synchronize()

    def collated(self, samples: list[Sample], rules: Any, stacked: Batch) -> Batch:
        """Collate samples field by field, in which each field of images becomes one tensor on the device."""
        batch = collate(samples, {**(rules or {}), **dict.fromkeys(self.plans, "list")}, stacked)
        return {name: self._tensor(value) if name in self.plans else value for name, value in batch.items()}

    def _tensor(self, images: Sequence[HostImage | DeviceImage]) -> Any:
        import torch

        rows = [one.row if isinstance(one, DeviceImage) else -1 for one in images]
        decoded = next((one.pixels for one in images if isinstance(one, DeviceImage)), None)
        if decoded is not None and rows == list(range(len(decoded))):
            return decoded  # the device decoded the whole batch: nothing is copied
        host = [place for place, row in enumerate(rows) if row < 0]
        with self._own_stream():
            parts = [torch.from_numpy(one.pixels) for one in images if isinstance(one, HostImage)]
            stacked = torch.stack(parts) if parts else None
            if stacked is not None and self._on_gpu:
                stacked = stacked.pin_memory()
            if decoded is None and stacked is not None:
                return stacked.to(self.device) if self.device is not None else stacked
            first: Any = decoded
            whole = first.new_empty((len(images), *first.shape[1:]))
            own = [place for place, row in enumerate(rows) if row >= 0]
            whole[own] = first[[rows[place] for place in own]]
            if stacked is not None:
                whole[host] = stacked.to(first.device, non_blocking=True)
            return whole


def _size_of(plan: DecodePlan) -> tuple[int, int]:
    if plan.size is None:
        raise ValueError("the transforms give images of different sizes, which a device does not decode")
    return plan.size


def _written(pixels: Any, plan: DecodePlan) -> Any:
    """Return pixels in the layout and the normalisation of a plan, with the values that the CPU gives them."""
    import torch

    if plan.normalise is not None:
        table = torch.from_numpy(plan.normalise.table.copy()).to(pixels.device)
        pixels = torch.stack([table[:, channel][pixels[..., channel].long()] for channel in range(3)], dim=-1)
    return pixels.permute(0, 3, 1, 2).contiguous() if plan.layout == "CHW" else pixels

"""Divide the images of a batch between the CPU and a device, hand them over, and join both parts in one tensor."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from bushel._runtime.arrays import I64, Array, offsets_of
from bushel._runtime.threads import cpu_count
from bushel.errors import CodecError
from bushel.loader.values.bad_samples import Failure, failure_of
from bushel.loader.values.collate import Batch, Sample, collate
from bushel.spec import KEY
from bushel.transforms.fused import DecodePlan, decode_into, geometry_rows
from bushel.transforms.geometry import Geometry

from .device import DeviceDecoder, EncodedImages, goes_to_device

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import SampleTransforms
    from bushel.loader.options import LoaderOptions
    from bushel.loader.read.loadable import Loadable

AT_ONCE = 3
"""Batches that the decoder works on, or that are copied into a buffer for it, at a time: their threads only wait."""

_GOLDEN = 0x9E3779B97F4A7C15
_FIRST, _PERIOD = 0.75, 8
"""The initial share, and the number of batches between its changes: batches in work still have the previous share."""
_FIRST_STEP, _LEAST_STEP = 0.08, 0.01
"""Size of the first change; it halves after each change of direction."""
_RUNNING = 0.9
"""A decoding thread that runs for less than this part of the time is waiting for a processor."""


class DeviceImage(Struct, frozen=True):
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


class Tuning:
    """The share of the images that the device decodes, so that neither it nor the CPU has less to do than the other.

    The device gets more while threads that decode on the CPU wait for a processor, since an image
    costs the CPU less time there, and otherwise while these threads are busy for a larger part of
    the time than the device.

    Args:
        share: A fixed share, or `"tuned"`.
        threads: Number of threads that decode on the CPU.
    """

    def __init__(self, share: float | Literal["tuned"], threads: int) -> None:
        self.share = _FIRST if share == "tuned" else share
        self._fixed, self._threads = share != "tuned", max(1, threads)
        self._lock = threading.Lock()
        # batches that the device decodes now; batches of the period
        self._at_once = self._finished = 0
        self._last = perf_counter()  # when `_at_once` was changed last
        self._host = self._host_cpu = self._device = 0.0  # seconds in the period
        self._step = _FIRST_STEP

    def on_host(self, seconds: float, cpu_seconds: float) -> None:
        """Take into account the elapsed time and the CPU time of a thread that decoded on the CPU."""
        with self._lock:
            self._host += seconds
            self._host_cpu += cpu_seconds

    @contextmanager
    def on_device(self) -> Iterator[None]:
        """Take into account the time of the body, in which the device decodes a batch."""
        with self._lock:
            self._change(1)
        try:
            yield
        finally:
            with self._lock:
                self._change(-1)
                self._finished += 1
                if self._finished == _PERIOD and not self._fixed:
                    self._tune()

    def _change(self, batches: int) -> None:
        now = perf_counter()
        if self._at_once:
            self._device += now - self._last
        self._last = now
        self._at_once += batches

    def _tune(self) -> None:
        waits = self._host_cpu < _RUNNING * self._host
        more = waits or self._host / self._threads > self._device
        if more != (self._step > 0):
            self._step = max(abs(self._step) / 2, _LEAST_STEP) * (1 if more else -1)
        self.share = min(max(self.share + self._step, _LEAST_STEP), 1.0)
        self._finished, self._host, self._host_cpu, self._device = 0, 0.0, 0.0, 0.0

    def takes(self, sample: int) -> bool:
        """Return whether the device decodes a sample: it depends on the sample and the share only."""
        return (sample * _GOLDEN & (1 << 64) - 1) < self.share * 2.0**64


class Stream:
    """Where the kernels of a loader run on its device: a CUDA stream of its own, so that the trainer's is not delayed.

    Args:
        device: The device; None for the CPU.
    """

    def __init__(self, device: Any) -> None:
        self._device = device

    @cached_property
    def is_cuda(self) -> bool:
        """Whether the device is a GPU."""
        import torch

        return self._device is not None and torch.device(self._device).type == "cuda"

    @cached_property
    def _stream(self) -> Any:
        import torch

        return torch.cuda.Stream(self._device)

    @contextmanager
    def complete(self) -> Iterator[None]:
        """Launch the kernels of the body on the stream, and wait until they are complete."""
        if not self.is_cuda:
            yield
            return
        import torch

        with torch.cuda.stream(self._stream):
            try:
                yield
            finally:  # memory that these kernels read may be used again
                # a thread that waits otherwise keeps a processor busy
                copied = torch.cuda.Event(blocking=True)
                copied.record(self._stream)
                copied.synchronize()


class DeviceStep(Struct, frozen=True):
    """The device decoder of a loader, and the fields that it decodes.

    Attributes:
        decoder: Decodes on the device.
        device: The device; None for the CPU.
        plans: The image fields whose transforms all happen while decoding, and their plans.
        tuning: The share of the device.
        stream: Where the loader's own kernels run.
        reducing_gap: As for `decode_into`, for images that the device refuses.
        host_only: Whether all images are decoded on the CPU, such as those that replace bad
            samples.
    """

    decoder: DeviceDecoder
    device: Any
    plans: Mapping[str, DecodePlan]
    tuning: Tuning
    stream: Stream
    reducing_gap: float | None = None
    host_only: bool = False
    _turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))
    _tables: dict[str, Any] = field(default_factory=dict)
    _warned: list[bool] = field(default_factory=list)

    def host_plan(self, name: str) -> DecodePlan:
        """Return how the CPU decodes images of a field: as a decoder does, so that both are normalised together."""
        return replace(self.plans[name], normalise=None, layout="HWC")

    image = DeviceImage

    def routes(self, sample: int, data: Any, geometry: Geometry) -> bool:
        """Return whether the device decodes an image of one of its fields."""
        return not self.host_only and self.tuning.takes(sample) and goes_to_device(data, geometry)

    def finish(
        self, decoded: Sequence[Sample | Failure], numbers: I64, dataset: Loadable
    ) -> tuple[list[Sample | Failure], dict[str, float]]:
        """Decode the images of a batch that were left to the device.

        Args:
            decoded: The samples of the batch, in which these are `DeviceImage`.
            numbers: int64[samples], the positions of the samples in the dataset.
            dataset: The dataset, for errors.

        Returns:
            The samples, and counts for the clock.
        """
        finished: list[Any] = list(decoded)
        counts = dict.fromkeys(("device", "device_images", "device_refused"), 0.0)
        for name in self.plans:
            places = [
                place
                for place, sample in enumerate(finished)
                if isinstance(sample, dict) and type(sample.get(name)) is DeviceImage
            ]
            if not places:
                continue
            images: list[DeviceImage] = [finished[place][name] for place in places]
            with self._turns:
                started = perf_counter()
                tensor, refused = self._decoded(images)
                counts["device"] += perf_counter() - started
            for number, place in enumerate(places):
                sample, image = finished[place], images[number]
                if number not in refused:
                    sample[name] = DeviceImage(None, image.geometry, number, tensor)
                elif (error := self._on_host(sample, name, image)) is not None:
                    finished[place] = failure_of(
                        dataset, error, int(numbers[place]), sample[KEY], name
                    )
            counts["device_images"] += len(places) - len(refused)
            counts["device_refused"] += len(refused)
        return finished, counts

    def _on_host(self, sample: Any, name: str, image: DeviceImage) -> CodecError | None:
        """Decode an image that the device refused on the CPU, and return the error if that fails, too."""
        plan = self.host_plan(name)
        out = np.empty((1, *plan.shape), plan.dtype)
        errors = decode_into(
            plan, [image.data], [image.geometry], out, reducing_gap=self.reducing_gap
        )
        if not errors:
            sample[name] = out[0]
        return errors.get(0)

    def _decoded(self, images: Sequence[DeviceImage]) -> tuple[Any, Sequence[int]]:
        """Return the pixels of images as a tensor on the device, and the numbers of those that it refused."""
        import torch

        packed = self._packed(images)
        try:
            with self.tuning.on_device():
                pixels, errors = self.decoder.decode(packed)
                with self.stream.complete():
                    return self._taken(pixels, (len(images), *packed.size, 3)), sorted(errors)
        except (MemoryError, torch.OutOfMemoryError) as error:
            if not self._warned:
                self._warned.append(True)
                warnings.warn(
                    f"the device has no memory for {len(images)} images, which are "
                    f"decoded on the CPU; set share=, or make batches smaller: {error}",
                    stacklevel=2,
                )
            return None, range(len(images))

    def _packed(self, images: Sequence[DeviceImage]) -> EncodedImages:
        """Put the stored bytes of images into one buffer: page-locked memory, which torch keeps for later ones."""
        import torch

        offsets = offsets_of(len(image.data) for image in images)
        buffer = torch.empty(
            int(offsets[-1]), dtype=torch.uint8, pin_memory=self.stream.is_cuda
        ).numpy()
        for image, start, stop in zip(
            images, offsets[:-1].tolist(), offsets[1:].tolist(), strict=True
        ):
            buffer[start:stop] = np.frombuffer(image.data, np.uint8)
        rows = geometry_rows(image.geometry for image in images)
        width, height = images[0].geometry.size
        corners = rows[:, 6:8]
        return EncodedImages(
            buffer,
            offsets,
            rows[:, :4],
            rows[:, 4:6],
            np.concatenate([corners, corners + np.array([width, height], np.int32)], axis=1),
            rows[:, 8:].astype(np.bool_),
            (height, width),
            self.device,
        )

    def _taken(self, pixels: Any, shape: tuple[int, ...]) -> Any:
        """Return the pixels that a decoder returned as a tensor of this shape, whose memory is torch's."""
        import torch

        if torch.is_tensor(pixels):
            tensor = pixels
        else:
            tensor = torch.from_dlpack(pixels)
        if tuple(tensor.shape) != shape or tensor.dtype != torch.uint8:
            raise CodecError(
                f"the decoder {type(self.decoder).__name__} returned "
                f"{tensor.dtype}{list(tensor.shape)}: expected uint8{list(shape)}"
            )
        # torch knows of its own memory only whether the trainer's kernels still read it after the
        # batch was deleted
        if tensor is pixels or not tensor.is_cuda:
            return tensor
        return tensor.clone()

    def _written(self, name: str, pixels: Any, plan: DecodePlan) -> Any:
        """Return pixels in the layout and the normalisation of a plan, with the values that the CPU gives them."""
        import torch

        if plan.normalise is None:
            if plan.layout == "CHW":
                return pixels.permute(0, 3, 1, 2).contiguous()
            return pixels
        if name not in self._tables:
            self._tables[name] = torch.from_numpy(plan.normalise.table.copy()).to(pixels.device)
        table = self._tables[name]
        images, height, width, _ = pixels.shape
        axis = 1 if plan.layout == "CHW" else 3
        shape = (images, 3, height, width) if axis == 1 else pixels.shape
        out = torch.empty(shape, dtype=table.dtype, device=pixels.device)
        for channel, values in enumerate(out.unbind(axis)):
            places = pixels[..., channel].reshape(-1).int()
            values.copy_(table[:, channel].index_select(0, places).view(images, height, width))
        return out

    def collated(self, samples: list[Sample], rules: Any, stacked: Batch) -> Batch:
        """Collate samples field by field, in which each field of images becomes one tensor on the device."""
        batch = collate(samples, {**(rules or {}), **dict.fromkeys(self.plans, "list")}, stacked)
        with self.stream.complete():
            return {
                name: self._written(name, self._together(value), self.plans[name])
                if name in self.plans
                else value
                for name, value in batch.items()
            }

    def _together(self, images: Sequence[Array | DeviceImage]) -> Any:
        """Return the pixels of images that either side decoded as one tensor on the device."""
        import torch

        on_device = {
            place: image for place, image in enumerate(images) if isinstance(image, DeviceImage)
        }
        decoded = next((image.pixels for image in on_device.values()), None)
        rows = [image.row for image in on_device.values()]
        if decoded is not None and rows == list(range(len(images))) == list(range(len(decoded))):
            return decoded  # the device decoded the whole batch: nothing is copied
        stacked = None
        if parts := [image for image in images if not isinstance(image, DeviceImage)]:
            shape = len(parts), *parts[0].shape
            stacked = torch.empty(shape, dtype=torch.uint8, pin_memory=self.stream.is_cuda)
            # torch.stack would have threads of its own for each of these, which wait for processors
            np.stack(parts, out=stacked.numpy())
            if self.device is not None:
                stacked = stacked.to(self.device, non_blocking=True)
        if decoded is None:
            return stacked
        whole = decoded.new_empty((len(images), *decoded.shape[1:]))
        whole[[*on_device]] = decoded[rows]
        if stacked is not None:
            host_places = [place for place in range(len(images)) if place not in on_device]
            whole[host_places] = stacked.to(whole.device)
        return whole


def device_step_of(options: LoaderOptions, transforms: SampleTransforms) -> DeviceStep:
    """Return the step that decodes on a device.

    Raises:
        ValueError: No image field has transforms that a decoder can do.
    """
    plans = {}
    for step in transforms.fields:
        plan = step.plan
        if plan is None or plan.size is None or step.frames is not None or step.images or step.rest:
            continue
        if plan.normalise is None or len(plan.normalise.mean) == 3:
            plans[step.field] = plan
    if not plans:
        raise ValueError(
            'decode="device" needs an image field whose transforms are crops, resizing '
            "to one size, flips, Normalize and ToCHW only, in this order, such as "
            "[RandomResizedCrop(224), RandomHorizontalFlip()]. Other transforms can "
            "follow in batch_transform=, which gets the tensor on the device"
        )
    threads = cpu_count() if options.threads is None else options.threads
    decoder: DeviceDecoder | None = options.decoder
    if decoder is None:
        from .nvidia import NvidiaDecoder

        decoder = NvidiaDecoder()
    tuning, stream = Tuning(options.share, threads), Stream(options.device)
    return DeviceStep(decoder, options.device, plans, tuning, stream, transforms.reducing_gap)

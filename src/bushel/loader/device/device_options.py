"""Check the options of a loader that decodes on a device, and make its decoding step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bushel._runtime.threads import cpu_count

from .device import DeviceDecoder
from .device_step import DeviceStep, Stream, Tuning

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import SampleTransforms
    from bushel.loader.options import LoaderOptions


def check_decode(options: LoaderOptions) -> None:
    """Check `decode=`, and the options that go with `decode="device"`.

    Raises:
        TypeError: `decode` is not True, False or `"device"`, or the decoder has no method `decode`.
        ValueError: Options contradict each other.
    """
    if options.decode not in (True, False, "device"):
        raise TypeError(f"decode={options.decode!r}: expected True, False or 'device'")
    if options.decode != "device":
        if options.decoder is not None or options.share != 1:
            raise ValueError('decoder= and share= need decode="device"')
        return
    if options.decoder is None and not _is_cuda(options.device):
        raise ValueError(
            'decode="device" needs device="cuda", or decoder=, an object that decodes on the'
            " device: see "
            "bushel.loader.DeviceDecoder"
        )
    if options.decoder is not None and not isinstance(options.decoder, DeviceDecoder):
        raise TypeError(
            f"decoder={options.decoder!r} has no method decode: see bushel.loader.DeviceDecoder"
        )
    if options.share != "tuned" and not (
        isinstance(options.share, int | float) and 0 <= options.share <= 1
    ):
        raise ValueError(
            f"share={options.share!r}: expected a share of the images from 0 to 1, or 'tuned'"
        )
    if options.to != "torch":
        raise ValueError('decode="device" gives tensors: add to="torch"')
    refused = {
        "processes=": options.processes > 0,
        "sample_transform=": options.sample_transform is not None,
        "a function as collate=": callable(options.collate),
        "pack_by= and chunk_by=": options.pack_by is not None or options.chunk_by is not None,
        "batch_size=None": options.batch_size is None and options.bucket_by is None,
    }
    if wrong := [name for name, is_given in refused.items() if is_given]:
        raise ValueError(
            f'decode="device" makes whole batches of images in this process: leave out {wrong[0]}'
        )


def device_step_of(options: LoaderOptions, transforms: SampleTransforms) -> DeviceStep | None:
    """Return the step that decodes on a device; None if the CPU decodes everything.

    Raises:
        ValueError: No image field has transforms that a decoder can do.
    """
    if options.decode != "device":
        return None
    plans = {}
    for step in transforms.fields:
        plan = step.plan
        if plan is None or plan.size is None or step.frames is not None or step.images or step.rest:
            continue
        if plan.normalise is None or len(plan.normalise.mean) == 3:
            plans[step.field] = plan
    if not plans:
        raise ValueError(
            'decode="device" needs an image field whose transforms are crops, resizing to one'
            " size, flips, Normalize "
            "and ToCHW only, in this order, such as [RandomResizedCrop(224),"
            " RandomHorizontalFlip()]. Other transforms "
            "can follow in batch_transform=, which gets the tensor on the device"
        )
    threads = cpu_count() if options.threads is None else options.threads
    decoder: DeviceDecoder | None = options.decoder
    if decoder is None:
        from .nvidia import NvidiaDecoder

        decoder = NvidiaDecoder()
    tuning, stream = Tuning(options.share, threads), Stream(options.device)
    return DeviceStep(decoder, options.device, plans, tuning, stream, transforms.reducing_gap)


def _is_cuda(device: Any) -> bool:
    """Return whether a device is a GPU as torch names them, such as "cuda:1"."""
    return str(device).partition(":")[0] == "cuda"

"""A referee for any loader: which samples each rank was given, step by step, and where that goes wrong.

    from bushel.audit import examine, record

    for batch in record(loader, "runs/a", epoch=epoch):  # any iterable of batches, on every rank
        train(batch)

    print(examine("runs/a"))

It needs nothing of Bushel's datasets: a `torch.utils.data.DataLoader`, Grain, MosaicML Streaming,
Energon, `datasets` and a generator of one's own are recorded alike.
"""

from .examining import Finding, Report, examine
from .recordings import record

__all__ = ["Finding", "Report", "examine", "record"]

"""ml-4m: one sample from shards of several modalities."""

import io
import itertools
from pathlib import Path
from typing import Any

import numpy as np
from run_program import packages, picture, show, stand_ins, write_tar


def _npy(seed: int) -> bytes:
    out = io.BytesIO()
    np.save(out, np.arange(seed, seed + 5, dtype=np.int16))
    return out.getvalue()


def run(folder: Path) -> None:
    """Load samples and batches."""
    packages(folder, "fourm", "fourm.data", "fourm.utils")
    stand_ins(
        "torchvision",
        "fourm.data.masking",
        "fourm.data.modality_transforms",
        "fourm.utils.dist",
        "fourm.data.multimodal_dataset_folder",
        get_transform_key=lambda key: key,
        UnifiedDataTransform=lambda **_: lambda sample: {key: np.asarray(value) for key, value in sample.items()},
    )
    from fourm.data import unified_datasets

    for shard in range(2):
        write_tar(f"set/rgb/{shard}.tar", [(f"{n}.jpg", picture(n)) for n in range(5)])
        write_tar(f"set/tok_rgb/{shard}.tar", [(f"{n}.npy", _npy(n)) for n in range(5)])
        write_tar(
            f"set/all/{shard}.tar",
            [
                (f"{n}.{kind}", content)
                for n in range(5)
                for kind, content in (("rgb.jpg", picture(n)), ("tok_rgb.npy", _npy(n)))
            ],
        )
    write_tar("set/tok_rgb/2.tar", [("9.npy", _npy(9))])
    write_tar("set/rgb/2.tar", [("8.jpg", picture(8))])
    for urls in (["set/[rgb,tok_rgb]/0.tar", "set/[rgb,tok_rgb]/2.tar"], ["set/all/0.tar", "set/[rgb]/1.tar"]):
        samples = unified_datasets.multi_tarfile_samples([{"url": url} for url in urls])
        for sample in samples:
            show("sample", sample)
    information: dict[str, Any] = {"rgb": {}, "tok_rgb": {}}
    for place in ("set/[rgb,tok_rgb]/{0..1}.tar", "set/all/{0..1}.tar"):
        for size in (None, 3):
            loader = unified_datasets.build_wds_divae_dataloader(
                place, information, {}, None, 1, 1, size, 12, n_repeats=2
            )
            batches = list(itertools.islice(iter(loader), 12))
            show("batches", [sorted(batch) for batch in batches])
            for batch in batches:
                show("shapes", {name: (str(batch[name].dtype), list(batch[name].shape)) for name in batch})

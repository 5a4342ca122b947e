"""Prepare archives with Energon, read them with Energon, and print the samples.

    python energon_samples.py OUT

OUT is a folder of archives in WebDataset's form. Energon writes `.nv-meta` (with `index.sqlite`) and an index beside
each archive. Each line is a sample, in the order of Energon's validation split: its key, its archive, and the digest of
each member.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from pathlib import Path

from megatron.energon import (
    Cooker,
    DefaultTaskEncoder,
    Sample,
    WorkerConfig,
    basic_sample_keys,
    edataclass,
    get_loader,
    get_val_dataset,
    stateless,
)
from megatron.energon.flavors.webdataset.prepare import WebdatasetPreparator

CRUDE = "__module__: megatron.energon\n__class__: CrudeWebdataset\n"


@edataclass
class Stored(Sample):
    """The stored bytes of a sample, by the names of its members."""

    fields: dict[str, bytes]


@stateless
def as_stored(sample: dict) -> Stored:
    """Return a sample of Energon as it is stored."""
    return Stored(**basic_sample_keys(sample), fields={n: v for n, v in sample.items() if isinstance(v, bytes)})


class Plain(DefaultTaskEncoder):
    """Hands on samples without decoding or joining them."""

    cookers = (Cooker(as_stored),)
    decoder = None

    def batch(self, samples: list[Stored]) -> list[Stored]:
        """Return the samples as they are."""
        return samples

    def encode_batch(self, batch: list[Stored]) -> list[Stored]:
        """Return the samples as they are."""
        return batch


def main() -> None:
    """Prepare, read and print."""
    folder = Path(sys.argv[1])
    archives = sorted(path.name for path in folder.glob("*.tar"))
    with contextlib.redirect_stdout(sys.stderr):  # it tells what it does
        WebdatasetPreparator.prepare_dataset(
            folder, archives, split_parts_ratio=[("val", 1.0)], shuffle_seed=None, workers=1
        )
    (folder / ".nv-meta" / "dataset.yaml").write_text(CRUDE)
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    samples = get_val_dataset(folder, worker_config=config, batch_size=4, task_encoder=Plain())
    for batch in get_loader(samples):
        for sample in batch:
            fields = {name: [hashlib.sha256(value).hexdigest(), len(value)] for name, value in sample.fields.items()}
            print(json.dumps({"key": sample.__key__, "fields": fields}))


if __name__ == "__main__":
    main()

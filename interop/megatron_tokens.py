"""Write files of tokens with Megatron-LM, read them with its IndexedDataset, and print the values.

    python megatron_tokens.py KIND OUT

KIND is a dtype of NumPy, `multimodal`, or `merged` (two files that `add_index` joined). Each line is a document: its
dtype, and a list of the digests and lengths of its sequences, as IndexedDataset returns them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

DOCUMENTS = ((7,), (3, 1, 12), (1,), (0, 5), (300,), (2, 2))


def build(prefix: Path, dtype: type[Any], multimodal: bool, seed: int) -> None:
    """Write one pair of files."""
    rng = np.random.default_rng(seed)
    builder = IndexedDatasetBuilder(f"{prefix}.bin", dtype=dtype, multimodal=multimodal)
    for number, lengths in enumerate(DOCUMENTS):
        sequences = [rng.integers(0, 120, length).astype(dtype) for length in lengths]
        if number % 2 and not multimodal:
            builder.add_document(np.concatenate(sequences), list(lengths))
            continue
        for sequence in sequences:
            plain = sequence.astype(np.int64 if np.issubdtype(dtype, np.integer) else np.float64)
            builder.add_item(torch.from_numpy(plain), mode=number % 3)
        builder.end_document()
    builder.finalize(f"{prefix}.idx")


def main() -> None:
    """Write, read and print."""
    kind, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True)
    multimodal = kind == "multimodal"
    if kind == "merged":
        parts = [out.with_name(f"{out.name}-{number}") for number in range(2)]
        for number, part in enumerate(parts):
            build(part, np.int32, False, number)
        joined = IndexedDatasetBuilder(f"{out / 'corpus'}.bin", dtype=np.int32)
        for part in parts:
            joined.add_index(str(part))
        joined.finalize(f"{out / 'corpus'}.idx")
    else:
        build(out / "corpus", np.int32 if multimodal else getattr(np, kind), multimodal, 5)
    read = IndexedDataset(str(out / "corpus"), multimodal=multimodal)
    borders = read.document_indices.tolist()
    for first, last in zip(borders, borders[1:], strict=False):
        found = [read[number] for number in range(first, last)]
        own = [each[0] if multimodal else each for each in found]
        digests = [[hashlib.sha256(each.tobytes()).hexdigest(), len(each)] for each in own]
        print(json.dumps({"dtype": own[0].dtype.name, "sequences": digests}))


if __name__ == "__main__":
    main()

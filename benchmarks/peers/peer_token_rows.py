"""Make rows of tokens out of documents: `peer_token_rows.py READER FOLDER ROWS`, in the environment that has READER.

FOLDER has the same documents of uint16 as a bag (`packed`) and as a corpus of Megatron-LM (`corpus.bin`, `corpus.idx`).
Every reader gives batches of `BATCH` rows: of `CHUNK` tokens, cut from shuffled documents that are joined, or of up to
`PACK` tokens, packed with whole documents. For each line on standard input, which is the number of a round, the first
ROWS rows of an epoch are made, and one JSON object is printed: rows, wall and CPU seconds, and the share of the tokens
of documents in the rows. One whole epoch before the first round is not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

BATCH, CHUNK, PACK = 8, 4097, 8192

Rows = Iterator[Any]
"""Batches of rows of tokens; the tokens of documents in each are not 0."""

Epoch = Callable[[int], Rows]
"""Begins an epoch, given its seed. What readers keep open between epochs stays open."""


def lengths_of(folder: Path) -> Any:
    """Return the tokens of each document."""
    return np.load(folder / "lengths.npy")


def by_bushel(folder: Path, name: str, threads: int, **options: Any) -> Epoch:
    """Make rows with a Loader, whose epochs follow each other."""
    import bushel

    dataset = bushel.open(folder / name)
    loader: Any = bushel.Loader(dataset, BATCH, **{"shuffle": True, "keys": False, "threads": threads, **options})
    return lambda seed: (batch["tokens"] for batch in loader)


def by_bushel_like_megatron(folder: Path) -> Epoch:
    """Make the rows of Megatron-LM, in its order, of its files."""
    from bushel.loader import Megatron

    return by_bushel(folder, "corpus.bin", 0, shuffle=Megatron(), **CHUNKS)


def by_memmap(folder: Path) -> Epoch:
    """Join and cut slices of a memory-mapped array, as little as that needs."""
    tokens = np.asarray(np.memmap(folder / "corpus.bin", np.uint16, "r"))
    lengths = lengths_of(folder)
    begins, sizes, step = (np.cumsum(lengths) - lengths).tolist(), lengths.tolist(), CHUNK - 1

    def epoch(seed: int) -> Rows:
        order = np.random.default_rng(seed).permutation(len(lengths))
        ends = np.cumsum(lengths[order])
        count = (int(ends[-1]) - 1) // step
        firsts = np.searchsorted(ends, np.arange(count) * step, side="right").tolist()
        documents, stops = order.tolist(), ends.tolist()
        for batch in range(0, count // BATCH * BATCH, BATCH):
            out = np.empty((BATCH, CHUNK), np.uint16)
            for row in range(BATCH):
                at, place, own, number = 0, (batch + row) * step, out[row], firsts[batch + row]
                while at < CHUNK:
                    document = documents[number]
                    skip = place + at - stops[number] + sizes[document]
                    size = min(sizes[document] - skip, CHUNK - at)
                    start = begins[document] + skip
                    own[at : at + size] = tokens[start : start + size]
                    at, number = at + size, number + 1
            yield out

    return epoch


def by_megatron(folder: Path, joined_only: bool) -> Epoch:
    """Make rows with the GPTDataset of Megatron-LM, whose indices are made before the clock starts."""
    import torch
    from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
    from megatron.core.datasets.indexed_dataset import IndexedDataset
    from megatron.core.datasets.utils import Split

    class Tokens(SimpleNamespace):
        """The tokenizer that the configuration asks for; it is not used."""

        unique_identifiers = {"class": "none"}

    config = GPTDatasetConfig(
        random_seed=0,
        sequence_length=CHUNK - 1,
        split="1",
        tokenizer=Tokens(eod=0, pad=0, vocab_size=50_000),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        create_attention_mask=False,
    )
    corpus = IndexedDataset(str(folder / "corpus"))
    documents = np.arange(len(lengths_of(folder)), dtype=np.int32)
    dataset: Any = GPTDataset(corpus, str(folder / "corpus"), documents, None, Split.train, config)
    whole = range(len(dataset) // BATCH * BATCH)
    if joined_only:
        row = dataset._query_document_sample_shuffle_indices
        return lambda seed: (np.stack([row(at + number)[0] for number in range(BATCH)]) for at in whole[::BATCH])
    loader = torch.utils.data.DataLoader(dataset, BATCH, drop_last=True)
    return lambda seed: (batch["tokens"].numpy() for batch in loader)


def by_grain(folder: Path, bins: int | None) -> Epoch:
    """Make rows with the datasets of Grain: packed into `bins` rows at a time, or joined and cut."""
    import grain.experimental
    import grain.python

    lengths = lengths_of(folder)
    tokens = np.asarray(np.memmap(folder / "corpus.bin", np.uint16, "r"))
    ends = np.cumsum(lengths)

    class Documents:
        """The documents, as slices of a memory-mapped array."""

        def __len__(self) -> int:
            return len(lengths)

        def __getitem__(self, number: Any) -> Any:
            end = int(ends[number])
            return {"tokens": tokens[end - int(lengths[number]) : end]}

    def epoch(seed: int) -> Rows:
        options: Any = grain.python.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        source: Any = grain.python.MapDataset.source(Documents()).shuffle(seed=seed).to_iter_dataset(options)
        if bins is None:
            rows: Any = grain.experimental.ConcatThenSplitIterDataset(source, length_struct={"tokens": CHUNK})
        else:
            rows = grain.experimental.FirstFitPackIterDataset(
                source, length_struct={"tokens": PACK}, num_packing_bins=bins, seed=seed
            )
        return (batch["tokens"] for batch in rows.batch(BATCH, drop_remainder=True))

    return epoch


CHUNKS: dict[str, Any] = {"chunk_by": "tokens.length", "chunk_tokens": CHUNK, "overlap": 1}
PACKS: dict[str, Any] = {"pack_by": "tokens.length", "pack_tokens": PACK}

READERS: dict[str, Callable[[Path], Epoch]] = {
    "memmap": by_memmap,
    "bushel chunks 0": lambda folder: by_bushel(folder, "packed", 0, **CHUNKS),
    "bushel chunks 1": lambda folder: by_bushel(folder, "packed", 1, **CHUNKS),
    "bushel megatron": by_bushel_like_megatron,
    "megatron joined": lambda folder: by_megatron(folder, joined_only=True),
    "megatron": lambda folder: by_megatron(folder, joined_only=False),
    "grain chunks": lambda folder: by_grain(folder, None),
    "bushel packs 0": lambda folder: by_bushel(folder, "packed", 0, **PACKS),
    "bushel packs 1": lambda folder: by_bushel(folder, "packed", 1, **PACKS),
    "grain packs 8": lambda folder: by_grain(folder, 8),
    "grain packs 64": lambda folder: by_grain(folder, 64),
}


def main() -> None:
    """Serve rounds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("reader", choices=READERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("rows", type=int)
    options = parser.parse_args()
    read = READERS[options.reader](options.folder)
    used = size = 0
    for batch in read(99):  # initialises lazily made objects, and touches all pages
        used, size = used + int(np.count_nonzero(batch)), size + batch.size
    print("ready", flush=True)
    for line in sys.stdin:
        rows, batches = 0, read(int(line))
        wall, cpu = time.perf_counter(), time.process_time()
        for batch in batches:
            rows += len(batch)
            if rows >= options.rows:
                break
        done = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps({**done, "items": rows, "used": used / size}), flush=True)


if __name__ == "__main__":
    main()

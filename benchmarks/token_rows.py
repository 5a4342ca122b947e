"""Benchmark of rows of tokens made of documents: joined and cut, and packed, against Megatron-LM, Grain and a memmap.

    python benchmarks/token_rows.py --python PYTHON --out token_rows.json
    python benchmarks/token_rows.py --small

PYTHON is the interpreter of an environment with grain, torch and megatron-core; without it, these are skipped. The
documents are 200,000 of uint16 with lognormal lengths, 665 tokens on average, in memory, in batches of 8 rows. Every
reader is a process of its own, and they take turns. CPU time is that of the process.
"""

from __future__ import annotations

import shutil
import struct
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from measure import SCRATCH, Rate, Serving, console, in_turns, options_parser, save, show

READER = Path(__file__).resolve().parent / "peers" / "peer_token_rows.py"
DOCUMENTS, ROWS = 200_000, 4_000

CHUNKS = {
    "memmap, joined and cut": "memmap",
    "bushel, 0 workers": "bushel chunks 0",
    "bushel, 1 worker": "bushel chunks 1",
    "bushel, Megatron's order and files": "bushel megatron",
    "Megatron-LM, only joined and stacked": "megatron joined",
    "Megatron-LM in a DataLoader": "megatron",
    "Grain ConcatThenSplit": "grain chunks",
}
PACKS = {
    "bushel, 0 workers": "bushel packs 0",
    "bushel, 1 worker": "bushel packs 1",
    "Grain FirstFitPack, 8 bins": "grain packs 8",
    "Grain FirstFitPack, 64 bins": "grain packs 64",
}


def fill(count: int) -> Path:
    """Return a folder with the documents, which is made if it is not there."""
    folder = SCRATCH / f"token-rows-{count}"
    if (folder / "done").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    lengths = np.clip(random.lognormal(6, 1, count), 1, 8192).astype(np.int64)
    np.save(folder / "lengths.npy", lengths)
    with (
        bushel.Writer(folder / "packed", {"tokens": "array(uint16,-1)"}, container="bag") as writer,
        (folder / "corpus.bin").open("wb") as corpus,
    ):
        for length in lengths.tolist():
            tokens = random.integers(1, 50_000, length, np.uint16)
            writer.append({"tokens": tokens})
            corpus.write(tokens.tobytes())
    offsets = (np.cumsum(lengths) - lengths) * 2
    head = struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, 8, count, count + 1)
    parts = lengths.astype("<i4"), offsets.astype("<i8"), np.arange(count + 1, dtype="<i8")
    (folder / "corpus.idx").write_bytes(head + b"".join(part.tobytes() for part in parts))
    (folder / "done").touch()
    return folder


def contest(
    readers: dict[str, str], folder: Path, python: Path | None, rows: int, rounds: int, skipped: dict[str, str]
) -> dict[str, Rate]:
    """Measure all readers in turns."""
    with ExitStack() as stack:
        serving: dict[str, Any] = {}
        for name, reader in readers.items():
            own = Path(sys.executable) if reader.startswith(("bushel", "memmap")) else python
            if own is None:
                skipped[name] = "no interpreter was given"
                continue
            try:
                serving[name] = stack.enter_context(Serving([str(own), str(READER), reader, str(folder), str(rows)]))
            except RuntimeError as error:
                skipped[name] = str(error)
        found = in_turns(serving, rounds)
        for name, one in serving.items():
            console.print(f"{name}: {one.answer['used']:.2%} of the rows are tokens of documents")
    return found


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Rows of tokens made of documents.", "a tenth of the documents and rows, fewer rounds")
    parser.add_argument("--python", type=Path, help="an interpreter with grain, torch and megatron-core")
    parser.add_argument("--rounds", type=int)
    options = parser.parse_args()
    part, rounds = (10, options.rounds or 3) if options.small else (1, options.rounds or 5)
    folder, skipped = fill(DOCUMENTS // part), dict[str, str]()
    results: dict[str, Any] = {}
    for title, readers, first in (
        ("rows of 4,097 tokens, joined and cut", CHUNKS, "memmap, joined and cut"),
        ("rows of 8,192 tokens, packed", PACKS, "bushel, 0 workers"),
    ):
        results[title] = contest(readers, folder, options.python, ROWS // part, rounds, skipped)
        show(title, "rows", results[title], [first])
    save(options.out, results, skipped)


if __name__ == "__main__":
    main()

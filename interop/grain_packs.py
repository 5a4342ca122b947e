"""Pack documents with Grain, by first fit, and print the rows.

    python grain_packs.py DOCUMENTS.json TOKENS BINS

DOCUMENTS.json is a list of lists of tokens. Each line is a row: a list of [document's tokens, their positions].
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import grain.python
import numpy as np
from grain import experimental


def main() -> None:
    """Print the rows that Grain makes."""
    _, path, tokens, bins = sys.argv
    source = [{"tokens": np.array(own, np.int32)} for own in json.loads(Path(path).read_text())]
    rows = experimental.FirstFitPackIterDataset(
        grain.python.MapDataset.source(source).to_iter_dataset(),
        length_struct={"tokens": int(tokens)},
        num_packing_bins=int(bins),
    )
    for row in rows:
        segments, found = row["tokens_segment_ids"], []
        for number in range(1, int(segments.max()) + 1):
            own = segments == number
            found.append([row["tokens"][own].tolist(), row["tokens_positions"][own].tolist()])
        print(json.dumps({"documents": found}))


if __name__ == "__main__":
    main()

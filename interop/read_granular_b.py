"""Read a dataset with Granular 0.20.3: ``read_granular_b.py DIRECTORY [--decode]``, plain or sharded."""

from __future__ import annotations

import granular
from granular_datasets import read

if __name__ == "__main__":
    read(granular)

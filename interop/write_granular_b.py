"""Write a dataset with Granular 0.20.3: ``write_granular_b.py PLAN DIRECTORY [--shard-samples N]``."""

from __future__ import annotations

import granular
from granular_datasets import write

if __name__ == "__main__":
    write(granular)

"""Verifying datasets, repairing damaged ones, comparing two of them, removing and erasing samples."""

from .diff_datasets import Diff, FieldDiff, diff
from .erasing import Erasure, erase
from .problems import Problem, VerifyResult
from .removing import Removal, removals, remove, removed_positions, restore
from .repair_dataset import RepairResult, repair
from .verify_dataset import verify

__all__ = [
    "Diff",
    "Erasure",
    "FieldDiff",
    "Problem",
    "Removal",
    "RepairResult",
    "VerifyResult",
    "diff",
    "erase",
    "removals",
    "removed_positions",
    "remove",
    "repair",
    "restore",
    "verify",
]

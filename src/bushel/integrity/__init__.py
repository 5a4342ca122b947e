"""Verifying datasets, repairing damaged ones, comparing two of them, removing and erasing samples."""

from bushel.integrity.diff_datasets import Diff, FieldDiff, diff
from bushel.integrity.erasing import Erasure, erase
from bushel.integrity.problems import Problem, VerifyResult
from bushel.integrity.removing import Removal, removals, remove, removed_positions, restore
from bushel.integrity.repair_dataset import RepairResult, repair
from bushel.integrity.verify_dataset import verify

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

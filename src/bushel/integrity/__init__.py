"""Verifying datasets, repairing damaged ones, comparing two of them, and removing samples."""

from bushel.integrity.diff_datasets import Diff, FieldDiff, diff
from bushel.integrity.problems import Problem, VerifyResult
from bushel.integrity.removing import Removal, removals, remove, restore
from bushel.integrity.repair_dataset import RepairResult, repair
from bushel.integrity.verify_dataset import verify

__all__ = [
    "Diff",
    "FieldDiff",
    "Problem",
    "Removal",
    "RepairResult",
    "VerifyResult",
    "diff",
    "removals",
    "remove",
    "repair",
    "restore",
    "verify",
]

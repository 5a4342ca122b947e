"""Verifying datasets, repairing damaged ones, and comparing two of them."""

from bushel.integrity.diff_datasets import Diff, FieldDiff, diff
from bushel.integrity.problems import Problem, VerifyResult
from bushel.integrity.repair_dataset import RepairResult, repair
from bushel.integrity.verify_dataset import verify

__all__ = ["Diff", "FieldDiff", "Problem", "RepairResult", "VerifyResult", "diff", "repair", "verify"]

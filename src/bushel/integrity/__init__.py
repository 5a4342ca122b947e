"""Verifying datasets, and repairing damaged ones."""

from bushel.integrity.problems import Problem, VerifyResult
from bushel.integrity.repair_dataset import RepairResult, repair
from bushel.integrity.verify_dataset import verify

__all__ = ["Problem", "RepairResult", "VerifyResult", "repair", "verify"]

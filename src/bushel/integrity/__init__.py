"""Checking datasets and repairing them: what is damaged, where, how that is known, and what is left of them."""

from bushel.integrity.repair_dataset import Repair, repair
from bushel.integrity.report import Problem, Report
from bushel.integrity.verify_dataset import verify

__all__ = ["Problem", "Repair", "Report", "repair", "verify"]

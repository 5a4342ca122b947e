"""Checking datasets and repairing them: what is damaged, where, how that is known, and what is left of them."""

from bushel.integrity.dataset import verify
from bushel.integrity.report import Problem, Report
from bushel.integrity.rescue import Repair, repair

__all__ = ["Problem", "Repair", "Report", "repair", "verify"]

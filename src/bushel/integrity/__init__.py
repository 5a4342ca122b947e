"""Checking datasets: what is damaged, where, and how that is known."""

from bushel.integrity.dataset import verify
from bushel.integrity.report import Problem, Report

__all__ = ["Problem", "Report", "verify"]

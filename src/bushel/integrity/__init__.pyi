"""The names of `bushel.integrity` and their modules, which the package reads, too."""

from bushel.integrity.diff_datasets import Diff as Diff
from bushel.integrity.diff_datasets import FieldDiff as FieldDiff
from bushel.integrity.diff_datasets import diff as diff
from bushel.integrity.erasing import Erasure as Erasure
from bushel.integrity.erasing import erase as erase
from bushel.integrity.problems import Problem as Problem
from bushel.integrity.problems import VerifyResult as VerifyResult
from bushel.integrity.removing import Removal as Removal
from bushel.integrity.removing import removals as removals
from bushel.integrity.removing import remove as remove
from bushel.integrity.removing import removed_positions as removed_positions
from bushel.integrity.removing import restore as restore
from bushel.integrity.repair_dataset import RepairResult as RepairResult
from bushel.integrity.repair_dataset import repair as repair
from bushel.integrity.verify_dataset import verify as verify

__all__: list[str]

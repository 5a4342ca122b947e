"""The cases of docs/hangs.md, run by the script that the page names."""

import os
import subprocess
import sys

import pytest
from tests.paths import ROOT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_the_cases_are_as_the_page_says() -> None:
    command = [sys.executable, "benchmarks/hangs.py", "--small", "--patience", "300"]
    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in out.splitlines() if line.startswith("│")]
    said = {how: what for _, how, what, _ in rows if how}
    assert said["os.fork beside a thread with a lock"].endswith("children hung")
    assert said["os.fork beside a Loader's threads"].startswith("the parent's iteration raises in the child")
    assert said["multiprocessing, spawn"] != "[0, 1, 2, 3]"
    assert said["Loader(processes=2)"] == "64 samples"
    assert said["4 workers x 1 BLAS thread"].count("samples/s") == 1

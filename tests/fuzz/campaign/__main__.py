"""Damage files of every container, a million times, and read them: see docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.fuzz.campaign.cases import ARMS
from tests.fuzz.campaign.material import CONTAINERS
from tests.fuzz.campaign.watch import Campaign, Plan, summary_of
from tests.fuzz.campaign.worker import Bench
from tests.paths import ROOT

from bushel._runtime.threads import cpu_count


def main() -> int:
    """Run, resume, or show a campaign, or repeat one case."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign", description=__doc__)
    parser.add_argument("--container", action="append", choices=CONTAINERS, help="default: all, in turns")
    parser.add_argument(
        "--suite",
        choices=("read", "kernels", "names"),
        default="read",
        help="default: read, verify, and repair datasets; kernels: damaged files straight to the compiled functions; "
        "names: forged names of codecs and files",
    )
    parser.add_argument("--cases", type=int, default=1_000_000, help="of each container (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=cpu_count(), help="processes (default: the CPUs, %(default)s)")
    parser.add_argument("--sanitize", action="store_true", help="with kernels built with ASan and UBSan")
    parser.add_argument("--out", type=Path, help="folder for state, summary, failures (default: build/campaign/SUITE)")
    parser.add_argument("--hours", type=float, help="stop after this time")
    parser.add_argument("--until", help="stop at this time of the day, HH:MM in UTC")
    parser.add_argument("--case", type=int, help="only repeat this case, in this process, with --container")
    parser.add_argument("--status", action="store_true", help="only print the summary")
    options = parser.parse_args()
    out = (options.out or ROOT / "build" / "campaign" / f"{options.suite}{'-sanitized' * options.sanitize}").resolve()
    if options.status:
        if not (out / "summary.json").exists():
            parser.error(f"{out} has no campaign: start one without --status, or name its folder with --out")
        print(json.dumps(summary_of(out), indent=1))
        return 0
    if options.case is not None:
        if len(options.container or ()) != 1:
            parser.error("--case needs one --container")
        return _repeat(options.container[0], options.suite, options.seed, options.case)
    plan = Plan(
        options.suite,
        options.container or CONTAINERS,
        options.cases,
        options.seed,
        options.threads,
        out,
        _deadline(options.hours, options.until),
        _sanitized() if options.sanitize else None,
    )
    failed = Campaign(plan).run()
    print(f"{out / 'summary.json'}: {failed} failed cases")
    return 1 if failed else 0


def _deadline(hours: float | None, until: str | None) -> float | None:
    if until is None:
        return None if hours is None else time.time() + hours * 3600
    now = datetime.fromtimestamp(time.time(), tz=UTC)
    hour, minute = map(int, until.split(":"))
    at = now.replace(hour=hour, minute=minute, second=0)
    return (at if at > now else at + timedelta(days=1)).timestamp()


def _sanitized() -> dict[str, str]:
    """Build the sanitized module, and return the variables with which Python loads it."""
    done = subprocess.run([ROOT / "scripts/sanitize.sh", "environment"], stdout=subprocess.PIPE, text=True, check=True)
    variables = dict(line.split("=", 1) for line in done.stdout.splitlines())
    variables["ASAN_OPTIONS"] += ":quarantine_size_mb=8:handle_segv=1:abort_on_error=1"
    return variables


def _repeat(container: str, suite: str, seed: int, number: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="bushel-case-"))
    try:
        bench = Bench(container, seed, folder)
        case = bench.case(number)
        material = bench.materials[case.material]
        print(f"{material.name}, {ARMS[case.arm]}: {case.file} by {', '.join(case.mutations)}; {case.verify=}")
        run = {"read": bench.run, "kernels": bench.run_kernels, "names": bench.run_names}[suite]
        print(run(case))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

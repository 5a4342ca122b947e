"""What was found: `Report` and its findings."""

from __future__ import annotations

import msgspec


class Finding(msgspec.Struct, frozen=True):
    """Something that is true of the recordings of a run.

    Attributes:
        epoch: The epoch that it is about.
        text: A sentence.
        is_problem: Whether it is wrong for nearly every training.
    """

    epoch: int
    text: str
    is_problem: bool


class Report(msgspec.Struct, frozen=True):
    """What `examine` found. Its text is what `bushel audit` prints.

    Attributes:
        title: The run, and how much was recorded.
        findings: In order of epochs.
    """

    title: str
    findings: list[Finding]

    @property
    def problems(self) -> list[Finding]:
        """The findings that are problems."""
        return [finding for finding in self.findings if finding.is_problem]

    def __str__(self) -> str:
        lines = [self.title]
        for finding in self.findings:
            mark = ("", "PROBLEM: ")[finding.is_problem]
            lines.append(f"epoch {finding.epoch}: {mark}{finding.text}")
        number = len(self.problems)
        lines.append({0: "no problems", 1: "1 problem"}.get(number, f"{number} problems"))
        return "\n".join(lines)

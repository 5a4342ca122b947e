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
            mark = "PROBLEM: " if finding.is_problem else ""
            lines.append(f"epoch {finding.epoch}: {mark}{finding.text}")
        number = len(self.problems)
        lines.append(f"{number or 'no'} problem{'' if number == 1 else 's'}")
        return "\n".join(lines)

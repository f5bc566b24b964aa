"""An alert as people and machines read it: what is wrong, whose it is, where to look and how to repair it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from stream_assets.ops.alerts.incidents import Condition, News, Notice

LONGEST = 300
"""Characters of a free text that travel: every channel takes a message of this size."""
LOOK = "stream status"
RUNBOOK = "docs/operations.md"
TOPICS = {
    "check": "failed its check",
    "drift": "changed its columns:",
    "freshness": "is not fresh:",
    "run": "could not be built:",
    "resource": "is running out:",
    "budget": "used up its error budget:",
    "capture": "does not follow its table:",
}
NEWS = {"opened": "", "escalated": "Worse: ", "reminder": "Still open: ", "recovered": "Recovered: "}


@dataclass(frozen=True)
class Alert:
    """One message about one incident. Its id stays the same however often it is sent: receivers drop what they have."""

    news: News
    condition: Condition
    opened_at: datetime
    at: datetime
    id: str = field(default_factory=lambda: uuid4().hex)

    @classmethod
    def of(cls, notice: Notice) -> Alert:
        """The alert that tells a notice."""
        return cls(notice.news, notice.condition, notice.opened_at, notice.at)

    @property
    def title(self) -> str:
        """One line that says it all."""
        if self.news == "test":
            return "Test: alerts of Stream arrive here"
        about = self.condition
        subject = about.subject.capitalize() if about.kind == "resource" else about.subject
        return one_line(f"{NEWS[self.news]}{subject} {TOPICS[about.kind]} {_cause(about)}")

    def document(self) -> dict[str, Any]:
        """Everything, for machines."""
        about = self.condition
        return {
            "id": self.id,
            "incident": about.key,
            "news": self.news,
            "severity": about.severity,
            "title": self.title,
            "kind": about.kind,
            "dataset": dataset(about),
            "asset": about.subject,
            "partitions": list(about.partitions),
            "rule": about.rule,
            "expected": one_line(about.expected),
            "found": one_line(about.found),
            "sample": [one_line(name) for name in about.sample],
            "owners": list(about.owners),
            "opened_at": self.opened_at.isoformat(timespec="seconds"),
            "at": self.at.isoformat(timespec="seconds"),
            "runbook": runbook(about),
            "look": look(about),
            "repair": repair(about),
        }

    def lines(self) -> dict[str, str]:
        """What a person reads below the title, label by label; what is not known is left out."""
        about = self.condition
        lines = {
            "severity": about.severity,
            "dataset": dataset(about),
            "days": days(about.partitions),
            "rule": about.rule,
            "expected": one_line(about.expected),
            "found": one_line(about.found),
            "such as": one_line(", ".join(about.sample)),
            "owner": ", ".join(about.owners),
            "since": f"{self.opened_at:%Y-%m-%d %H:%M} UTC",
            "look": ", ".join(look(about)),
            "repair": repair(about),
            "runbook": runbook(about),
            "alert": self.id,
        }
        return {label: text for label, text in lines.items() if text}

    def text(self) -> str:
        """The whole message as plain text."""
        return "\n".join([self.title, "", *(f"{label:<9} {text}" for label, text in self.lines().items())])


def notice_of_test(at: datetime) -> Notice:
    """What `stream alerts test` sends."""
    expected = "this message arrives"
    return Notice("test", Condition("resource", "channel", "test", "warning", expected, expected), at, at)


def one_line(text: str) -> str:
    """Text as one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def dataset(condition: Condition) -> str:
    """The dataset or model of an asset; nothing for a job or a resource."""
    return condition.subject.partition("/")[2]


def days(partitions: tuple[str, ...]) -> str:
    """Partitions in a few words."""
    if len(partitions) < 3:
        return ", ".join(partitions)
    return f"{len(partitions)} between {min(partitions)} and {max(partitions)}"


def runbook(condition: Condition) -> str:
    """Where it is written what to do."""
    return f"{RUNBOOK}#alert-{condition.kind}"


def look(condition: Condition) -> list[str]:
    """Where to see more: a command, and paths in the Dagster UI."""
    places = [condition.look or LOOK]
    if dataset(condition):
        places.append(f"/assets/{condition.subject}" + ("?view=checks" if "__" in condition.rule else ""))
    if condition.run_id:
        places.append(f"/runs/{condition.run_id}")
    return places


def repair(condition: Condition) -> str:
    """The command that mends it, or builds the days again once the cause is mended."""
    if condition.remedy:
        return condition.remedy
    if not dataset(condition) or not condition.partitions:
        return ""
    layer, _, name = condition.subject.partition("/")
    asset = f'group:"{layer}"' if name == "*" else f'key:"{condition.subject}"+'
    return f"stream run --from {min(condition.partitions)} --to {max(condition.partitions)} --select '{asset}'"


def _cause(condition: Condition) -> str:
    return condition.found if condition.kind in ("run", "resource", "freshness", "capture") else condition.rule

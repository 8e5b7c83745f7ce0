"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """How bad it is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of ``blazar doctor``.

    Attributes:
        verdict: How bad it is.
        what: What was looked at: ``data directory``, ``engine local``.
        found: What was found, a clause.
        advice: What to do, a sentence; ``""`` when nothing needs doing.
    """

    verdict: Verdict
    what: str
    found: str
    advice: str = ""


def ok(what: str, found: str) -> Finding:
    """Return a good finding."""
    return Finding(Verdict.OK, what, found)


def warn(what: str, found: str, advice: str) -> Finding:
    """Return something that works, or does not matter yet."""
    return Finding(Verdict.WARN, what, found, advice)


def bad(what: str, found: str, advice: str) -> Finding:
    """Return something that keeps Blazar from working."""
    return Finding(Verdict.BAD, what, found, advice)

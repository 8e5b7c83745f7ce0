"""A whole soak, and what is to be said of it."""

import asyncio
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from soak_parts.daemon import Held, serving
from soak_parts.load import Outcome, send_all
from soak_parts.mix import mixture

MOST_GROWTH = 0.10
"""Of resident memory over what it was after the warm-up."""

_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Soaked:
    """What was found.

    Attributes:
        calls: Sent after the warm-up.
        seconds: They took.
        before: At rest after the warm-up.
        after: At rest in the end.
        accounted: Prompt and completion tokens that the daemon counted, warm-up included.
        sent: Those that the engine sent.
        outcome: Of all calls.
    """

    calls: int
    seconds: float
    before: Held
    after: Held
    accounted: tuple[int, int]
    sent: tuple[int, int]
    outcome: Outcome

    @property
    def growth(self) -> float:
        """Of resident memory, as a share of what it was."""
        return self.after.resident_bytes / self.before.resident_bytes - 1.0

    def problems(self, *, memory: bool = True) -> list[str]:
        """Return what is not as it has to be, in words; a run that is too short says nothing about memory."""
        found = [f"{self.outcome.wrong_count} answers were wrong: {self.outcome.wrong}"] if self.outcome.wrong else []
        if self.after.in_hand:
            found.append(f"still in hand: {self.after.in_hand}")
        for what in ("descriptors", "tasks"):
            was, is_now = getattr(self.before, what), getattr(self.after, what)
            if is_now > was:
                found.append(f"{is_now} {what} are left, {was} were there before")
        if memory and self.growth > MOST_GROWTH:
            found.append(f"resident memory grew by {self.growth:.1%}")
        if self.accounted != self.sent:
            found.append(f"(prompt, completion) tokens accounted: {self.accounted}, sent: {self.sent}")
        return found

    def as_plain(self) -> dict[str, object]:
        """Return everything as JSON values."""
        return {
            "calls": self.calls,
            "seconds": round(self.seconds, 1),
            "kinds": dict(self.outcome.kinds),
            "before": asdict(self.before),
            "after": asdict(self.after),
            "growth": round(self.growth, 4),
            "tokens_accounted": self.accounted,
            "tokens_sent": self.sent,
            "problems": self.problems(),
        }

    def as_text(self) -> str:
        """Return a few lines for people."""
        before, after = self.before, self.after
        lines = [
            f"{self.calls:,} calls in {self.seconds:,.0f} s ({self.calls / self.seconds:,.0f} a second), warm-up aside",
            ", ".join(f"{count:,} {kind}" for kind, count in self.outcome.kinds.most_common()),
            "",
            f"{'at rest':<24}{'after the warm-up':>20}{'in the end':>14}",
            f"{'resident memory, MiB':<24}{before.resident_bytes / _MIB:>20.1f}{after.resident_bytes / _MIB:>14.1f}"
            f"  {self.growth:+.1%}",
            f"{'descriptors':<24}{before.descriptors:>20}{after.descriptors:>14}",
            f"{'tasks':<24}{before.tasks:>20}{after.tasks:>14}",
            f"{'gauges above zero':<24}{len(before.in_hand):>20}{len(after.in_hand):>14}",
            "",
            f"tokens of prompts: {self.accounted[0]:,} accounted, {self.sent[0]:,} sent; "
            f"of answers: {self.accounted[1]:,} accounted, {self.sent[1]:,} sent",
            "",
            *(self.problems() or ["nothing is left of them"]),
        ]
        return "\n".join(lines)


def soak(*, calls: int, keys: int, clients: int, seed: int, tell: Callable[[str], None]) -> Soaked:
    """Run the soak.

    Raises:
        BenchFailed: The daemon did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="blazar-soak-") as folder, serving(Path(folder), keys=keys) as daemon:
        mixed = mixture(calls=calls, keys=keys, names=keys, seed=seed)
        warming = calls // 10
        # What a first request starts stays: the engines, their connections, the tables of keys and routes.
        tell(f"warming up with {warming:,} calls")
        outcome = asyncio.run(send_all(daemon.port, islice(mixed, warming), clients=clients, secrets=daemon.secrets))
        before = daemon.at_rest(descriptors=0, tasks=0, deadline_s=8.0)
        tell(f"{calls - warming:,} calls")
        began_s = time.monotonic()
        rest = asyncio.run(send_all(daemon.port, mixed, clients=clients, secrets=daemon.secrets))
        seconds = time.monotonic() - began_s
        after = daemon.at_rest(descriptors=before.descriptors, tasks=before.tasks)
        outcome.kinds.update(rest.kinds)
        outcome.wrong += rest.wrong
        outcome.wrong_count += rest.wrong_count
        return Soaked(calls - warming, seconds, before, after, daemon.accounted(), daemon.sent(), outcome)

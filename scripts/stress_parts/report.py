"""What a stress run says: failures, waits, swaps, and how near it came to the best order there could be. Pure."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stress_parts.clients import Result


@dataclass(frozen=True, slots=True)
class Batch:
    """The same kind of requests for one model alone, which nobody had to make room for.

    Attributes:
        seconds: How long it took, the load not counted.
        load_s: Seconds its load took.
        answers: Given; nobody left.
        tokens: Generated.
    """

    seconds: float
    load_s: float
    answers: int
    tokens: int

    @property
    def answers_per_s(self) -> float:
        """Return its speed."""
        return self.answers / self.seconds if self.seconds else 0.0


@dataclass(frozen=True, slots=True)
class Stress:
    """A whole run.

    Attributes:
        results: Of the mixed part.
        seconds: How long that took.
        loads: Loads in it.
        batches: Each model alone, measured in the same run.
        machine_load: The machine's load average over the mixed part, this run's own work included.
        cores: How many processors it has.
    """

    results: Sequence[Result]
    seconds: float
    loads: int
    batches: Mapping[str, Batch]
    machine_load: float
    cores: int

    def failed(self) -> list[Result]:
        """Return the requests that went wrong."""
        return [result for result in self.results if result.problem]

    def waits_s(self) -> list[float]:
        """Return how long those that were answered waited, shortest first."""
        return sorted(result.wait_s for result in self.results if result.wait_s is not None and not result.problem)

    def swaps_per_minute(self) -> float:
        """Return how often one model took the other's place."""
        return max(0, self.loads - 1) * 60 / self.seconds if self.seconds else 0.0

    def tokens(self) -> int:
        """Return what was generated in the mixed part."""
        return sum(result.tokens for result in self.results)

    def answered(self) -> Counter[str]:
        """Return how many whole answers each model gave in the mixed part. What its clients left counts for nothing."""
        return Counter(one.order.model for one in self.results if not one.problem and not one.left)

    def ideal_s(self) -> float:
        """Return the seconds that those answers would take model by model, each loaded once, nobody leaving."""
        return sum(
            batch.load_s + self.answered()[model] / batch.answers_per_s
            for model, batch in self.batches.items()
            if self.answered()[model] and batch.answers_per_s
        )

    def as_plain(self) -> dict[str, object]:
        """Return it for machines."""
        waits = self.waits_s()
        return {
            "requests": len(self.results),
            "failed": [
                {"model": one.order.model, "kind": str(one.order.kind), "at_s": one.began_s, "problem": one.problem}
                for one in self.failed()
            ],
            "left": sum(result.left for result in self.results),
            "seconds": round(self.seconds, 1),
            "wait_p50_s": round(share(waits, 0.5), 2),
            "wait_p95_s": round(share(waits, 0.95), 2),
            "wait_max_s": round(share(waits, 1.0), 2),
            "loads": self.loads,
            "swaps_per_minute": round(self.swaps_per_minute(), 2),
            "tokens_per_s": round(self.tokens() / self.seconds, 1) if self.seconds else 0.0,
            "answers_per_minute": _per_minute(self.answered().total(), self.seconds),
            "ideal_answers_per_minute": _per_minute(self.answered().total(), self.ideal_s()),
            "of_ideal": round(self.ideal_s() / self.seconds, 3) if self.seconds else 0.0,
            "batches": {
                model: {"answers_per_minute": round(60 * batch.answers_per_s, 1), "load_s": round(batch.load_s, 2)}
                for model, batch in self.batches.items()
            },
            "machine_load": round(self.machine_load, 1),
            "cores": self.cores,
        }

    def as_text(self) -> str:
        """Return it as a table for people."""
        plain = self.as_plain()
        kinds = Counter(str(result.order.kind) for result in self.results)
        models = Counter(result.order.model for result in self.results)
        rows = [
            ("requests", f"{len(self.results)} in {self.seconds:.0f} s ({_listed(kinds)}; {_listed(models)})"),
            ("failed", str(len(self.failed()))),
            ("left by their clients", str(plain["left"])),
            ("wait", f"p50 {plain['wait_p50_s']} s, p95 {plain['wait_p95_s']} s, longest {plain['wait_max_s']} s"),
            ("swaps", f"{max(0, self.loads - 1)}, {plain['swaps_per_minute']} a minute"),
            ("throughput", f"{plain['answers_per_minute']} answers a minute, {plain['tokens_per_s']} tokens a second"),
            (
                "best order",
                f"{plain['ideal_answers_per_minute']} answers a minute: each model loaded once, nobody leaves",
            ),
            ("of that", f"{100 * self.ideal_s() / self.seconds:.0f} %" if self.seconds else "-"),
            ("machine", f"{self.cores} cores, load average {self.machine_load:.1f}"),
        ]
        for model, batch in self.batches.items():
            speed = f"{60 * batch.answers_per_s:.1f} answers a minute, loads in {batch.load_s:.1f} s"
            rows.append((f"{model} alone", speed))
        lines = [f"| {name} | {value} |" for name, value in rows]
        problems = [
            f"{one.order.model} {one.order.kind} at {one.began_s:.0f} s: {one.problem}" for one in self.failed()[:20]
        ]
        return "\n".join(["| what | figure |", "| --- | --- |", *lines, *problems])


def share(values: Sequence[float], part: float) -> float:
    """Return the value that ``part`` of the sorted ``values`` stay within, 0.0 when there are none."""
    return values[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


def _per_minute(count: int, seconds: float) -> float:
    return round(60 * count / seconds, 1) if seconds else 0.0


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))

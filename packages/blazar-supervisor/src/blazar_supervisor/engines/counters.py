"""What an engine counts of its work, for hints; and Prometheus's text format, as far as engines use it. Pure."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counters:
    """Totals since the process began; ``None`` where the build does not count them (which is not nought).

    Attributes:
        prompt_tokens: Tokens of prompts that were evaluated, those from a cache left out.
        cached_tokens: Tokens of prompts that were found in a cache.
        drafted_tokens: Tokens guessed ahead.
        accepted_tokens: Those of them that were right.
    """

    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    drafted_tokens: float | None = None
    accepted_tokens: float | None = None


def read_exposition(text: str) -> dict[str, float]:
    """Return the values of a Prometheus text (0.0.4) by name; series of one name are added up.

    Lines that are no samples, and values that are no finite numbers, are passed over.
    """
    values: dict[str, float] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        if "{" in line:
            name, _, labelled = line.partition("{")
            rest = labelled.rpartition("}")[2].strip()
        try:
            value = float(rest.split()[0])
        except (ValueError, IndexError):
            continue
        if math.isfinite(value):
            values[name] = values.get(name, 0.0) + value
    return values

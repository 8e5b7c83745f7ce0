"""What each key used of each model, by UTC day: counted in memory, handed out as whole days to be written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blazar_gateway.access.quotas import utc_day
from blazar_store.types import UsageRow

MOST_PAIRS = 20_000
"""Pairs of key and model that are told apart on one day; what comes after them counts for the model ``""``."""


@dataclass(slots=True)
class _Count:
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Ledger:
    """Not thread-safe; one event loop owns it."""

    def __init__(self) -> None:
        self._days: dict[str, dict[tuple[str, str], _Count]] = {}
        self._unsaved: set[str] = set()

    def add_request(self, key: str, model: str, *, now: float) -> None:
        """Count a request.

        Args:
            key: The key's name, ``""`` without one.
            model: The row's name.
            now: Unix seconds.
        """
        self._count(key, model, now).requests += 1

    def add_tokens(self, key: str, model: str, *, prompt: int, completion: int, now: float) -> None:
        """Count tokens on the day on which they are known."""
        count = self._count(key, model, now)
        count.prompt_tokens += prompt
        count.completion_tokens += completion

    def restore(self, rows: Iterable[UsageRow]) -> None:
        """Take up days where an earlier run of the daemon left them, before anything is counted."""
        for row in rows:
            counts = self._days.setdefault(row.day, {})
            counts[row.key, row.model] = _Count(row.requests, row.prompt_tokens, row.completion_tokens)

    def rows(self, day: str) -> tuple[UsageRow, ...]:
        """Return what is known of a day, by key and model."""
        counts = self._days.get(day, {})
        return tuple(
            UsageRow(day, key, model, count.requests, count.prompt_tokens, count.completion_tokens)
            for (key, model), count in sorted(counts.items())
        )

    def tokens_by_key(self, day: str) -> dict[str, int]:
        """Return the tokens of a day, for each key of all models together."""
        tokens: dict[str, int] = {}
        for (key, _), count in self._days.get(day, {}).items():
            tokens[key] = tokens.get(key, 0) + count.prompt_tokens + count.completion_tokens
        return tokens

    def take_unsaved(self, *, now: float) -> Mapping[str, tuple[UsageRow, ...]]:
        """Return every day that has changed since the last call, whole; earlier days are forgotten after that."""
        taken = {day: self.rows(day) for day in sorted(self._unsaved)}
        self._unsaved.clear()
        today = utc_day(now)
        self._days = {day: counts for day, counts in self._days.items() if day >= today}
        return taken

    def put_back(self, taken: Mapping[str, tuple[UsageRow, ...]]) -> None:
        """Have days written again next time, because writing them failed."""
        for day, rows in taken.items():
            if day not in self._days:
                self.restore(rows)
            self._unsaved.add(day)

    def _count(self, key: str, model: str, now: float) -> _Count:
        day = utc_day(now)
        self._unsaved.add(day)
        counts = self._days.setdefault(day, {})
        count = counts.get((key, model))
        if count is None:
            pair = (key, model) if len(counts) < MOST_PAIRS else (key, "")
            count = counts.setdefault(pair, _Count())
        return count

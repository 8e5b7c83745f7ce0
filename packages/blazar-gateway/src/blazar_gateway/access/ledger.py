"""What each key used of each model, by UTC day: counted in memory, handed out as whole days to be written."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from blazar_gateway.access.quotas import utc_day
from blazar_store.types import UsageRow

MOST_TOTALS = 2_000
"""Pairs that metrics tell apart; what comes after them counts as one."""
MOST_PAIRS = 20_000
"""Pairs of key and model that are told apart on one day; what comes after them counts for the model ``""``."""


@dataclass(slots=True)
class Count:
    """Requests and tokens."""

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class Ledger:
    """Not thread-safe; one event loop owns it.

    Attributes:
        totals: By key and model, since the start.
    """

    def __init__(self) -> None:
        self.totals: dict[tuple[str, str], Count] = {}
        self._days: dict[str, dict[tuple[str, str], Count]] = {}
        self._unsaved: set[str] = set()

    def add_request(self, key: str, model: str, *, now: float) -> None:
        """Count a request.

        Args:
            key: The key's name, ``""`` without one.
            model: The row's name.
            now: Unix seconds.
        """
        self._count(key, model, now).requests += 1
        self._total(key, model).requests += 1

    def add_tokens(self, key: str, model: str, *, prompt: int, completion: int, now: float) -> None:
        """Count tokens on the day on which they are known."""
        count = self._count(key, model, now)
        count.prompt_tokens += prompt
        count.completion_tokens += completion
        total = self._total(key, model)
        total.prompt_tokens += prompt
        total.completion_tokens += completion

    def restore(self, rows: Iterable[UsageRow]) -> None:
        """Take up days where an earlier run of the daemon left them, before anything is counted."""
        for row in rows:
            counts = self._days.setdefault(row.day, {})
            counts[row.key, row.model] = Count(row.requests, row.prompt_tokens, row.completion_tokens)

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

    def forget_totals(self, keys: frozenset[str]) -> None:
        """Drop the totals of keys other than these; days that are not written yet stay."""
        self.totals = {pair: count for pair, count in self.totals.items() if pair[0] in keys or not pair[0]}

    def _total(self, key: str, model: str) -> Count:
        total = self.totals.get((key, model))
        if total is None:
            pair = (key, model) if len(self.totals) < MOST_TOTALS else ("other", "other")
            total = self.totals.setdefault(pair, Count())
        return total

    def _count(self, key: str, model: str, now: float) -> Count:
        day = utc_day(now)
        self._unsaved.add(day)
        counts = self._days.setdefault(day, {})
        count = counts.get((key, model))
        if count is None:
            pair = (key, model) if len(counts) < MOST_PAIRS else (key, "")
            count = counts.setdefault(pair, Count())
        return count

"""How much each key may ask: requests at once, per minute, tokens per minute and per day.

The order is part of the contract: the concurrency gate runs first and holds until the answer's last byte has left;
then come the key's scope, its requests per minute, its tokens per minute and its tokens of the day. Tokens are known
only afterwards, so a limit on tokens refuses the *next* request once it is reached.

A limit of 0 refuses everything.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from blazar_gateway.access.keyring import Key
from blazar_routing.errors import DailyQuotaSpent, RateLimited, TooManyConcurrent

MINUTE_S = 60
_DAY_S = 86_400


@dataclass(slots=True)
class Minute:
    """A sliding window of 60 one-second buckets."""

    total: int = 0
    _buckets: deque[tuple[int, int]] = field(default_factory=deque)

    def add(self, amount: int, *, now_s: float) -> None:
        """Count ``amount`` at this second."""
        self.slide(now_s)
        second = int(now_s)
        if self._buckets and self._buckets[-1][0] == second:
            self._buckets[-1] = (second, self._buckets[-1][1] + amount)
        else:
            self._buckets.append((second, amount))
        self.total += amount

    def slide(self, now_s: float) -> None:
        """Forget what is older than a minute."""
        while self._buckets and self._buckets[0][0] <= int(now_s) - MINUTE_S:
            self.total -= self._buckets.popleft()[1]

    def until_empty_s(self, now_s: float) -> int:
        """Return whole seconds after which nothing is counted any more, 0 when nothing is."""
        return max(1, self._buckets[-1][0] + MINUTE_S - int(now_s)) if self.total else 0

    def until_below_s(self, limit: int, *, now_s: float) -> int:
        """Return whole seconds after which less than ``limit`` is counted, at least 1."""
        left = self.total
        for second, amount in self._buckets:
            left -= amount
            if left < limit:
                return max(1, second + MINUTE_S - int(now_s))
        return MINUTE_S


@dataclass(slots=True)
class Usage:
    """What a key has used."""

    running: int = 0
    requests: Minute = field(default_factory=Minute)
    tokens: Minute = field(default_factory=Minute)
    day: str = ""
    day_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Standing:
    """What is left of a key's minute, for the rate-limit headers.

    Attributes:
        limit: Per minute.
        remaining: Of them.
        reset_s: Whole seconds until the minute is empty again.
    """

    limit: int
    remaining: int
    reset_s: int


class Quotas:
    """Counts what keys use and refuses what is over their limits.

    Not thread-safe; one event loop owns it.
    """

    def __init__(self) -> None:
        self._usage: dict[str, Usage] = {}

    def __len__(self) -> int:
        return len(self._usage)

    def enter(self, key: Key) -> None:
        """Take one of the key's concurrent requests; every call that returns is followed by one :meth:`leave`.

        Raises:
            TooManyConcurrent: None is free.
        """
        usage = self._usage.setdefault(key.name, Usage())
        if key.max_concurrent is not None and usage.running >= key.max_concurrent:
            raise TooManyConcurrent(key=key.name, limit=key.max_concurrent)
        usage.running += 1

    def leave(self, key: Key) -> None:
        """Give it back."""
        self._usage[key.name].running -= 1

    def charge_request(self, key: Key, *, now: float) -> None:
        """Count a request, if the key's minute and day allow it.

        Args:
            key: Whose.
            now: Unix seconds.

        Raises:
            RateLimited: The minute's requests or tokens are used up.
            DailyQuotaSpent: The day's tokens are.
        """
        usage = self._usage.setdefault(key.name, Usage())
        usage.requests.slide(now)
        usage.tokens.slide(now)
        for unit, minute, limit in (("requests", usage.requests, key.rpm), ("tokens", usage.tokens, key.tpm)):
            if limit is not None and minute.total >= limit:
                wait_s = minute.until_below_s(limit, now_s=now)
                raise RateLimited(key=key.name, unit=unit, limit=limit, retry_after_s=wait_s)
        _turn_day(usage, now)
        if key.daily_tokens is not None and usage.day_tokens >= key.daily_tokens:
            raise DailyQuotaSpent(key=key.name, limit=key.daily_tokens, retry_after_s=_until_midnight_s(now))
        usage.requests.add(1, now_s=now)

    def charge_tokens(self, key: Key, tokens: int, *, now: float) -> None:
        """Count tokens that were evaluated or generated, of broken answers too."""
        usage = self._usage.setdefault(key.name, Usage())
        usage.tokens.add(tokens, now_s=now)
        _turn_day(usage, now)
        usage.day_tokens += tokens

    def restore_day(self, spent: Mapping[str, int], *, now: float) -> None:
        """Take up the day's tokens where the last run of the daemon left them."""
        for name, tokens in spent.items():
            usage = self._usage.setdefault(name, Usage())
            usage.day, usage.day_tokens = utc_day(now), tokens

    def running(self, name: str) -> int:
        """Return how many of the key's requests run."""
        usage = self._usage.get(name)
        return usage.running if usage else 0

    def standing(self, key: Key, *, now: float) -> dict[str, Standing]:
        """Return what is left of the key's limits per minute: of ``requests`` and of ``tokens``, where limited."""
        usage = self._usage.get(key.name, Usage())
        standings = {}
        for unit, minute, limit in (("requests", usage.requests, key.rpm), ("tokens", usage.tokens, key.tpm)):
            if limit is not None:
                minute.slide(now)
                reset_s = minute.until_empty_s(now)
                standings[unit] = Standing(limit, max(0, limit - minute.total), reset_s)
        return standings

    def forget_others(self, names: frozenset[str]) -> None:
        """Drop the records of keys that are no longer there, once nothing of theirs runs."""
        for name in [name for name, usage in self._usage.items() if name not in names and not usage.running]:
            del self._usage[name]


def utc_day(now: float) -> str:
    """Return the UTC day of a time in unix seconds, ``2026-01-31``."""
    return _day_text(int(now // _DAY_S))


@lru_cache(maxsize=4)
def _day_text(day: int) -> str:
    # Asked for several times a request; unix time has no leap seconds.
    return datetime.fromtimestamp(day * _DAY_S, UTC).strftime("%Y-%m-%d")


def _turn_day(usage: Usage, now: float) -> None:
    today = utc_day(now)
    if usage.day != today:
        usage.day, usage.day_tokens = today, 0


def _until_midnight_s(now: float) -> int:
    moment = datetime.fromtimestamp(now, UTC)
    midnight = (moment + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
    return max(1, int((midnight - moment).total_seconds()))

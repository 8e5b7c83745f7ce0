"""What is left of a key's minute, in the words of each dialect."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from multidict import istr

from blazar_gateway.access.quotas import Standing
from blazar_gateway.error_responses import Dialect

_UNITS = ("requests", "tokens")
_OPENAI = {
    unit: tuple(istr(f"x-ratelimit-{what}-{unit}") for what in ("limit", "remaining", "reset")) for unit in _UNITS
}
_ANTHROPIC = {
    unit: tuple(istr(f"anthropic-ratelimit-{unit}-{what}") for what in ("limit", "remaining", "reset"))
    for unit in _UNITS
}
"""Limit, remaining and reset. Spelled once: a mapping of headers need not fold their case at every answer."""


def rate_headers(dialect: Dialect, standings: Mapping[str, Standing], *, now: float) -> dict[str, str]:
    """Return the headers for what is limited.

    Ollama has none of its own; its clients get OpenAI's, which other clients of the same routes read.

    Args:
        dialect: Of the route.
        standings: By ``requests`` and ``tokens``.
        now: Unix seconds.
    """
    headers: dict[str, str] = {}
    for unit, standing in standings.items():
        if dialect is Dialect.ANTHROPIC:
            reset = datetime.fromtimestamp(now, UTC).replace(microsecond=0) + timedelta(seconds=standing.reset_s)
            reset_text = reset.isoformat().replace("+00:00", "Z")
            names = _ANTHROPIC[unit]
        else:
            reset_text = f"{standing.reset_s}s"
            names = _OPENAI[unit]
        headers[names[0]] = str(standing.limit)
        headers[names[1]] = str(standing.remaining)
        headers[names[2]] = reset_text
    return headers

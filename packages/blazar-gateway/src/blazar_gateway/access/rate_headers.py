"""What is left of a key's minute, in the words of each dialect."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from blazar_gateway.access.quotas import Standing
from blazar_gateway.error_responses import Dialect


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
            headers[f"anthropic-ratelimit-{unit}-limit"] = str(standing.limit)
            headers[f"anthropic-ratelimit-{unit}-remaining"] = str(standing.remaining)
            headers[f"anthropic-ratelimit-{unit}-reset"] = reset.isoformat().replace("+00:00", "Z")
        else:
            headers[f"x-ratelimit-limit-{unit}"] = str(standing.limit)
            headers[f"x-ratelimit-remaining-{unit}"] = str(standing.remaining)
            headers[f"x-ratelimit-reset-{unit}"] = f"{standing.reset_s}s"
    return headers

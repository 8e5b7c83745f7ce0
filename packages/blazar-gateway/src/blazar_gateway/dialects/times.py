"""Times as wire APIs write them."""

from datetime import UTC, datetime


def rfc3339(unix_s: float) -> str:
    """Return a moment as RFC 3339 in UTC, ``2026-01-02T03:04:05Z``."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat().replace("+00:00", "Z")

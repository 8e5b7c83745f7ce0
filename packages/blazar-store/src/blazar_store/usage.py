"""What each key used, by day and model."""

from collections.abc import Iterable

from blazar_store.database import Database
from blazar_store.types import UsageRow


class UsageRows:
    """The ``key_usage`` table."""

    _database: Database

    def save_usage(self, day: str, rows: Iterable[UsageRow]) -> None:
        """Write the whole of a day, in one transaction.

        The numbers are absolute: writing the same day again, or after a write whose success is not known, counts
        nothing twice. Rows of the day that are not among ``rows`` stay.

        Args:
            day: UTC, ``2027-01-31``.
            rows: Of that day.
        """
        with self._database.write():
            self._database.connection.executemany(
                "INSERT INTO key_usage (day, key, model, requests, prompt_tokens, completion_tokens)"
                " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (day, key, model) DO UPDATE SET"
                " requests = excluded.requests, prompt_tokens = excluded.prompt_tokens,"
                " completion_tokens = excluded.completion_tokens",
                [(day, row.key, row.model, row.requests, row.prompt_tokens, row.completion_tokens) for row in rows],
            )

    def usage_since(self, day: str) -> tuple[UsageRow, ...]:
        """Return what was used on ``day`` and after it, newest day first, then by key and model."""
        rows = self._database.rows(
            "SELECT day, key, model, requests, prompt_tokens, completion_tokens FROM key_usage"
            " WHERE day >= ? ORDER BY day DESC, key, model",
            (day,),
        )
        return tuple(UsageRow(*row) for row in rows)

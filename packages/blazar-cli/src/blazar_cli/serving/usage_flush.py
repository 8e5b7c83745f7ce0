"""Writing down what keys used: every few seconds and at the end, always whole days."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from blazar_store.errors import StoreError
from blazar_store.types import UsageRow
from blazar_store.writer import StoreThread

_log = logging.getLogger(__name__)

PERIOD_S = 5.0
"""A daemon that is killed loses what was used in this time at most."""


class Counted(Protocol):
    """Who counts."""

    def restore(self, rows: Iterable[UsageRow]) -> None:
        """Take up days where an earlier run left them."""

    def take_unsaved(self, *, now: float) -> Mapping[str, tuple[UsageRow, ...]]:
        """Return every day that has changed since the last call, whole."""

    def put_back(self, taken: Mapping[str, tuple[UsageRow, ...]]) -> None:
        """Have days returned again."""


class UsageFlush:
    """Moves usage from memory into the store.

    Args:
        counted: Who counts.
        store: The daemon's store thread.
        now: Gives unix seconds.
    """

    def __init__(self, counted: Counted, store: StoreThread, *, now: Callable[[], float] = time.time) -> None:
        self._counted = counted
        self._store = store
        self._now = now
        self._failure: str | None = None

    async def restore(self) -> None:
        """Hand today's rows to who counts, before anything is counted: what is written is always the whole day."""
        today = datetime.fromtimestamp(self._now(), UTC).strftime("%Y-%m-%d")
        rows = await asyncio.wrap_future(self._store.submit(lambda store: store.usage_since(today)))
        self._counted.restore(rows)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(PERIOD_S)
            await self.flush()

    async def flush(self) -> None:
        """Write what has changed; what cannot be written stays for the next time."""
        taken = self._counted.take_unsaved(now=self._now())
        for day, rows in taken.items():
            try:
                await self._save(day, rows)
            except StoreError as error:
                self._counted.put_back({day: rows})
                if str(error) != self._failure:
                    self._failure = str(error)
                    _log.warning("the usage of keys cannot be written, it is kept for later: %s", error)
            else:
                self._failure = None

    def _save(self, day: str, rows: tuple[UsageRow, ...]) -> "asyncio.Future[None]":
        return asyncio.wrap_future(self._store.submit(lambda store: store.save_usage(day, rows)))

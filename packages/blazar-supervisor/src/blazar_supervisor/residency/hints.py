"""A round each minute that asks children how well their caches do (:mod:`~.cache_hints`).

Only those that have worked since the last round are asked: asking keeps an engine from falling asleep, and asking a
sleeper would wake it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from blazar_supervisor.residency.cache_hints import hints_after
from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.states import ChildState

ROUND_S = 60.0
"""Seconds between rounds."""

_log = logging.getLogger(__name__)


class HintRounds:
    """Asks the children of a census for their counters, each minute.

    Args:
        children: The children there are.
        clock: The dispatcher's clock.
        guessed: Told of each instance what share of its guessed tokens was right.
    """

    def __init__(
        self,
        children: Callable[[], Iterable[Residence]],
        *,
        clock: Callable[[], float],
        guessed: Callable[[str, float], None] = lambda *_: None,
    ) -> None:
        self._children = children
        self._guessed = guessed
        self._clock = clock
        self._last_s = float("-inf")

    async def run(self) -> None:
        """Go round after round, until cancelled. A round that fails is logged, and the next one goes on."""
        while True:
            await asyncio.sleep(ROUND_S)
            try:
                await self.round()
            except Exception:  # noqa: BLE001 - a stalled round would leave every later choice blind
                _log.exception("the hints of this minute are missing")

    async def round(self) -> None:
        """Ask whoever has worked since the last round."""
        since_s, self._last_s = self._last_s, self._clock()
        busy = [child for child in self._children() if child.state is ChildState.READY and _worked(child, since_s)]
        await asyncio.gather(*(self._ask(child) for child in busy))

    async def _ask(self, residence: Residence) -> None:
        child = residence.child
        if child is None or await child.asks_sleeping() is not False:
            return
        now = await child.counters()
        if now is not None:
            residence.hints = hints_after(residence.counters, now, residence.hints)
            residence.counters = now
            if residence.hints.spec_accept is not None:
                self._guessed(residence.line, residence.hints.spec_accept)


def _worked(residence: Residence, since_s: float) -> bool:
    return bool(residence.leases) or (residence.used_at_s > since_s and residence.used_at_s > residence.ready_since_s)

"""How late the event loop is: the daemon's own measure of whether anything blocks it."""

import asyncio
from collections import deque

_PERIOD_S = 0.25
_WINDOW = 240
"""Measurements kept: one minute."""


class LoopLag:
    """Measures by sleeping and looking how much longer it took. :meth:`run` is a task of the daemon."""

    def __init__(self) -> None:
        self._recent_s: deque[float] = deque(maxlen=_WINDOW)
        self.worst_s = 0.0

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            asked_s = loop.time()
            await asyncio.sleep(_PERIOD_S)
            self.note(loop.time() - asked_s - _PERIOD_S)

    def note(self, late_s: float) -> None:
        """Take one measurement, in seconds; timers may fire a little early, which is not negative lag."""
        late_s = max(0.0, late_s)
        self._recent_s.append(late_s)
        self.worst_s = max(self.worst_s, late_s)

    def as_plain(self) -> dict[str, float]:
        """Return milliseconds: the last minute's mean and worst, and the worst ever."""
        recent = self._recent_s or (0.0,)
        return {
            "mean_ms": round(1000 * sum(recent) / len(recent), 2),
            "worst_ms": round(1000 * max(recent), 2),
            "worst_ever_ms": round(1000 * self.worst_s, 2),
        }

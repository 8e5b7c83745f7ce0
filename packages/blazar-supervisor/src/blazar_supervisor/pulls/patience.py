"""How often and after which pauses a download asks again. Pure but for the clock and the dice, which are passed in."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Patience:
    """When to ask again, and when to give up.

    Attributes:
        attempts: Failures in a row, without one byte between them, after which a part is given up.
        attempts_to_reach: The same while no connection was ever made: no network, or no such host, is said soon.
        first_s: The pause after the first failure; it doubles with each further one.
        longest_s: The longest pause.
        stall_s: Seconds without a byte after which a connection is given up.
        headers_s: Seconds until an answer's headers must have come.
        sleep: Waits; tests pass one that does not.
        dice: Returns 0.0 to 1.0, for the jitter.
    """

    attempts: int = 12
    attempts_to_reach: int = 2
    first_s: float = 0.5
    longest_s: float = 30.0
    stall_s: float = 30.0
    headers_s: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    dice: Callable[[], float] = field(default=random.random)

    def pause_s(self, failures: int, *, asked_s: float | None = None) -> float:
        """Return the seconds to wait after so many failures in a row.

        Half of the pause is left to chance, so that parts that failed together do not return together.

        Args:
            failures: At least 1.
            asked_s: What the server asked for (``Retry-After``), which counts up to two minutes.
        """
        pause = min(self.longest_s, self.first_s * 2.0 ** min(failures - 1, 20))
        return max(pause * (0.5 + self.dice() / 2), min(asked_s or 0.0, 120.0))

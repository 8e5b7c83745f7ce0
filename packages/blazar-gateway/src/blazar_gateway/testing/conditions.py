"""Waiting for a fact, never for time."""

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], *, deadline_s: float = 30.0) -> None:
    """Return once ``condition`` holds.

    Raises:
        TimeoutError: It does not within the deadline, which is generous: the machine may be busy.
    """
    async with asyncio.timeout(deadline_s):
        while not condition():  # noqa: ASYNC110 - plain values are waited for; they announce nothing
            await asyncio.sleep(0.001)

"""Answers that nobody waits for any more, of engines that break when a request is dropped.

An engine stops working on a request whose connection is closed, which is what frees its slot. Some engines take that
badly: the process ends, and with it everybody else's answers. For a model whose owner says so, what is left of an
answer is read and thrown away instead, for a limited time; its slot stays taken meanwhile.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import aiohttp

from blazar_gateway.ports import Lease
from blazar_routing.errors import LaneError


class Abandoned:
    """The answers that are being read to their ends."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def drain(
        self, lease: Lease, answers: Sequence[Awaitable[aiohttp.ClientResponse]], *, done: Callable[[], None]
    ) -> None:
        """Read answers to their ends in the background, each at most for the lease's time, then give the lease back.

        Args:
            lease: Held until then; if it is revoked, or has been, the connections are closed at once.
            answers: What is left of them, or will come.
            done: Called when the lease has been given back.
        """
        task = asyncio.get_running_loop().create_task(_read_all_away(answers, lease.drain_s))

        def over(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            lease.release()
            done()

        def stop(_: LaneError) -> None:
            task.cancel()

        self._tasks.add(task)
        task.add_done_callback(over)
        lease.on_revoke(stop)

    async def close(self) -> None:
        """Break all of them off."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


async def _read_all_away(answers: Sequence[Awaitable[aiohttp.ClientResponse]], limit_s: float) -> None:
    await asyncio.gather(*(_read_away(answer, limit_s) for answer in answers))


async def _read_away(coming: Awaitable[aiohttp.ClientResponse], limit_s: float) -> None:
    answer: aiohttp.ClientResponse | None = None
    try:
        async with asyncio.timeout(limit_s):
            answer = await coming
            while await answer.content.readany():
                pass
    except (TimeoutError, aiohttp.ClientError, OSError):
        return  # Closing is all that can be done for it now.
    finally:
        if answer is not None:
            answer.close()

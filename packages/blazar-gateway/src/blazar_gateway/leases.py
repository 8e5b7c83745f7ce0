"""Holding a lease: from the queue to the last byte, and back exactly once.

While a child is used, three things can end it from outside: the client leaves (then the handler is cancelled), the
host revokes the lease, or the child stalls. The last two interrupt whatever the handler waits for at that moment,
be it the child or a client that reads slowly, and come out of the ``async with`` as an exception.
"""

import asyncio
import logging
from collections.abc import Awaitable
from types import TracebackType
from typing import Self

import aiohttp

from blazar_gateway.context import Gateway
from blazar_gateway.ports import Lease, Watched
from blazar_routing.errors import LaneError
from blazar_routing.ticket import Priority, Ticket

_CLASSES = {priority: priority.name.lower() for priority in Priority}
_log = logging.getLogger("blazar.gateway")


class ChildStalled(Exception):
    """The child took the request, sends nothing and shows no progress; it has been condemned."""


class Borrowed:
    """A lease as a context: entering waits for it, leaving gives it back.

    Raises:
        LaneError: On entering, any refusal of the host; on leaving, the reason for which the lease was revoked.
        ChildStalled: On leaving, when the child was found to hang.
    """

    __slots__ = (
        "_cancels",
        "_gateway",
        "_handler",
        "_held",
        "_left",
        "_struck",
        "_task",
        "_ticket",
        "_timer",
        "_verdict",
        "awaiting_child",
        "lease",
        "moving",
    )

    lease: Lease

    def __init__(self, gateway: Gateway, ticket: Ticket) -> None:
        self._gateway = gateway
        self._ticket = ticket
        self._handler: asyncio.Task[object] | None = None
        self._cancels = 0
        self._struck = False
        self._verdict: LaneError | ChildStalled | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._held = False
        self._left: list[Awaitable[aiohttp.ClientResponse]] = []
        # Set by whoever reads from the child, at each read; the watch clears it.
        self.moving = False
        # Whether it is the child that is waited for. A client that reads slowly makes its child wait, not hang.
        self.awaiting_child = False

    async def __aenter__(self) -> Self:
        traffic = self._gateway.traffic
        traffic.waiting += 1
        try:
            self.lease = await self._gateway.host.lend(self._ticket.model, self._ticket)
        finally:
            traffic.waiting -= 1
        self._gateway.telemetry.lent(_CLASSES[self._ticket.priority], self.lease.queue_s)
        # Nothing below suspends, so the lease cannot be lost between here and __aexit__.
        traffic.leases += 1
        self._held = True
        self._handler = handler = asyncio.current_task()
        assert handler is not None
        self._cancels = handler.cancelling()
        self.lease.on_revoke(self._interrupt)
        self._rearm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held = False
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
        interrupted = self._struck and self._take_back_cancel() and kind is asyncio.CancelledError
        if kind is None and self._verdict is None:
            self.lease.answered()
        self._give_back()
        if interrupted and self._verdict is not None:
            raise self._verdict from None

    def _take_back_cancel(self) -> bool:
        """Return whether nobody but this has cancelled the handler; as :func:`asyncio.timeout` decides it."""
        return self._handler is not None and self._handler.uncancel() <= self._cancels

    def abandon(self, answer: Awaitable[aiohttp.ClientResponse]) -> None:
        """Have the rest of an answer read and thrown away when this ends, unless the child is stopped."""
        self._left.append(answer)

    def _give_back(self) -> None:
        traffic = self._gateway.traffic

        def given_back() -> None:
            traffic.leases -= 1

        if not self._left:
            self.lease.release()
            given_back()
            return
        self._gateway.abandoned.drain(self.lease, self._left, done=given_back)

    def _interrupt(self, verdict: LaneError | ChildStalled) -> None:
        if self._held and self._verdict is None:
            self._verdict = verdict
            # Not from within whoever revokes: it may be the handler itself.
            asyncio.get_running_loop().call_soon(self._strike)

    def _strike(self) -> None:
        if self._held and self._handler is not None:
            self._struck = True
            self._handler.cancel()

    def _rearm(self) -> None:
        limit_s = self._gateway.settings().child_header_timeout_secs
        if limit_s > 0:
            self._timer = asyncio.get_running_loop().call_later(limit_s, self._look, limit_s)

    def _look(self, limit_s: float) -> None:
        if self.moving or not self.awaiting_child:
            self.moving = False
            self._timer = asyncio.get_running_loop().call_later(limit_s, self._look, limit_s)
        elif isinstance(self.lease, Watched):
            self._task = asyncio.get_running_loop().create_task(self._ask(self.lease))

    async def _ask(self, watched: Watched) -> None:
        """Let a child that is silent but at work go on; condemn one that hangs."""
        if await watched.moved() or self.moving or not self.awaiting_child:
            self._rearm()
            return
        _log.warning("the engine of model %s sends nothing and shows no progress", self.lease.model)
        # In this order: condemning revokes this lease too, but that is not what stopped it.
        self._interrupt(ChildStalled())
        watched.condemn()

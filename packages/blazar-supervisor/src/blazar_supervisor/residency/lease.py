"""The right to use a child for one request."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from blazar_routing.errors import EngineUnreachable, LaneError
from blazar_supervisor.children.endpoint import Endpoint

if TYPE_CHECKING:
    from blazar_supervisor.residency.residence import Residence

_NOTICE_S = 2.0
"""Seconds within which the end of a process whose connection broke is noticed."""


class SlotLease:
    """Fits ``blazar_gateway.ports.Lease`` and ``Watched``.

    Made and taken back on the hot path: plain attributes, no tasks, no timers.
    """

    __slots__ = ("_callbacks", "_cells", "_residence", "_revoked", "_slots", "load_s", "queue_s")

    def __init__(self, residence: "Residence", slots: int, cells: int, queue_s: float, load_s: float) -> None:
        self.queue_s = queue_s
        self.load_s = load_s
        self._residence = residence
        self._slots = slots
        self._cells = cells
        self._callbacks: list[Callable[[LaneError], None]] | None = None
        self._revoked: LaneError | None = None

    @property
    def model(self) -> str:
        """The model row's name."""
        return self._residence.model

    @property
    def child(self) -> str:
        """The child's key."""
        return self._residence.key

    @property
    def endpoint(self) -> Endpoint:
        """Where the child listens."""
        return self._residence.endpoint

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request to the child carries."""
        return self._residence.headers

    @property
    def ctx_tokens(self) -> int | None:
        """The context that one request can use."""
        plan = self._residence.plan
        return None if plan is None else plan.profile.ctx_tokens

    @property
    def drain_s(self) -> float:
        """Seconds for which an answer that nobody waits for is read on."""
        plan = self._residence.plan
        return 0.0 if plan is None else plan.drain_s

    def answered(self) -> None:
        """Note that the child has served this request to its end, if it had to work for it."""
        if self._slots:
            self._residence.owner.answered(self._residence)

    def release(self) -> None:
        """Give the slot back; the second call does nothing."""
        self._callbacks = None
        self._residence.take_back(self, self._slots, self._cells)

    def on_revoke(self, callback: Callable[[LaneError], None]) -> None:
        """Call ``callback`` when the child is stopped although the lease is held; at once if it has been already."""
        if self._revoked is not None:
            callback(self._revoked)
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def revoke(self, error: LaneError) -> None:
        """Tell the holder to let go. The dispatcher calls this, once."""
        self._revoked = error
        callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback(error)

    async def explain_failure(self, cause: BaseException | None) -> LaneError:
        """Return why the connection to the child broke: a stop, a death, or a mere disconnect."""
        child = self._residence.child
        if self._revoked is None and child is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.exited.wait(), _NOTICE_S)
        if (revoked := self._revocation()) is not None:
            return revoked
        if child is not None and child.exited.is_set():
            return child.death().error
        reason = "it was closed" if cause is None or not str(cause) else str(cause)
        return EngineUnreachable(model=self.model, reason=reason, child=self.child)

    def _revocation(self) -> LaneError | None:
        return self._revoked

    async def moved(self) -> bool:
        """Return whether the child got anywhere since this was last asked, by its slots or its processor time."""
        child = self._residence.child
        return child is not None and not child.exited.is_set() and await child.moved()

    def condemn(self) -> None:
        """Have the child replaced: it shows no progress. Others' leases are revoked; this one is released as usual."""
        self._residence.condemn(self)

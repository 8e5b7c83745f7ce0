"""The one owner of the queue: takes requests in, asks the queue what to do, and does it.

Everything here runs on the loop and nothing in it suspends, apart from waiting for one's turn. A request that finds
a free slot passes through :meth:`Dispatcher.lend` without a task, a future or a timer.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from blazar_routing.errors import BreakerOpen, EngineStalled, LaneError, ModelStopped, ShuttingDown
from blazar_routing.queue import AdmissionQueue, Capacity, Grant, Load, Refuse
from blazar_routing.ticket import Ticket
from blazar_supervisor.residency.breaker import Breakers
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.lifecycle import Lifecycle, Limits
from blazar_supervisor.residency.planning import Plans
from blazar_supervisor.residency.ports import Launcher, Plan, Planner
from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.states import ChildState
from blazar_supervisor.residency.views import ResidentView, WaitingView, resident_view

STOP_DRAIN_S = 30.0
"""Seconds that ``unload`` lets running requests go on."""

_SLEEP_CHECK_S = 5.0
"""Seconds between looks at an idle child that should be asleep by now."""


@dataclass(slots=True)
class _Waiter:
    ticket: Ticket
    arrived_s: float
    turn: "asyncio.Future[SlotLease]"


class Dispatcher:
    """Lends children's slots, starting and stopping children as requests, time and memory demand.

    Must be created and called on the loop's thread.
    """

    def __init__(
        self,
        *,
        planner: Planner,
        launcher: Launcher,
        limits: Callable[[], Limits],
        clock: Callable[[], float],
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._census = Census()
        self._breakers = Breakers()
        self._queue = AdmissionQueue(limit=limits().queue_limit)
        self._waiters: dict[int, _Waiter] = {}
        self._closing = False
        self._pumping = False
        self._again = False
        self._timer: asyncio.TimerHandle | None = None
        self._plans = Plans(
            census=self._census,
            planner=planner,
            waiting=self._queue.waiting,
            max_loaded=lambda: limits().max_loaded,
            clock=clock,
        )
        self._lifecycle = Lifecycle(
            census=self._census,
            plans=self._plans,
            launcher=launcher,
            breakers=self._breakers,
            limits=limits,
            clock=clock,
            audience=self,
        )

    # Requests

    async def lend(self, model: str, ticket: Ticket) -> SlotLease:
        """Return a lease on a child that is ready, starting one if need be.

        Does not suspend when a slot is free. Cancelling it withdraws the request.

        Raises:
            LaneError: Any refusal.
        """
        residence = self._census.find(model)
        if (
            residence is not None
            and residence.state is ChildState.READY
            and residence.has_room(ticket)
            # Nobody waits at all, or nobody for this model and it makes room for no other.
            and (not self._waiters or (self._queue.waiting(model) == 0 and self._queue.giving_way(model) is None))
            and not residence.is_drowsy(self._clock())
            and not self._closing
        ):
            return residence.grant(ticket, 0.0, 0.0)
        return await self._take_turn(model, ticket)

    async def _take_turn(self, model: str, ticket: Ticket) -> SlotLease:
        if self._closing:
            raise ShuttingDown
        now_s = self._clock()
        self._queue.limit = self._limits().queue_limit
        place = self._queue.arrive(ticket, now_s=now_s)
        waiter = _Waiter(ticket, now_s, asyncio.get_running_loop().create_future())
        self._waiters[place] = waiter
        self._decide()
        try:
            return await waiter.turn
        except asyncio.CancelledError:
            turn = waiter.turn
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                # The slot was given in the very moment the client left.
                turn.result().release()
            raise
        finally:
            self._waiters.pop(place, None)
            if self._queue.withdraw(place):
                if self._queue.waiting(model) == 0:
                    self._plans.forget(model)
                self._decide()

    def released(self, residence: Residence) -> None:
        """A lease has ended: see who is next."""
        residence.used_at_s = self._clock()
        if not residence.leases:
            if residence.on_idle is not None:
                residence.on_idle.set()
            if (
                residence.stay_s == 0
                and residence.state is ChildState.READY
                and not self._queue.waiting(residence.model)
            ):
                self._stop_idle(residence)
        if self._waiters:
            self._decide()

    def condemn(self, residence: Residence, lease: SlotLease) -> None:
        """Replace a child that hangs; its holder has given up on it, the others are told."""
        residence.leases.discard(lease)
        error = EngineStalled(model=residence.model, seconds=self._limits().header_timeout_s)
        self._lifecycle.condemn(residence, error=error)
        self._decide()

    # Decisions

    def _decide(self) -> None:
        """Ask the queue until it has nothing more to say; carry each decision out."""
        if self._closing:
            return
        if self._pumping:
            # A decision's effect has changed something: the loop below looks again.
            self._again = True
            return
        self._pumping = True
        try:
            self._again = True
            while self._again:
                self._again = False
                self._ask_drowsy()
                for decision in self._queue.decide(self._view(), now_s=self._clock(), room=self._plans.victims):
                    self._again = True
                    match decision:
                        case Grant(place=place):
                            self._grant(place)
                        case Load(model=model, evict=evict):
                            self._load(model, evict)
                        case Refuse(place=place, error=error):
                            self._refuse(place, error)
                        case _:
                            assert_never(decision)
        finally:
            self._pumping = False
        self._arm()

    def _view(self) -> dict[str, Capacity]:
        now_s = self._clock()
        return {
            residence.model: residence.capacity(now_s, drowsy=residence.is_drowsy(now_s))
            for residence in self._census
            if residence.key == residence.model
        }

    def _ask_drowsy(self) -> None:
        """Whoever waits for a child that may have fallen asleep has it asked first: waking takes room and time."""
        now_s = self._clock()
        for residence in self._census:
            if residence.is_drowsy(now_s) and not residence.asking and self._queue.waiting(residence.model):
                self._lifecycle.begin_asking(residence)

    def _grant(self, place: int) -> None:
        waiter = self._waiters.get(place)
        if waiter is None or waiter.turn.done():
            return
        residence = self._census.find(waiter.ticket.model)
        assert residence is not None
        now_s = self._clock()
        waited_load_s = residence.ready_since_s - max(waiter.arrived_s, residence.loading_since_s)
        lease = residence.grant(waiter.ticket, now_s - waiter.arrived_s, max(0.0, waited_load_s))
        waiter.turn.set_result(lease)

    def _load(self, model: str, evict: tuple[str, ...]) -> None:
        try:
            self._breakers.check(model, model=model, now_s=self._clock())
        except BreakerOpen as error:
            self._refuse_all(model, error)
            return
        self._lifecycle.start(model, evict=evict)

    def _refuse(self, place: int, error: LaneError) -> None:
        waiter = self._waiters.get(place)
        if waiter is not None and not waiter.turn.done():
            waiter.turn.set_exception(error)

    def _refuse_all(self, model: str, error: LaneError) -> None:
        for place in self._queue.withdraw_all(model):
            self._refuse(place, error)
        self._plans.forget(model)

    # What the lifecycle tells

    def waiting_for(self, model: str) -> int:
        """Return how many requests wait for the model."""
        return self._queue.waiting(model)

    def came_up(self, residence: Residence) -> None:
        """A child takes requests."""
        self._decide()
        if residence.stay_s == 0 and not residence.leases and residence.state is ChildState.READY:
            self._stop_idle(residence)

    def did_not_come_up(self, residence: Residence, error: LaneError) -> None:
        """Tell everybody who waits for it."""
        self._refuse_all(residence.model, error)
        self._decide()

    def changed(self) -> None:
        """Decide anew."""
        self._decide()

    # Time

    def _arm(self) -> None:
        """Set the one timer to the next moment at which time alone changes something."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._closing:
            return
        now_s = self._clock()
        moments = [at for residence in self._census for at in self._moments(residence, now_s)]
        next_s = self._queue.next_event_s(self._view(), self._plans.victims)
        if next_s is not None:
            moments.append(next_s)
        if moments:
            # At least a little later: a moment that has come but decided nothing must not spin.
            delay_s = max(min(moments) - now_s, 0.01)
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._tick)

    def _moments(self, residence: Residence, now_s: float) -> list[float]:
        if residence.state not in {ChildState.READY, ChildState.SLEEPING}:
            return []
        # While requests run nothing is due; the earliest that anything can be is as if the last ended now.
        since_s = now_s if residence.leases else residence.used_at_s
        moments = []
        idle_s = residence.idle_s()
        if idle_s is not None:
            moments.append(since_s + idle_s)
        if residence.sleep_s is not None and residence.state is ChildState.READY:
            moments.append(max(since_s + residence.sleep_s + 1.5, residence.asked_at_s + _SLEEP_CHECK_S))
        return moments

    def _tick(self) -> None:
        self._timer = None
        now_s = self._clock()
        for residence in self._census:
            if residence.leases or residence.state not in {ChildState.READY, ChildState.SLEEPING}:
                continue
            idle_s = residence.idle_s()
            if idle_s is not None and now_s - residence.used_at_s >= idle_s and not self.waiting_for(residence.model):
                self._stop_idle(residence)
            elif (
                residence.sleep_s is not None
                and residence.state is ChildState.READY
                and now_s >= residence.used_at_s + residence.sleep_s + 1.5
                and now_s >= residence.asked_at_s + _SLEEP_CHECK_S
            ):
                self._lifecycle.begin_asking(residence)
        self._decide()
        self._arm()

    def _stop_idle(self, residence: Residence) -> None:
        self._lifecycle.stop(residence, drain_s=0.0, error=None, reason="idle")

    # What else can be asked of it

    def waiting(self, model: str) -> WaitingView | None:
        """Return how far the model is for somebody who waits for it, or ``None`` when nobody does."""
        count = self._queue.waiting(model)
        if count == 0:
            return None
        residence = self._census.find(model)
        if residence is not None and residence.state is ChildState.STARTING:
            child = residence.child
            return WaitingView("loading", 0, child.fraction() if child is not None else None)
        return WaitingView("queued", count - 1, None)

    def residents(self) -> tuple[ResidentView, ...]:
        """Return the children there are, in order of their start; those that failed last are among them."""
        now_s = self._clock()
        shown = sorted(self._census, key=lambda residence: residence.order)
        return tuple(
            resident_view(residence, waiting=self._queue.waiting(residence.model), now_s=now_s) for residence in shown
        )

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long the model's children stay after their last request."""
        for residence in self._census.of_model(model):
            residence.stay_s = None if seconds is None or seconds < 0 else seconds
            idle = not residence.leases and residence.state in {ChildState.READY, ChildState.SLEEPING}
            if seconds == 0 and idle and not self._queue.waiting(model):
                self._stop_idle(residence)
        self._arm()

    async def unload(self, model: str, *, drain_s: float = STOP_DRAIN_S) -> bool:
        """Stop every child of the model and return whether there was one, once they are gone.

        Whoever waits for it is told; running requests go on for ``drain_s``. A request that comes meanwhile gets a
        new child. Crashes are forgotten, so that the next request starts at once.
        """
        error = ModelStopped(model=model)
        self._refuse_all(model, error)
        self._breakers.forget(model)
        self._plans.forget_refusals(model)
        residences = self._census.of_model(model)
        for residence in residences:
            self._lifecycle.stop(residence, drain_s=drain_s, error=error, reason="somebody said so")
            self._forget_failed(residence)
        endings = [residence.stopping for residence in residences if residence.stopping is not None]
        if endings:
            await asyncio.wait(endings)
        return bool(endings)

    async def explain(self, model: str) -> Plan:
        """Return what would be started for the model.

        Raises:
            LaneError: What a request would be refused with.
        """
        return await self._plans.explain(model)

    async def close(self) -> None:
        """Refuse whoever waits, drain, stop every child, and return when all are reaped."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        error = ShuttingDown()
        for model in list(self._queue.models()):
            self._refuse_all(model, error)
        for residence in self._census:
            self._lifecycle.stop(
                residence, drain_s=self._limits().drain_s, error=error, reason="the daemon stops", clean=False
            )
            self._forget_failed(residence)
        await self._lifecycle.all_gone(drain_s=self._limits().drain_s)

    def _forget_failed(self, residence: Residence) -> None:
        if residence.state is ChildState.FAILED:
            residence.go(ChildState.ABSENT)
            self._census.leave(residence)

    def hurry(self) -> None:
        """Skip every wait of stops that are under way or to come."""
        self._lifecycle.hurry.set()

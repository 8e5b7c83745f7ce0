"""The one owner of the queue: takes requests in, asks the queue what to do, and does it.

Everything here runs on the loop and nothing in it suspends, apart from waiting for one's turn. A request that finds
a free slot passes through :meth:`Dispatcher.lend` without a task, a future or a timer.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

from blazar_routing.errors import (
    BreakerOpen,
    ContextDoesNotFit,
    EngineStalled,
    LaneError,
    ModelDoesNotFit,
    ModelStopped,
    ShuttingDown,
)
from blazar_routing.instances import model_of
from blazar_routing.queue import AdmissionQueue, Capacity, Grant, Load, Refuse
from blazar_routing.ticket import Priority, Ticket
from blazar_supervisor.residency.banking import Banking
from blazar_supervisor.residency.breaker import Breakers
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.contexts import Wishes
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.lifecycle import Lifecycle, Limits
from blazar_supervisor.residency.lines import capacity_of, choose, next_key, wants_another
from blazar_supervisor.residency.planning import Plans
from blazar_supervisor.residency.pools import Bytes
from blazar_supervisor.residency.ports import Launcher, Plan, Planner
from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.residency.sessions import Homes
from blazar_supervisor.residency.states import ChildState
from blazar_supervisor.residency.views import ResidentView, WaitingView, resident_view
from blazar_supervisor.residency.wording import gentle_verdict

_log = logging.getLogger(__name__)

STOP_DRAIN_S = 30.0
"""Seconds that ``unload`` lets running requests go on."""

_PEG_CELLS = 64
"""Context that a peg may take: a word or two, and one token."""

_SLEEP_CHECK_S = 5.0
"""Seconds between looks at an idle child that should be asleep by now."""

_NEXT_REPLICA_S = 30.0
"""Seconds after a replica that did not come up until another is tried: the others serve meanwhile."""


@dataclass(slots=True)
class _Waiter:
    ticket: Ticket
    arrived_s: float
    turn: "asyncio.Future[SlotLease]"
    gentle: bool = False
    """Whether it would rather be refused than make somebody go."""


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
        replicas: Callable[[str], int] = lambda _: 1,
        banking: Banking | None = None,
        rerouted: Callable[[str, str, frozenset[str]], None] = lambda *_: None,
    ) -> None:
        self._planner = planner
        self._returns: set[asyncio.Task[None]] = set()
        self._limits = limits
        self._replicas = replicas
        self._clock = clock
        self._census = Census()
        self._breakers = Breakers()
        self._queue = AdmissionQueue(limit=limits().queue_limit)
        self._waiters: dict[int, _Waiter] = {}
        self._wishes = Wishes()
        self._no_replica_before_s: dict[str, float] = {}
        self._gentle: set[str] = set()
        self._homes = Homes()
        self._closing = False
        self._pumping = False
        self._again = False
        self._timer: asyncio.TimerHandle | None = None
        self._plans = Plans(
            census=self._census,
            planner=planner,
            waiting=self._queue.waiting,
            wish=self._wishes.largest,
            max_loaded=lambda: limits().max_loaded,
            rerouted=rerouted,
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
            banking=banking,
        )

    @property
    def census(self) -> Census:
        """The children there are."""
        return self._census

    # Requests

    async def lend(self, line: str, ticket: Ticket) -> SlotLease:
        """Return a lease on a child of an instance that is ready, starting one if need be.

        Does not suspend when a slot is free. Cancelling it withdraws the request.

        Raises:
            LaneError: Any refusal.
        """
        now_s = self._clock()
        residence = choose(self._census.of_line(line), ticket, now_s, home=self._homes.find(ticket, now_s=now_s))
        if (
            residence is not None
            # Nobody waits at all, or nobody for this instance and it makes room for no other.
            and (not self._waiters or (self._queue.waiting(line) == 0 and self._queue.giving_way(line) is None))
            and not self._closing
        ):
            return self._give(residence, ticket, now_s=now_s)
        if ticket.ctx_tokens:
            ticket = await self._with_a_wish_that_fits(line, ticket)
        return await self._take_turn(line, ticket)

    async def _with_a_wish_that_fits(self, line: str, ticket: Ticket) -> Ticket:
        """Return the ticket, asking for no more context than there can be; what runs is replaced for no less.

        Raises:
            ContextDoesNotFit: The machine has no room for it. Nothing has been touched.
        """
        largest = max(
            (child for child in self._census.of_line(line) if child.alive and child.plan is not None),
            key=lambda child: child.content_ctx,
            default=None,
        )
        if largest is None or largest.content_ctx >= ticket.ctx_tokens:
            return ticket
        plan = await self._plans.larger(largest, ticket.ctx_tokens)
        if largest.plan is not None and plan.profile.ctx_tokens <= largest.plan.profile.ctx_tokens:
            # All there can be is served already.
            largest.wished_ctx = max(largest.wished_ctx, ticket.ctx_tokens)
        return replace(ticket, ctx_tokens=min(ticket.ctx_tokens, plan.profile.ctx_tokens))

    async def preload(self, model: str) -> None:
        """Load a model that nobody has asked for, if it fits beside the others.

        Raises:
            LaneError: It does not, or cannot be loaded.
        """
        self._gentle.add(model)
        try:
            lease = await self._take_turn(model, Ticket(model=model, priority=Priority.LOW, slots=0), gentle=True)
        finally:
            self._gentle.discard(model)
        lease.release()

    async def peg(self, model: str, *, turn_s: float, answer_s: float) -> bool:
        """Have a loaded model make one token, if its engine gains by it; return whether it did.

        Raises:
            LaneError: It is being stopped.
            TimeoutError: No slot became free in time.
        """
        residence = self._census.find(model)
        if residence is None or residence.state is not ChildState.READY or residence.child is None:
            return False
        async with asyncio.timeout(turn_s):
            lease = await self.lend(model, Ticket(model=model, priority=Priority.LOW, cells=_PEG_CELLS))
        try:
            return await residence.child.peg(timeout_s=answer_s)
        finally:
            lease.release()

    async def _take_turn(self, line: str, ticket: Ticket, *, gentle: bool = False) -> SlotLease:
        if self._closing:
            raise ShuttingDown
        now_s = self._clock()
        self._queue.limit = self._limits().queue_limit
        place = self._queue.arrive(ticket, now_s=now_s)
        waiter = _Waiter(ticket, now_s, asyncio.get_running_loop().create_future(), gentle)
        self._waiters[place] = waiter
        self._wishes.add(place, line, ticket.ctx_tokens)
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
            self._wishes.drop(place)
            if self._queue.withdraw(place):
                if self._queue.waiting(line) == 0:
                    self._plans.forget(line)
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
                and not self._queue.waiting(residence.line)
            ):
                self._stop_idle(residence)
        if self._waiters or residence.outdated:
            self._decide()

    def answered(self, residence: Residence) -> None:
        """A child has worked to the end of a request: its earlier deaths are not in a row with one to come."""
        self._breakers.forget(residence.key)

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
                self._end_outgrown()
                self._end_outdated()
                if self._gentle:
                    self._refuse_gentle()
                for decision in self._queue.decide(self._view(), now_s=self._clock(), room=self._plans.victims):
                    self._again = True
                    match decision:
                        case Grant(place=place):
                            self._grant(place)
                        case Load(model=line, evict=evict):
                            self._load(line, evict)
                        case Refuse(place=place, error=error):
                            self._refuse(place, error)
                        case _:
                            assert_never(decision)
                self._add_replicas()
        finally:
            self._pumping = False
        self._arm()

    def _view(self) -> dict[str, Capacity]:
        now_s = self._clock()
        return {
            line: capacity_of(self._census.of_line(line), now_s, ctx_tokens=self._wishes.largest(line))
            for line in self._census.lines()
        }

    def _ask_drowsy(self) -> None:
        """Whoever waits for a child that may have fallen asleep has it asked first: waking takes room and time."""
        now_s = self._clock()
        for residence in self._census:
            if residence.is_drowsy(now_s) and not residence.asking and self._queue.waiting(residence.line):
                self._lifecycle.begin_asking(residence)

    def _end_outgrown(self) -> None:
        """End idle children that are too small for somebody who waits: a larger one takes the place."""
        for line in self._wishes:
            wish = self._wishes.largest(line)
            for residence in self._census.of_line(line):
                idle = not residence.leases and residence.state in {ChildState.READY, ChildState.SLEEPING}
                if idle and residence.content_ctx < wish:
                    self._lifecycle.stop(
                        residence, drain_s=0.0, error=None, reason=f"a context of {wish} tokens is asked for"
                    )

    def refresh(self) -> None:
        """Settings or rows have changed: what runs takes up what it can, and the rest is replaced when it is idle."""
        self._plans.forget_all()
        for residence in self._census:
            self._look_up(residence)
        self._decide()

    def _look_up(self, residence: Residence) -> None:
        current = None if residence.plan is None else self._planner.current(residence.line)
        if residence.plan is not None and current is not None:
            residence.plan = replace(residence.plan, idle_s=current.idle_s)
            residence.outdated = residence.plan.stamp != current.stamp

    def _end_outdated(self) -> None:
        """End idle children whose settings have changed; those that are to stay for ever come up again."""
        for residence in self._census:
            idle = not residence.leases and residence.state in {ChildState.READY, ChildState.SLEEPING}
            if not (residence.outdated and idle):
                continue
            self._lifecycle.stop(residence, drain_s=0.0, error=None, reason="its settings have changed")
            if residence.stay_s is None:
                task = asyncio.get_running_loop().create_task(self._bring_back(residence.line))
                self._returns.add(task)
                task.add_done_callback(self._returns.discard)

    async def _bring_back(self, line: str) -> None:
        try:
            await self.preload(line)
        except LaneError as error:
            _log.warning("%s was to stay and does not come up with its new settings: %s", line, error)
            return
        for residence in self._census.of_line(line):
            residence.stay_s = None
        self._arm()

    def _add_replicas(self) -> None:
        """Start another child of a line whose children are all busy, where memory has room and the settings say so."""
        now_s = self._clock()
        for line in self._queue.models():
            children = self._census.of_line(line)
            if self._queue.giving_way(line) is not None or not wants_another(children, replicas=self._replicas(line)):
                continue
            key = next_key(line, children)
            like = next((child.plan for child in children if child.plan is not None), None)
            if like is None or now_s < self._no_replica_before_s.get(key, 0.0):
                continue
            if self._breakers.is_open(key, now_s=now_s) or not self._plans.has_spare_room(key, line, like):
                continue
            self._again = True
            self._lifecycle.start(key, line=line)

    def _refuse_gentle(self) -> None:
        """Whoever asked only for room that is there is told that there is none."""
        for model in tuple(self._gentle):
            victims = self._plans.victims(model)
            if victims and all(waiter.gentle for waiter in self._waiters.values() if waiter.ticket.model == model):
                self._refuse_all(model, ModelDoesNotFit(model=model, verdict=gentle_verdict(victims)))

    def _grant(self, place: int) -> None:
        waiter = self._waiters.get(place)
        if waiter is None or waiter.turn.done():
            return
        now_s = self._clock()
        home = self._homes.find(waiter.ticket, now_s=now_s)
        residence = choose(self._census.of_line(waiter.ticket.model), waiter.ticket, now_s, home=home)
        assert residence is not None
        waited_load_s = residence.ready_since_s - max(waiter.arrived_s, residence.loading_since_s)
        lease = self._give(
            residence, waiter.ticket, now_s=now_s, queue_s=now_s - waiter.arrived_s, load_s=max(0.0, waited_load_s)
        )
        self._wishes.drop(place)
        waiter.turn.set_result(lease)

    def _give(
        self, residence: Residence, ticket: Ticket, *, now_s: float, queue_s: float = 0.0, load_s: float = 0.0
    ) -> SlotLease:
        until_s = self._homes.note(ticket, residence.key, now_s=now_s, keep_s=self._limits().session_keep_s)
        if until_s is not None:
            residence.talks_until_s = until_s
        return residence.grant(ticket, queue_s, load_s)

    def _load(self, line: str, evict: tuple[str, ...]) -> None:
        key = next_key(line, self._census.of_line(line))
        try:
            self._breakers.check(key, model=model_of(line), now_s=self._clock())
        except BreakerOpen as error:
            self._refuse_all(line, error)
            return
        leaving = [child for child in self._plans.leaving(line) if child.line in evict or child.key in evict]
        self._lifecycle.start(key, line=line, evict=leaving)

    def _refuse(self, place: int, error: LaneError) -> None:
        waiter = self._waiters.get(place)
        if waiter is not None and not waiter.turn.done():
            waiter.turn.set_exception(error)

    def _refuse_all(self, line: str, error: LaneError) -> None:
        for place in self._queue.withdraw_all(line):
            self._wishes.drop(place)
            self._refuse(place, error)
        self._plans.forget(line)

    # What the lifecycle tells

    def waiting_for(self, line: str) -> int:
        """Return how many requests wait for the instance."""
        return self._queue.waiting(line)

    def came_up(self, residence: Residence) -> None:
        """A child takes requests."""
        # The settings may have changed while its plan was made.
        self._look_up(residence)
        self._decide()
        if residence.stay_s == 0 and not residence.leases and residence.state is ChildState.READY:
            self._stop_idle(residence)

    def did_not_come_up(self, residence: Residence, error: LaneError) -> None:
        """Tell everybody who waits for it, unless others of its line serve them."""
        line = residence.line
        siblings = [other for other in self._census.of_line(line) if other is not residence]
        if any(other.state is ChildState.READY for other in siblings):
            self._no_replica_before_s[residence.key] = self._clock() + _NEXT_REPLICA_S
        elif isinstance(error, ContextDoesNotFit):
            # Only those who asked for it are refused; the others get what fits.
            for place in self._wishes.of_line(line):
                self._queue.withdraw(place)
                self._wishes.drop(place)
                self._refuse(place, error)
        else:
            self._refuse_all(line, error)
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
            if idle_s is not None and now_s - residence.used_at_s >= idle_s and not self.waiting_for(residence.line):
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
        # Whoever asked for it to go at once did not ask for a copy of what was said.
        self._lifecycle.stop(residence, drain_s=0.0, error=None, reason="idle", save=residence.stay_s != 0)

    # What else can be asked of it

    def waiting(self, line: str) -> WaitingView | None:
        """Return how far the instance is for somebody who waits for it, or ``None`` when nobody does."""
        count = self._queue.waiting(line)
        if count == 0:
            return None
        children = self._census.of_line(line)
        starting = next((child for child in children if child.state is ChildState.STARTING), None)
        if starting is not None and not any(child.state is ChildState.READY for child in children):
            child = starting.child
            return WaitingView("loading", 0, child.fraction() if child is not None else None)
        return WaitingView("queued", count - 1, None)

    def residents(self) -> tuple[ResidentView, ...]:
        """Return the children there are, in order of their start; those that failed last are among them."""
        now_s = self._clock()
        shown = sorted(self._census, key=lambda residence: residence.order)
        views = []
        told: set[str] = set()
        for residence in shown:
            # One line, however many children: its waiters are shown once.
            waiting = 0 if residence.line in told else self._queue.waiting(residence.line)
            told.add(residence.line)
            views.append(resident_view(residence, waiting=waiting, now_s=now_s))
        return tuple(views)

    def conversations(self) -> int:
        """Return how many conversations have a home."""
        return len(self._homes)

    def keep(self, line: str, seconds: float | None) -> None:
        """Set how long the instance's children stay after their last request."""
        for residence in self._census.of_line(line):
            residence.stay_s = None if seconds is None or seconds < 0 else seconds
            idle = not residence.leases and residence.state in {ChildState.READY, ChildState.SLEEPING}
            if seconds == 0 and idle and not self._queue.waiting(line):
                self._stop_idle(residence)
        if self._waiters:
            # Somebody may wait for this one's going, which may be out of the question now.
            self._decide()
        else:
            self._arm()

    async def unload(self, model: str, *, drain_s: float = STOP_DRAIN_S) -> bool:
        """Stop every child of the model, whatever it is for, and return whether there was one, once they are gone.

        Whoever waits for it is told; running requests go on for ``drain_s``. A request that comes meanwhile gets a
        new child. Crashes are forgotten, so that the next request starts at once.
        """
        error = ModelStopped(model=model)
        for line in [line for line in self._queue.models() if model_of(line) == model]:
            self._refuse_all(line, error)
        self._breakers.forget_model(model)
        self._plans.forget_refusals(model)
        residences = self._census.of_model(model)
        for residence in residences:
            self._homes.forget(residence.key)
            self._lifecycle.stop(residence, drain_s=drain_s, error=error, reason="somebody said so")
            self._forget_failed(residence)
        endings = [residence.stopping for residence in residences if residence.stopping is not None]
        if endings:
            await asyncio.wait(endings)
        return bool(endings)

    def forget_lane(self, model: str) -> None:
        """Try every engine build again at the model's next load."""
        self._plans.forget_refusals(model)

    async def explain(self, line: str) -> Plan:
        """Return what would be started for the instance.

        Raises:
            LaneError: What a request would be refused with.
        """
        return await self._plans.explain(line)

    async def circumstances(self, line: str) -> tuple[Bytes | None, frozenset[str]]:
        """Return what a plan of the instance depends on: the memory for children, and the builds that died on it."""
        return await self._plans.circumstances(line)

    async def close(self) -> None:
        """Refuse whoever waits, drain, stop every child, and return when all are reaped."""
        self._closing = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        error = ShuttingDown()
        for line in list(self._queue.models()):
            self._refuse_all(line, error)
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

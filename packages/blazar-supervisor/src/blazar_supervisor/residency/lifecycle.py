"""Bringing children up, waking them, watching them, and taking them down.

One task at a time works on a child (starting or waking it); one watches it from the moment it is ready; one stops
it. A stop cancels the work and waits for it; whatever the order of events, each life ends exactly once.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Protocol

from blazar_routing.errors import InternalError, LaneError
from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.residency.banking import Banking, Written
from blazar_supervisor.residency.breaker import HEALTHY_AFTER_S, Breakers
from blazar_supervisor.residency.census import Census
from blazar_supervisor.residency.planning import Plans
from blazar_supervisor.residency.ports import Child, Launcher, Plan, StartFailed
from blazar_supervisor.residency.residence import Owner, Residence
from blazar_supervisor.residency.states import ChildState

_log = logging.getLogger(__name__)

_LET_GO_S = 1.0
"""Seconds between revoking leases and SIGTERM, for holders to close their connections."""

_CONDEMNED_GRACE_S = 2.0
"""Grace for a child that hangs: it will not end by itself."""

_LAUNCHES = 3
"""Tries to find a port that nobody takes first."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What the dispatcher reads of the settings, each time anew.

    Attributes:
        queue_limit: Requests that may wait for one model.
        drain_s: Seconds requests may go on when the daemon stops.
        grace_s: Seconds between SIGTERM and SIGKILL.
        max_loaded: The most children at the same time, or ``None``.
        header_timeout_s: The stall limit, for the words of an error.
        session_keep_s: Seconds for which a conversation is at home in the child that served it last.
    """

    queue_limit: int = 256
    drain_s: float = 10.0
    grace_s: float = 10.0
    max_loaded: int | None = None
    header_timeout_s: float = 120.0
    session_keep_s: float = 900.0


class Audience(Owner, Protocol):
    """Who is told what became of a child."""

    def waiting_for(self, line: str) -> int:
        """Return how many requests wait for the instance."""

    def came_up(self, residence: Residence) -> None:
        """The child takes requests."""

    def did_not_come_up(self, residence: Residence, error: LaneError) -> None:
        """Its start failed: whoever waits for it is to be told."""

    def changed(self) -> None:
        """A child went, fell asleep or was called off: decide anew."""


class Lifecycle:
    """Acts on the children of a census."""

    def __init__(
        self,
        *,
        census: Census,
        plans: Plans,
        launcher: Launcher,
        breakers: Breakers,
        limits: Callable[[], Limits],
        clock: Callable[[], float],
        audience: Audience,
        banking: Banking | None = None,
    ) -> None:
        self.hurry = asyncio.Event()
        self._census = census
        self._plans = plans
        self._launcher = launcher
        self._breakers = breakers
        self._limits = limits
        self._clock = clock
        self._audience = audience
        self._banking = banking
        self._tasks: set[asyncio.Task[None]] = set()
        self._endings: dict[asyncio.Task[None], str] = {}
        self._starts = 0
        self._no_more_draining = asyncio.Event()

    # Coming up

    def start(self, key: str, *, line: str, evict: Iterable[Residence] = ()) -> None:
        """Begin a child's life, or wake it; those in ``evict`` go first."""
        for victim in evict:
            self.stop(victim, drain_s=0.0, error=None, reason="to make room", save=True)
        known = self._census.find(key)
        if known is not None and known.state is ChildState.SLEEPING:
            known.go(ChildState.STARTING)
            known.loading_since_s = self._clock()
            self._work(known, self._wake(known), f"wake {key}")
            return
        if known is not None:
            known.go(ChildState.ABSENT)
        self._starts += 1
        residence = Residence(self._audience, key=key, line=line, order=self._starts, now_s=self._clock())
        self._census.enter(residence)
        self._work(residence, self._bring_up(residence), f"start {key}")

    async def _bring_up(self, residence: Residence) -> None:
        try:
            plan = await self._plans.settle(residence.key, residence.line)
            if plan is None:
                # Whose turn it is to go is the queue's decision; it asks for the start again.
                self._call_off(residence)
                return
            residence.plan = plan
            await self._others_gone(residence, plan)
            residence.plan = plan = self._plans.with_spare(residence.key, plan)
            await self._launch(residence, plan)
        except LaneError as error:
            # Nothing was started: there is no child to show as failed.
            self._census.leave(residence)
            residence.go(ChildState.FAILED)
            self._audience.did_not_come_up(residence, error)
        except StartFailed as failure:
            await self._start_failed(residence, failure)

    async def _launch(self, residence: Residence, plan: Plan) -> None:
        child = await self._come_up_somewhere(residence, plan)
        profile = plan.profile
        residence.total_slots = residence.free_slots = profile.slots
        residence.total_cells = residence.free_cells = profile.cells
        residence.wished_ctx = plan.ctx_wish
        residence.sleeps_after(profile.sleep_s)
        self._plans.came_up(residence.model, profile.engine)
        self._is_ready(residence)
        self._spawn_task(self._watch(residence, child), f"watch {residence.key}")

    async def _come_up_somewhere(self, residence: Residence, plan: Plan) -> Child:
        for _ in range(_LAUNCHES - 1):
            try:
                return await self._come_up(residence, plan)
            except StartFailed as failure:
                # Somebody took the port between our looking for it and the child's binding it.
                if failure.cause is not Cause.BIND or residence.child is None:
                    raise
                await residence.child.stop(grace_s=0.0, hurry=self.hurry)
        return await self._come_up(residence, plan)

    async def _come_up(self, residence: Residence, plan: Plan) -> Child:
        launching = asyncio.ensure_future(self._launcher.launch(residence.key, plan))
        try:
            residence.child = await asyncio.shield(launching)
        except asyncio.CancelledError:
            # A stop came while the process was being made: it must be known, so that it is stopped too.
            residence.child = await _outcome(launching)
            raise
        child = residence.child
        residence.endpoint, residence.headers = child.endpoint, child.headers
        await child.wait_ready()
        if self._banking is not None and not await self._banking.restore(residence.key, plan.profile, child):
            await child.stop(grace_s=0.0, hurry=self.hurry)
            return await self._come_up(residence, plan)
        return child

    def _is_ready(self, residence: Residence) -> None:
        now_s = self._clock()
        residence.go(ChildState.READY)
        residence.ready_since_s = residence.used_at_s = now_s
        residence.load_s = now_s - residence.loading_since_s
        residence.working = None
        _log.info("%s is ready after %.1f s", residence.key, residence.load_s)
        self._audience.came_up(residence)

    async def _wake(self, residence: Residence) -> None:
        child = residence.child
        assert child is not None
        assert residence.plan is not None
        await self._others_gone(residence, residence.plan)
        try:
            await child.wake()
        except StartFailed as failure:
            if not child.exited.is_set():
                self._audience.did_not_come_up(residence, failure.error)
                self.stop(residence, drain_s=0.0, error=failure.error, reason="it did not wake", clean=False)
            # If it ended, the watcher says so.
            return
        if residence.state is ChildState.STARTING:
            self._is_ready(residence)

    async def _others_gone(self, residence: Residence, plan: Plan) -> None:
        """Wait for children that are ending: an earlier life of the same key, and those whose memory is needed."""
        own = [task for task, key in self._endings.items() if key == residence.key]
        if own:
            await asyncio.wait(own)
        while self._endings:
            if self._plans.fits_beside_the_going(residence.key, plan):
                return
            await asyncio.wait(tuple(self._endings), return_when=asyncio.FIRST_COMPLETED)

    def _call_off(self, residence: Residence) -> None:
        residence.go(ChildState.ABSENT)
        self._census.leave(residence)
        self._audience.changed()

    async def _start_failed(self, residence: Residence, failure: StartFailed) -> None:
        child = residence.child
        if child is not None:
            # It may still run (a timeout), and its files are there in any case.
            await child.stop(grace_s=self._limits().grace_s, hurry=self.hurry)
        if failure.died:
            self._breakers.died(residence.key, now_s=self._clock(), tail=failure.tail)
        _log.warning("%s did not come up: %s", residence.key, failure.error)
        plan = residence.plan
        unknown = failure.cause is Cause.UNKNOWN_ARCHITECTURE
        if unknown and plan is not None and self._plans.refuse_build(residence.model, plan.profile.engine):
            # Another lane may know it: planned anew, once; after that the planner's refusal teaches.
            self._breakers.forget(residence.key)
            self._call_off(residence)
            return
        residence.error = failure.error
        residence.working = None
        residence.go(ChildState.FAILED)
        self._audience.did_not_come_up(residence, failure.error)

    # Its life

    async def _watch(self, residence: Residence, child: Child) -> None:
        await child.exited.wait()
        if residence.state in {ChildState.DRAINING, ChildState.STOPPING, ChildState.ABSENT}:
            return
        was_starting = residence.state is ChildState.STARTING
        failure = child.death()
        now_s = self._clock()
        if now_s - residence.ready_since_s >= HEALTHY_AFTER_S:
            self._breakers.forget(residence.key)
        self._breakers.died(residence.key, now_s=now_s, tail=failure.tail)
        residence.error = failure.error
        residence.go(ChildState.FAILED)
        self._plans.went()
        _log.error("%s died: %s", residence.key, failure.error)
        residence.stopping = self._ending(residence, child.stop(grace_s=0.0, hurry=self.hurry))
        if was_starting:
            self._audience.did_not_come_up(residence, failure.error)
        self._audience.changed()

    def begin_asking(self, residence: Residence) -> None:
        """Find out whether an idle child sleeps, and note it. Never wakes it."""
        if residence.child is None or residence.asking:
            return
        residence.asking = True
        residence.asked_at_s = self._clock()
        self._spawn_task(self._ask(residence, residence.child), f"ask {residence.key}")

    async def _ask(self, residence: Residence, child: Child) -> None:
        try:
            asleep = child.sleeping or await child.asks_sleeping()
        finally:
            residence.asking = False
        if asleep and residence.state is ChildState.READY and not residence.leases:
            residence.go(ChildState.SLEEPING)
            _log.info("%s sleeps", residence.key)
        elif residence.state is ChildState.READY and not residence.leases and residence.sleep_s is not None:
            # Awake a moment ago: look again shortly, and let a request that comes now pass.
            residence.awake_until_s = self._clock() + 1.0
        self._audience.changed()

    # Going

    def stop(
        self,
        residence: Residence,
        *,
        drain_s: float,
        error: LaneError | None,
        reason: str,
        clean: bool = True,
        grace_s: float | None = None,
        save: bool = False,
    ) -> None:
        """Begin a child's end; one that is ending already is left to it.

        Args:
            residence: The child.
            drain_s: Seconds its requests may go on.
            error: What holders of leases that are left then are told; needed if there can be any.
            reason: For the log.
            clean: Whether this forgets earlier crashes.
            grace_s: Seconds between SIGTERM and SIGKILL, if not what the settings say.
            save: Whether what it has read of conversations is saved first.
        """
        if residence.stopping is not None or not residence.alive:
            return
        _log.info("%s is stopped: %s", residence.key, reason)
        if residence.leases and drain_s > 0 and residence.state is ChildState.READY:
            residence.go(ChildState.DRAINING)
        else:
            residence.go(ChildState.STOPPING)
            drain_s = 0.0
        grace = self._limits().grace_s if grace_s is None else grace_s
        work = self._end(residence, drain_s=drain_s, error=error, clean=clean, grace_s=grace, save=save)
        if residence.working is not None:
            # At once: it must not take another step in a state that it does not expect.
            residence.working.cancel()
        residence.stopping = self._ending(residence, work)

    async def _end(
        self,
        residence: Residence,
        *,
        drain_s: float,
        error: LaneError | None,
        clean: bool,
        grace_s: float,
        save: bool,
    ) -> None:
        if residence.working is not None:
            await asyncio.wait([residence.working])
        if drain_s > 0:
            await self._let_finish(residence, drain_s, self._no_more_draining)
            residence.go(ChildState.STOPPING)
        if residence.leases and error is not None:
            for lease in tuple(residence.leases):
                lease.revoke(error)
            # The engine does not exit while a request's connection is open.
            await self._let_finish(residence, _LET_GO_S)
        if residence.child is not None:
            written = await self._saved(residence, residence.child) if save else None
            await residence.child.stop(grace_s=grace_s, hurry=self.hurry)
            if written is not None and self._banking is not None:
                await self._banking.keep(residence.key, written)
        residence.go(ChildState.ABSENT)
        self._census.leave(residence)
        self._plans.went()
        if clean:
            self._breakers.forget(residence.key)
        self._audience.changed()

    async def _saved(self, residence: Residence, child: Child) -> Written | None:
        if self._banking is None or residence.plan is None or residence.leases or self.hurry.is_set():
            return None
        return await self._banking.save(residence.key, residence.plan.profile, child)

    async def _let_finish(self, residence: Residence, seconds: float, *unless: asyncio.Event) -> None:
        """Wait until no lease is left, at most ``seconds``; less if there is hurry, or if the child is dead."""
        if not residence.leases:
            return
        residence.on_idle = asyncio.Event()
        events = [residence.on_idle, self.hurry, *unless]
        if residence.child is not None:
            events.append(residence.child.exited)
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            residence.on_idle = None

    def condemn(self, residence: Residence, *, error: LaneError) -> None:
        """End a child that hangs: no draining, a short grace, and no word about earlier crashes."""
        self.stop(
            residence, drain_s=0.0, error=error, reason="it shows no progress", clean=False, grace_s=_CONDEMNED_GRACE_S
        )

    async def all_gone(self, *, drain_s: float) -> None:
        """Wait until every task of every child has ended; stops begun earlier drain no longer than ``drain_s`` more."""
        timer = asyncio.get_running_loop().call_later(drain_s, self._no_more_draining.set)
        try:
            while self._tasks:
                await asyncio.wait(tuple(self._tasks))
        finally:
            timer.cancel()

    def _work(self, residence: Residence, work: Coroutine[object, object, None], name: str) -> None:
        residence.working = task = self._new_task(work, name)

        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                # A fault of our own must not leave anybody waiting.
                self._audience.did_not_come_up(residence, InternalError(request_id=name))
                self.stop(
                    residence, drain_s=0.0, error=InternalError(request_id=name), reason="a fault of Blazar's own"
                )

        task.add_done_callback(done)

    def _ending(self, residence: Residence, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = self._new_task(work, f"end {residence.key}")
        self._endings[task] = residence.key
        task.add_done_callback(self._endings.pop)
        return task

    def _spawn_task(self, work: Coroutine[object, object, None], name: str) -> None:
        task = self._new_task(work, name)
        del task  # The set holds it until it is done.

    def _new_task(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a fault of Blazar's own in '%s'", task.get_name(), exc_info=error)


async def _outcome(launching: "asyncio.Future[Child]") -> Child | None:
    try:
        return await launching
    except StartFailed:
        return None

"""The laws of residency: the real dispatcher on a stepped clock, with children that live and die as hypothesis likes."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from blazar_routing.errors import ContextDoesNotFit, LaneError
from blazar_routing.instances import child_key, model_of, parse_instance
from blazar_routing.ticket import Priority, Ticket
from blazar_supervisor.residency.dispatcher import Dispatcher
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.lifecycle import Limits
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.testing import (
    FakeChild,
    FakeLauncher,
    FakePlanner,
    IgnoresSigtermChild,
    SteppedLoop,
    make_profile,
)

MODELS = ("a", "b", "c")
LINES = (*MODELS, "a@embed")
TRAINED = 400
GIB = 1 << 30


@dataclass(eq=False)
class Held:
    """A lease that a client holds."""

    lease: SlotLease
    child: FakeChild
    revoked: list[LaneError] = field(default_factory=list)
    released: bool = False


class Residency(RuleBasedStateMachine):
    """Clients, children and time in any order."""

    @initialize(
        room=st.sampled_from([0, 1, 2, 3]),
        drain_s=st.sampled_from([0.0, 10.0]),
        patient=st.booleans(),
        replicas=st.sampled_from([1, 1, 2, 3]),
        most_ctx=st.sampled_from([250, 1000]),
    )
    def begin(self, room: int, drain_s: float, patient: bool, replicas: int, most_ctx: int) -> None:
        self.room = room
        self.replicas = replicas
        self.patient = patient
        self.loop = SteppedLoop()
        asyncio.set_event_loop(self.loop)
        self.planner = FakePlanner(idle_s=60.0)
        self.planner.trained, self.planner.most_ctx = TRAINED, most_ctx
        for line in LINES:
            self.planner.profiles[line] = make_profile(
                model_of(line), slots=2, ctx_tokens=100, sleep_s=20, need=Bytes(host=10 * GIB)
            )
        if room:
            total = Bytes(host=room * 10 * GIB + GIB)
            self.planner.memory = Pools(total, total)
        self.launcher = FakeLauncher(instant=False)
        self.waiting: list[asyncio.Task[None]] = []
        self.others: list[asyncio.Task[Any]] = []
        self.held: list[Held] = []
        self.errors: list[LaneError] = []
        self.dispatcher = self.run(self.make(Limits(queue_limit=20, drain_s=drain_s, grace_s=5.0)))
        self.run(self.loop.settle())

    async def make(self, limits: Limits) -> Dispatcher:
        return Dispatcher(
            planner=self.planner,
            launcher=self.launcher,
            limits=lambda: limits,
            clock=self.loop.time,
            replicas=self.most_children,
        )

    def most_children(self, line: str) -> int:
        """As the host says it: a companion has one child."""
        return self.replicas if line in MODELS else 1

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call ``function`` on the loop, as a client's code would."""

        async def on_the_loop() -> None:
            function(*arguments)

        self.run(on_the_loop())

    def settle(self) -> None:
        self.run(self.loop.settle())
        for task in self.waiting:
            if task.done() and not task.cancelled():
                task.result()  # What a client found wrong.
        self.waiting = [task for task in self.waiting if not task.done()]

    async def client(self, ticket: Ticket) -> None:
        try:
            lease = await self.dispatcher.lend(ticket.model, ticket)
        except LaneError as refusal:
            self.errors.append(refusal)
            if isinstance(refusal, ContextDoesNotFit) and not ticket.ctx_tokens:
                raise AssertionError("refused for another's wish") from refusal
            return
        assert parse_instance(lease.child).line == ticket.model
        assert lease.model == model_of(ticket.model)
        assert lease.ctx_tokens is not None
        assert lease.ctx_tokens >= min(ticket.ctx_tokens, TRAINED), "a smaller context than was asked for"
        child = next(child for child in self.launcher.children if child.endpoint == lease.endpoint)
        assert child.stops == 0, "a lease on a child that is being stopped"
        held = Held(lease, child)
        lease.on_revoke(held.revoked.append)
        self.held.append(held)

    # What happens

    @rule(
        line=st.sampled_from(LINES),
        slots=st.integers(0, 3),
        cells=st.sampled_from([0, 30, 60, 500]),
        deadline_s=st.sampled_from([None, None, 5.0]),
        priority=st.sampled_from(Priority),
        ctx_tokens=st.sampled_from([0, 0, 0, 50, 200, 300, 900]),
    )
    def arrive(
        self, line: str, slots: int, cells: int, deadline_s: float | None, priority: Priority, ctx_tokens: int
    ) -> None:
        ticket = Ticket(
            model=line, slots=slots, cells=cells, deadline_s=deadline_s, priority=priority, ctx_tokens=ctx_tokens
        )
        self.waiting.append(self.loop.create_task(self.client(ticket)))
        self.settle()

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave_the_queue(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.waiting)).cancel()
        self.settle()

    @precondition(lambda self: self.held and self.waiting)
    @rule(data=st.data())
    def leave_in_the_moment_of_the_grant(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        leaving = data.draw(st.sampled_from(self.waiting))
        self.held.remove(held)

        def both() -> None:
            held.lease.release()
            leaving.cancel()

        self.call(both)
        self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), settle=st.booleans())
    def release(self, data: st.DataObject, settle: bool) -> None:
        held = data.draw(st.sampled_from(self.held))
        self.call(held.lease.release)
        self.call(held.lease.release)
        held.released = True
        self.held.remove(held)
        if settle:
            self.settle()

    @precondition(lambda self: self.launcher.alive())
    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.launcher.alive())).become_ready()
        self.settle()

    @precondition(lambda self: self.launcher.alive())
    @rule(data=st.data(), settle=st.booleans())
    def die(self, data: st.DataObject, settle: bool) -> None:
        data.draw(st.sampled_from(self.launcher.alive())).die()
        if settle:
            self.settle()

    @precondition(lambda self: self.launcher.alive())
    @rule(data=st.data())
    def fall_asleep(self, data: st.DataObject) -> None:
        child = data.draw(st.sampled_from(self.launcher.alive()))
        if not any(held.child is child for held in self.held):
            child.fall_asleep()
            self.loop.advance(30.0)
        self.settle()

    @precondition(lambda self: any(child.waking for child in self.launcher.alive()))
    @rule(data=st.data())
    def finish_waking(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from([child for child in self.launcher.alive() if child.waking])).finish_waking()
        self.settle()

    @rule(seconds=st.sampled_from([0.5, 2.0, 6.0, 25.0, 61.0, 200.0]))
    def time_passes(self, seconds: float) -> None:
        self.loop.advance(seconds)
        self.settle()

    @rule(model=st.sampled_from(MODELS))
    def unload(self, model: str) -> None:
        self.others.append(self.loop.create_task(self.dispatcher.unload(model)))
        self.settle()

    @rule(line=st.sampled_from(LINES), seconds=st.sampled_from([None, 0, 5.0, 1000.0]))
    def keep(self, line: str, seconds: float | None) -> None:
        self.call(self.dispatcher.keep, line, seconds)
        self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def condemn(self, data: st.DataObject) -> None:
        held = data.draw(st.sampled_from(self.held))
        self.call(held.lease.condemn)
        self.call(held.lease.release)
        held.released = True
        self.held.remove(held)
        self.settle()

    @rule(stubborn=st.booleans())
    def children_to_come(self, stubborn: bool) -> None:
        self.launcher.make = IgnoresSigtermChild if stubborn else FakeChild

    # What always holds

    @invariant()
    def at_most_one_child_per_key(self) -> None:
        if not hasattr(self, "dispatcher"):
            return
        for line in LINES:
            keys = [child.key for child in self.launcher.alive() if parse_instance(child.key).line == line]
            assert len(keys) == len(set(keys)) <= self.most_children(line)
            assert set(keys) <= {child_key(line, number + 1) for number in range(self.most_children(line))}

    @invariant()
    def nothing_is_stopped_while_lent_unless_its_holder_was_told(self) -> None:
        for held in self.held:
            if held.child.stops and not held.child.died:
                assert held.revoked

    @invariant()
    def no_more_children_than_memory_has_room_for(self) -> None:
        # A sleeper holds next to nothing; one that loads again holds everything.
        if self.room:
            assert sum(child.waking or not child.asleep for child in self.launcher.alive()) <= self.room

    @invariant()
    def no_more_is_lent_than_there_is(self) -> None:
        for child in self.launcher.alive():
            leases = [held.lease for held in self.held if held.child is child]
            assert sum(lease._slots for lease in leases) <= 2
            assert sum(lease._cells for lease in leases) <= child.profile.cells

    @invariant()
    def nothing_that_could_be_done_is_left_undone(self) -> None:
        if hasattr(self, "dispatcher") and not any(child.exited.is_set() for child in self.launcher.children[-3:]):
            dispatcher = self.dispatcher
            assert (
                dispatcher._queue.decide(dispatcher._view(), now_s=self.loop.time(), room=dispatcher._plans.victims)
                == []
            )

    @invariant()
    def whoever_waits_waits_for_something(self) -> None:
        if not hasattr(self, "dispatcher"):
            return
        for line in LINES:
            view = self.dispatcher.waiting(line)
            if view is not None:
                assert self.dispatcher.residents() or self.dispatcher._timer is not None or self.others

    def teardown(self) -> None:
        if not hasattr(self, "dispatcher"):
            return
        try:
            self.everybody_is_answered_in_the_end()
            self.run(self.shut_down())
        finally:
            self.run(self.end_whatever_is_left())
            self.loop.close()
            asyncio.set_event_loop(None)

    def everybody_is_answered_in_the_end(self) -> None:
        for _ in range(200):
            self.settle()
            if not self.waiting:
                break
            for child in self.launcher.alive():
                child.become_ready()
                if child.waking:
                    child.finish_waking()
            for held in self.held:
                self.call(held.lease.release)
            self.held.clear()
            self.settle()
            self.loop.advance(7.0)
        assert not self.waiting, "somebody waits for ever"
        if not self.patient:
            return
        for held in self.held:
            self.call(held.lease.release)
        self.held.clear()
        self.settle()
        assert all(view.in_flight == 0 for view in self.dispatcher.residents()), "a lease was lost"

    async def end_whatever_is_left(self) -> None:
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def shut_down(self) -> None:
        closing = self.loop.create_task(self.dispatcher.close())
        for _ in range(20):
            await self.loop.settle()
            self.loop.advance(6.0)
        await self.loop.settle()
        assert closing.done()
        await closing
        assert all(held.revoked or held.child.died for held in self.held), "a holder was not told"
        assert self.dispatcher.residents() == ()
        assert not self.launcher.alive()
        assert all(child.cleaned for child in self.launcher.children)
        assert len(self.dispatcher._queue) == 0
        assert not self.dispatcher._waiters
        await asyncio.gather(*self.others)
        assert asyncio.all_tasks() == {asyncio.current_task()}


Residency.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    # Explaining traces every line of the loop, which takes longer than all the rest.
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestResidency = Residency.TestCase

"""A dispatcher with everything faked around it, on a clock that stands still."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from blazar_routing.ticket import Ticket
from blazar_supervisor.residency.banking import Banking
from blazar_supervisor.residency.dispatcher import Dispatcher
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.lifecycle import Limits
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.testing import FakeLauncher, FakePlanner, SteppedLoop, make_profile

GIB = 1 << 30
_DEADLINE_S = 60.0


class Stage:
    """A dispatcher with everything faked around it, on a clock that stands still."""

    def __init__(self, loop: SteppedLoop) -> None:
        self.loop = loop
        self.planner = FakePlanner()
        self.launcher = FakeLauncher()
        self.limits = Limits()
        self.dispatcher = self._open()

    def _open(self, *, banking: Banking | None = None, replicas: int = 1) -> Dispatcher:
        return Dispatcher(
            planner=self.planner,
            launcher=self.launcher,
            limits=lambda: self.limits,
            clock=self.loop.time,
            banking=banking,
            replicas=lambda _: replicas,
        )

    def serve_with(self, *, replicas: int) -> None:
        """Allow so many children of each model; before the first request."""
        self.dispatcher = self._open(replicas=replicas)

    def bank_with(self, banking: Banking) -> None:
        """Have what children read of conversations saved; before the first request."""
        self.dispatcher = self._open(banking=banking)

    def ask(self, model: str = "m", **facts: Any) -> "asyncio.Task[SlotLease]":
        """Ask for a lease, in a task."""
        return self.loop.create_task(self.dispatcher.lend(model, Ticket(model=model, **facts)))

    async def lend(self, model: str = "m", **facts: Any) -> SlotLease:
        """Return a lease that is there without waiting."""
        task = self.ask(model, **facts)
        await self.loop.settle()
        assert task.done(), "it waits"
        return task.result()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, and what is due happen."""
        self.loop.advance(seconds)
        await self.loop.settle()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for what a thread does, which no clock of the loop's shows."""
        due_s = time.monotonic() + _DEADLINE_S
        while not condition():
            assert time.monotonic() < due_s, "it does not happen"
            await self.loop.run_in_executor(None, time.sleep, 0.005)
            await self.loop.settle()

    def state(self, model: str = "m") -> str | None:
        """Return a child's state, or ``None`` when it is not listed."""
        return next((view.state for view in self.dispatcher.residents() if view.child == model), None)

    def max_loaded(self, count: int) -> None:
        """Allow that many children at the same time."""
        self.limits = replace(self.limits, max_loaded=count)

    def two_models_of_ten_gib(self, *, room_gib: int) -> None:
        """Give the machine so much memory, and two models that need 10 GiB each."""
        for name in ("a", "b"):
            self.planner.profiles[name] = make_profile(name, slots=1, need=Bytes(host=10 * GIB))
        self.planner.memory = Pools(Bytes(host=room_gib * GIB), Bytes(host=room_gib * GIB))


Scene = Callable[[Callable[[Stage], Awaitable[None]]], None]
"""Plays a story on a stage, and then closes the dispatcher: nothing may be left."""


def play_on(loop: SteppedLoop) -> Scene:
    """Return what plays stories on ``loop``."""

    def play(story: Callable[[Stage], Awaitable[None]]) -> None:
        async def whole() -> None:
            stage = Stage(loop)
            await story(stage)
            closing = loop.create_task(stage.dispatcher.close())
            for _ in range(5):
                await loop.settle()
                loop.advance(20.0)
            await loop.settle()
            assert closing.done()
            assert not stage.launcher.alive()

        loop.run_until_complete(whole())

    return play

"""What the dispatcher needs of those who plan and start children; fakes in :mod:`blazar_supervisor.testing`."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from blazar_routing.errors import LaneError
from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.engines.adapter import SlotState
from blazar_supervisor.engines.counters import Counters
from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.engines.figures import MemoryFigures
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.pools import Bytes, Pools


@dataclass(frozen=True, slots=True)
class Plan:
    """What is going to be started for a model, and for how long.

    Attributes:
        profile: The child's profile, with the memory it will need.
        load_timeout_s: Seconds the load may take.
        idle_s: Seconds without a request until it is stopped, or ``None`` for never.
        ctx_wish: The context that clients asked for when it was made, 0 for none; what it has may be less than that
            (the model was trained for less, or its owner set another).
        drain_s: Seconds for which an answer that nobody waits for is read on, for engines that break when a request
            is dropped; 0.0 closes its connection.
        stamp: What in settings and row shaped the child; another one means that a running child is out of date.
    """

    profile: Profile
    load_timeout_s: float
    idle_s: float | None
    ctx_wish: int = 0
    drain_s: float = 0.0
    stamp: object = None

    @property
    def need(self) -> Bytes:
        """The memory it is budgeted with, its prompt cache not counted."""
        return Bytes(self.profile.need_host_bytes, self.profile.need_device_bytes)

    @property
    def prompt_cache(self) -> Bytes:
        """What its prompt cache may come to take."""
        return Bytes(host=self.profile.cache_ram_mb << 20)


class StartFailed(Exception):
    """A child that did not come up.

    Attributes:
        error: What its waiters are told.
        cause: Why, for decisions.
        died: Whether a process ended by itself (which the breaker counts).
        tail: The child's last lines.
    """

    def __init__(self, error: LaneError, *, cause: Cause, died: bool, tail: tuple[str, ...] = ()) -> None:
        super().__init__(str(error))
        self.error = error
        self.cause = cause
        self.died = died
        self.tail = tail


@dataclass(frozen=True, slots=True)
class Current:
    """What settings and row say of an instance now, as far as it concerns a child that runs.

    Attributes:
        stamp: As in :class:`Plan`.
        idle_s: Likewise.
    """

    stamp: object
    idle_s: float | None


class Planner(Protocol):
    """Decides what to start."""

    def current(self, instance: str) -> Current | None:
        """Return what is said of an instance now, or ``None`` when its row has gone. Reads memory only."""

    async def plan(
        self, instance: str, *, limit: Bytes | None, refused_by: frozenset[str], ctx_tokens: int = 0
    ) -> Plan:
        """Return the plan for an instance of a model.

        Args:
            instance: Its name: the row's own for the plain one.
            limit: The memory there would be if no other child ran, or ``None`` when unknown.
            refused_by: Tags of builds that died on its architecture.
            ctx_tokens: The context that clients ask for, or 0; where its owner set none, at least that is given, or
                what the model was trained for if that is less.

        Raises:
            ContextDoesNotFit: It is only the context asked for that has no room.
            LaneError: No such row or file, no engine, settings that cannot be used, no room at all.
        """

    def with_spare(self, plan: Plan, spare_bytes: int) -> Plan:
        """Return the plan with its prompt cache cut to half of the main memory that is left beside it. Pure."""

    async def pools(self) -> Pools:
        """Return the machine's memory, measured now."""


class Child(Protocol):
    """A started process, whichever engine it is."""

    @property
    def pid(self) -> int: ...
    @property
    def endpoint(self) -> Endpoint: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def exited(self) -> asyncio.Event:
        """Set once the process has ended, been reaped, and its group is gone."""

    @property
    def sleeping(self) -> bool:
        """Whether it has said that it sleeps (and not yet that it woke)."""

    async def wait_ready(self) -> None:
        """Return once it takes requests.

        Raises:
            StartFailed: It ended first, or was not ready in time. It may still run then.
        """

    async def private_bytes(self) -> int:
        """Return the main memory it holds besides file mappings, by the system's account."""

    def fraction(self) -> float | None: ...
    def figures(self) -> MemoryFigures: ...
    async def asks_sleeping(self) -> bool | None:
        """Ask whether it sleeps, without waking it; ``None`` when it does not say."""

    async def wake(self) -> None:
        """Make it load its model again and return once it has.

        Raises:
            StartFailed: It ended instead, or did not come up in time.
        """

    async def moved(self) -> bool:
        """Return whether it has done any work since this was last asked (or within a few seconds)."""

    async def peg(self, *, timeout_s: float) -> bool:
        """Make one token, if its kind gains by it, and return whether it did."""

    async def counters(self) -> Counters | None:
        """Return what it has counted of its work. Wakes a sleeper."""

    async def slots(self) -> tuple[SlotState, ...] | None: ...
    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None: ...
    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None: ...

    def death(self) -> StartFailed:
        """Return why it ended, as an error for whoever was using it: only after :attr:`exited`."""

    async def stop(self, *, grace_s: float, hurry: asyncio.Event) -> None:
        """End it and return when it is reaped and its files are gone. ``hurry`` cuts the grace short."""


class Launcher(Protocol):
    """Starts processes."""

    async def launch(self, key: str, plan: Plan) -> Child:
        """Start a child and return at once, before it is ready.

        Raises:
            StartFailed: It could not be started.
        """

"""One child's life from the first request for it to its end; the next life is another object.

A lease points at its life, so that whatever is released late touches counters that nobody reads any more.
"""

import asyncio
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from blazar_routing.errors import LaneError
from blazar_routing.instances import model_of
from blazar_routing.ticket import Ticket
from blazar_supervisor.children.endpoint import Endpoint
from blazar_supervisor.engines.counters import Counters
from blazar_supervisor.residency.cache_hints import NOTHING_KNOWN
from blazar_supervisor.residency.eviction import Holding
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.pools import Bytes
from blazar_supervisor.residency.states import ChildState, check_transition

if TYPE_CHECKING:
    from blazar_supervisor.residency.ports import Child, Plan

SLEEPER_BYTES = Bytes(host=256 << 20)
"""What a sleeping engine is counted with: its process without model and cache (133 MB was seen)."""

NOWHERE: Final = Endpoint(base_url="")


class Owner(Protocol):
    """Who hears of what holders of leases do."""

    def released(self, residence: "Residence") -> None:
        """A lease has ended."""

    def answered(self, residence: "Residence") -> None:
        """A request has been served to its end."""

    def condemn(self, residence: "Residence", lease: SlotLease) -> None:
        """A holder found that the child hangs."""


class DefaultKeep:
    """The type of :data:`BY_DEFAULT`."""


BY_DEFAULT: Final = DefaultKeep()
"""No request has said how long the model should stay."""


class Residence:
    """A child as the dispatcher sees it.

    Attributes:
        key: The child's key.
        line: The instance that it serves: what its requests wait for.
        model: The model row's name.
        order: A number that grows with each start.
        outdated: Whether the settings that shaped it have changed since.
        plan: What is started, once that is known.
        child: The process, once there is one.
        leases: Those given out.
        wished_ctx: The largest context asked for that it was planned for, or of which it has all there can be.
        error: Why it failed.
    """

    __slots__ = (
        "asked_at_s",
        "asking",
        "awake_until_s",
        "child",
        "counters",
        "drowsy_after_s",
        "endpoint",
        "error",
        "free_cells",
        "free_slots",
        "headers",
        "hints",
        "key",
        "leases",
        "line",
        "load_s",
        "loading_since_s",
        "model",
        "on_idle",
        "order",
        "outdated",
        "owner",
        "plan",
        "ready_since_s",
        "sleep_s",
        "state",
        "stay_s",
        "stopping",
        "talks_until_s",
        "total_cells",
        "total_slots",
        "used_at_s",
        "wished_ctx",
        "working",
    )

    def __init__(self, owner: Owner, *, key: str, line: str, order: int, now_s: float) -> None:
        self.owner = owner
        self.key = key
        self.line = line
        self.model = model_of(line)
        self.order = order
        self.outdated = False
        self.state = ChildState.STARTING
        self.plan: Plan | None = None
        self.child: Child | None = None
        self.leases: set[SlotLease] = set()
        self.error: LaneError | None = None
        self.endpoint = NOWHERE
        self.headers: Mapping[str, str] = {}
        self.total_slots = self.free_slots = 0
        self.total_cells = self.free_cells = 0
        self.sleep_s: float | None = None
        self.drowsy_after_s = math.inf
        self.stay_s: float | DefaultKeep | None = BY_DEFAULT
        self.loading_since_s = now_s
        self.ready_since_s = now_s
        self.used_at_s = now_s
        self.load_s = 0.0
        self.wished_ctx = 0
        self.talks_until_s = -math.inf
        self.counters = Counters()
        self.hints = NOTHING_KNOWN
        self.on_idle: asyncio.Event | None = None
        self.asking = False
        self.asked_at_s = float("-inf")
        self.awake_until_s = 0.0
        self.working: asyncio.Task[None] | None = None
        self.stopping: asyncio.Task[None] | None = None

    def go(self, state: ChildState) -> None:
        """Enter a state.

        Raises:
            IllegalTransition: The table does not have the step.
        """
        check_transition(self.state, state)
        self.state = state

    # The hot path

    def has_room(self, ticket: Ticket) -> bool:
        """Return whether a request can start now; one that wants more than there is starts alone."""
        free = self.free_slots
        if ticket.slots > free and (free < self.total_slots or free == 0):
            return False
        if ticket.slots == 0 or ticket.cells <= self.free_cells:
            return True
        return self.free_cells == self.total_cells

    def grant(self, ticket: Ticket, queue_s: float, load_s: float) -> SlotLease:
        """Give out a lease; the caller has checked that there is room."""
        slots, cells = ticket.slots, ticket.cells
        if slots == 0:
            cells = 0
        elif slots > self.total_slots:
            slots = self.total_slots
        if cells > self.total_cells:
            cells = self.total_cells
        self.free_slots -= slots
        self.free_cells -= cells
        lease = SlotLease(self, slots, cells, queue_s, load_s)
        self.leases.add(lease)
        return lease

    def take_back(self, lease: SlotLease, slots: int, cells: int) -> None:
        """End a lease; one that has ended already does nothing."""
        if lease not in self.leases:
            return
        self.leases.remove(lease)
        self.free_slots += slots
        self.free_cells += cells
        self.owner.released(self)

    def condemn(self, lease: SlotLease) -> None:
        """A holder found that the child hangs."""
        self.owner.condemn(self, lease)

    # What it looks like

    def takes(self, now_s: float, *, ctx_tokens: int = 0) -> bool:
        """Return whether it takes requests now that want a context of ``ctx_tokens``, as far as it has room."""
        return self.state is ChildState.READY and self.content_ctx >= ctx_tokens and not self.is_drowsy(now_s)

    @property
    def content_ctx(self) -> int:
        """The largest wish for context with which it need not be replaced."""
        served = 0 if self.plan is None else self.plan.profile.ctx_tokens
        return max(served, self.wished_ctx)

    @property
    def alive(self) -> bool:
        """Whether it counts as a child that is there or on its way."""
        return self.state not in {ChildState.ABSENT, ChildState.FAILED}

    @property
    def is_asleep(self) -> bool:
        """Whether it is known to sleep."""
        return self.state is ChildState.SLEEPING

    @property
    def reported(self) -> Bytes:
        """What the engine says it holds; what was budgeted until it says so, nothing while it sleeps."""
        if self.state is ChildState.SLEEPING or self.plan is None:
            return Bytes()
        if self.child is None or self.state is ChildState.STARTING:
            return self.plan.need
        figures = self.child.figures()
        return Bytes(figures.host_bytes, figures.device_bytes) if figures.total_bytes else self.plan.need

    @property
    def holds(self) -> Bytes:
        """What it is counted with: what it reports, and what its prompt cache may come to take."""
        if self.state is ChildState.SLEEPING:
            return SLEEPER_BYTES
        return self.reported if self.plan is None else self.reported + self.plan.prompt_cache

    def holding(self, *, waiting: int, now_s: float = math.inf) -> Holding:
        """Return it as the eviction sees it."""
        return Holding(
            key=self.key,
            model=self.model,
            holds=self.holds,
            last_used_s=self.used_at_s,
            ready_since_s=self.ready_since_s,
            busy=bool(self.leases) or waiting > 0 or self.state is ChildState.STARTING,
            talks=self.talks_until_s > now_s,
            pinned=self.stay_s is None,
            going=self.state in {ChildState.DRAINING, ChildState.STOPPING},
        )

    def idle_s(self) -> float | None:
        """Return how long it may be idle, or ``None`` for ever."""
        if isinstance(self.stay_s, DefaultKeep):
            return self.plan.idle_s if self.plan is not None else None
        return self.stay_s

    def is_drowsy(self, now_s: float) -> bool:
        """Return whether it may have fallen asleep: idle for about as long as it takes."""
        idle_s = now_s - self.used_at_s
        if idle_s < self.drowsy_after_s or self.leases or now_s < self.awake_until_s:
            return False
        return self.state is ChildState.READY

    def sleeps_after(self, sleep_s: float | None) -> None:
        """Note after how many idle seconds the engine sleeps."""
        self.sleep_s = sleep_s
        self.drowsy_after_s = math.inf if sleep_s is None else max(sleep_s - 2.0, sleep_s / 2)

"""Stand-ins for those who plan and start children, and a loop whose clock the test moves.

The fakes are named for how they misbehave. All of them fit :mod:`blazar_supervisor.residency.ports`; the dispatcher
that they are given to is the real one.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from blazar_routing.errors import ContextDoesNotFit, EngineCrashed, LaneError, LoadFailed, LoadTimeout
from blazar_routing.instances import model_of
from blazar_routing.kinds import EngineKind
from blazar_supervisor.children.endpoint import Endpoint, tcp_endpoint
from blazar_supervisor.engines.adapter import SlotState
from blazar_supervisor.engines.counters import Counters
from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.engines.figures import NOTHING, MemoryFigures
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.pools import UNKNOWN, Bytes, Pools
from blazar_supervisor.residency.ports import Current, Plan, StartFailed


class SteppedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still until :meth:`advance`; nothing in it ever waits for real."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 1000.0

    def time(self) -> float:
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass; timers that are due run at the next step."""
        self._now_s += seconds

    async def settle(self, *, steps: int = 1000) -> None:
        """Let everything run that can run without time passing.

        Raises:
            AssertionError: It does not come to rest.
        """
        quiet = 0
        for _ in range(steps):
            await asyncio.sleep(0)
            # The base class's queue of callbacks; the first quiet round may only have found timers that are due.
            quiet = 0 if getattr(self, "_ready", ()) else quiet + 1
            if quiet == 3:
                return
        raise AssertionError(f"the loop does not come to rest within {steps} rounds")


def make_profile(
    model: str = "model",
    *,
    slots: int = 4,
    ctx_tokens: int = 4096,
    sleep_s: int | None = None,
    need: Bytes | None = None,
    engine: str = "b1",
) -> Profile:
    """Return a plausible profile."""
    need = need or Bytes()
    return Profile(
        model=model,
        engine=engine,
        kind=EngineKind.LLAMACPP,
        program=Path("/opt/llama.cpp/llama-server"),
        args=("-m", f"/weights/{model}.gguf"),
        env={},
        ctx_tokens=ctx_tokens,
        slots=slots,
        cells=ctx_tokens,
        sleep_s=sleep_s,
        need_host_bytes=need.host,
        need_device_bytes=need.device,
    )


class FakePlanner:
    """Plans every model the same way, unless told otherwise.

    Attributes:
        plans: How often it was asked.
        errors: Models that it refuses, and with what.
        profiles: Profiles of models that are special.
        memory: What the machine has.
        trained: The largest context that any of them has.
        most_ctx: The largest that there is room for.
        idle_s: What plans say of idleness.
        stamp: What settings say of every model.
        gone: Models without a row.
    """

    def __init__(self, *, idle_s: float | None = 1800.0, load_timeout_s: float = 180.0) -> None:
        self.plans = 0
        self.errors: dict[str, LaneError] = {}
        self.profiles: dict[str, Profile] = {}
        self.memory: Pools = UNKNOWN
        self.trained = 65_536
        self.most_ctx = 1 << 30
        self.stamp: object = "settings"
        self.gone: set[str] = set()
        self.idle_s = idle_s
        self.load_timeout_s = load_timeout_s

    def with_spare(self, plan: Plan, spare_bytes: int) -> Plan:
        """Return the plan as it is."""
        del spare_bytes
        return plan

    async def pools(self) -> Pools:
        """Return :attr:`memory`."""
        return self.memory

    async def plan(
        self, instance: str, *, limit: Bytes | None, refused_by: frozenset[str], ctx_tokens: int = 0
    ) -> Plan:
        """Return a plan, after letting others run; a context that is asked for is given, up to :attr:`trained`."""
        del limit, refused_by
        self.plans += 1
        stamp = self.stamp
        await asyncio.sleep(0)
        if instance in self.errors:
            raise self.errors[instance]
        if ctx_tokens > self.most_ctx:
            raise ContextDoesNotFit(model=model_of(instance), ctx_tokens=ctx_tokens, verdict="there is no room for it.")
        profile = self.profiles.get(instance) or make_profile(model_of(instance))
        ctx = max(profile.ctx_tokens, min(ctx_tokens, self.trained))
        profile = replace(profile, ctx_tokens=ctx, cells=ctx)
        return Plan(
            profile=profile,
            load_timeout_s=self.load_timeout_s,
            idle_s=self.idle_s,
            ctx_wish=ctx_tokens,
            stamp=stamp,
        )

    def current(self, instance: str) -> Current | None:
        """Return what :attr:`stamp` and :attr:`idle_s` say now."""
        return None if model_of(instance) in self.gone else Current(stamp=self.stamp, idle_s=self.idle_s)


class FakeChild:
    """A child that does what the test says.

    Attributes:
        key: Its key.
        model: Its model.
        stops: How often it was told to stop.
        held: Its account of its memory.
        asleep: Whether it sleeps.
        wakes: How often it was woken.
        pegs: How often it was pegged.
        counted: What it says it has counted.
        questions: How often it was asked that.
        slot_states: What it says of its slots.
        slot_tokens: What is in a slot when it is saved.
        dies_of_banks: Whether taking a slot back kills it.
        saved: Slots it was told to save, and where.
        restored: Slots it was told to take back, and from where.
        works: Whether :meth:`moved` finds it at work.
        cleaned: Whether its files are gone.
        died: Whether it ended by itself.
        waking: Whether it loads its model again.
    """

    stubborn = False
    """Whether it outlives SIGTERM, until the grace is over."""

    def __init__(self, key: str, plan: Plan, *, pid: int) -> None:
        self.key = key
        self.model = plan.profile.model
        self.stops = 0
        self.held = NOTHING
        self.asleep = False
        self.wakes = 0
        self.pegs = 0
        self.counted: Counters | None = None
        self.questions = 0
        self.slot_states: tuple[SlotState, ...] = ()
        self.slot_tokens: dict[int, int] = {}
        self.dies_of_banks = False
        self.saved: list[tuple[int, str]] = []
        self.restored: list[tuple[int, str]] = []
        self.works = True
        self.cleaned = False
        self.died = False
        self.waking = False
        self._plan = plan
        self._pid = pid
        self._ready = asyncio.Event()
        self._awake = asyncio.Event()
        self._wake_fails = False
        self._exited = asyncio.Event()

    @property
    def profile(self) -> Profile:
        """What it was started from."""
        return self._plan.profile

    @property
    def pid(self) -> int:
        """A made-up number."""
        return self._pid

    @property
    def endpoint(self) -> Endpoint:
        """An address where nobody listens."""
        return tcp_endpoint(self._pid)

    @property
    def headers(self) -> Mapping[str, str]:
        """A made-up secret."""
        return {"Authorization": f"Bearer secret-{self._pid}"}

    @property
    def exited(self) -> asyncio.Event:
        """Set by :meth:`die` and :meth:`stop`."""
        return self._exited

    @property
    def sleeping(self) -> bool:
        """Whether it sleeps."""
        return self.asleep

    # What the test does

    def become_ready(self) -> None:
        """Finish the load."""
        self._ready.set()

    def fall_asleep(self) -> None:
        """Sleep, until it is woken."""
        self.asleep = True
        self._awake.clear()

    def finish_waking(self) -> None:
        """Finish the load after a sleep."""
        self.asleep = self.waking = False
        self._awake.set()

    def die(self) -> None:
        """End by itself."""
        self.died = True
        self._wake_fails = self.asleep
        self._exited.set()
        self._ready.set()
        self._awake.set()

    # What the dispatcher asks

    async def wait_ready(self) -> None:
        """Wait for :meth:`become_ready`."""
        try:
            async with asyncio.timeout(self._plan.load_timeout_s):
                await self._ready.wait()
        except TimeoutError:
            error = LoadTimeout(model=self.model, seconds=self._plan.load_timeout_s)
            raise StartFailed(error, cause=Cause.OTHER, died=False) from None
        if self._exited.is_set():
            raise self._load_failed()

    async def private_bytes(self) -> int:
        """What it says it holds."""
        return self.held.host_bytes - self.held.mapped_bytes

    def fraction(self) -> float | None:
        """It does not say."""
        return None

    def figures(self) -> MemoryFigures:
        """Return :attr:`held`."""
        return self.held

    async def asks_sleeping(self) -> bool | None:
        """Say so, after letting others run."""
        await asyncio.sleep(0)
        return self.asleep

    async def wake(self) -> None:
        """Wait for :meth:`finish_waking`."""
        self.wakes += 1
        self.waking = True
        await self._awake.wait()
        if self._exited.is_set():
            raise self.death()

    async def moved(self) -> bool:
        """Return :attr:`works`."""
        await asyncio.sleep(0)
        return self.works

    async def peg(self, *, timeout_s: float) -> bool:
        """Count it, or hang until it is let go."""
        del timeout_s
        self.pegs += 1
        await asyncio.sleep(0)
        return True

    async def counters(self) -> Counters | None:
        """Return :attr:`counted`, and count the question."""
        await asyncio.sleep(0)
        self.questions += 1
        return self.counted

    async def slots(self) -> tuple[SlotState, ...] | None:
        """Return :attr:`slot_states`."""
        await asyncio.sleep(0)
        return self.slot_states

    async def save_slot(self, slot: int, file: str, *, timeout_s: float) -> int | None:
        """Note it, and say what the test says; a slot that the test does not know is written for ever."""
        self.saved.append((slot, file))
        if slot not in self.slot_tokens:
            await asyncio.sleep(timeout_s * 2)
            return None
        return self.slot_tokens[slot]

    async def restore_slot(self, slot: int, file: str, *, timeout_s: float) -> bool | None:
        """Note it."""
        del timeout_s
        await asyncio.sleep(0)
        self.restored.append((slot, file))
        if self.dies_of_banks:
            self.die()
            return None
        return True

    def death(self) -> StartFailed:
        """Say how it ended."""
        if self._wake_fails:
            return self._load_failed()
        error = EngineCrashed(model=self.model, how="signal 11 (SIGSEGV)", tail=("last words",))
        return StartFailed(error, cause=Cause.ABORTED, died=True, tail=("last words",))

    async def stop(self, *, grace_s: float, hurry: asyncio.Event) -> None:
        """End: at once, or when the grace is over if it is stubborn."""
        self.stops += 1
        if self.stubborn and not self._exited.is_set():
            waits = [asyncio.ensure_future(event.wait()) for event in (self._exited, hurry)]
            try:
                await asyncio.wait(waits, timeout=grace_s, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        else:
            await asyncio.sleep(0)
        self._exited.set()
        self.cleaned = True

    def _load_failed(self) -> StartFailed:
        error = LoadFailed(model=self.model, reason="the file is not a GGUF file", advice="Fetch it again.")
        return StartFailed(error, cause=Cause.FILE_UNREADABLE, died=True, tail=("last words",))


class IgnoresSigtermChild(FakeChild):
    """Ends only when its grace is over."""

    stubborn = True


class FakeLauncher:
    """Makes fake children, ready at once unless told otherwise.

    Attributes:
        children: All that were ever made, in order.
        instant: Whether a child is ready as soon as it is made.
        make: The class of the next child.
        failures: Start failures to raise instead, the next first.
        dies_of_banks: Whether the next child dies of the first thing it is given back.
    """

    def __init__(self, *, instant: bool = True, make: Callable[..., FakeChild] = FakeChild) -> None:
        self.children: list[FakeChild] = []
        self.instant = instant
        self.make = make
        self.failures: list[StartFailed] = []
        self.dies_of_banks = False

    async def launch(self, key: str, plan: Plan) -> FakeChild:
        """Make a child, after letting others run."""
        await asyncio.sleep(0)
        if self.failures:
            raise self.failures.pop(0)
        child = self.make(key, plan, pid=20_000 + len(self.children))
        self.children.append(child)
        child.dies_of_banks, self.dies_of_banks = self.dies_of_banks, False
        if self.instant:
            child.become_ready()
        return child

    def alive(self, key: str | None = None) -> list[FakeChild]:
        """Return the children that have not ended."""
        return [child for child in self.children if not child.exited.is_set() and key in {None, child.key}]

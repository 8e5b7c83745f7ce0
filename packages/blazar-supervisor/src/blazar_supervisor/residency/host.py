"""What the rest of the daemon sees of the supervisor. Fits ``blazar_gateway.ports.ModelHost`` by shape."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence

from blazar_budget import Machine
from blazar_budget.probe import probe_memory
from blazar_routing.instances import Role, parse_instance
from blazar_routing.ticket import Ticket
from blazar_store.layout import Layout
from blazar_store.settings import Settings
from blazar_store.types import EngineRow, LanePin, ModelRow
from blazar_supervisor.children.orphans import Collected, collect_orphans
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.banking import Banking
from blazar_supervisor.residency.banks import BankShelf
from blazar_supervisor.residency.dispatcher import Dispatcher
from blazar_supervisor.residency.explaining import explain, explanation_facts
from blazar_supervisor.residency.hints import HintRounds
from blazar_supervisor.residency.launcher import ChildLauncher
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.lifecycle import Limits
from blazar_supervisor.residency.planner import ModelPlanner
from blazar_supervisor.residency.preloading import Preload, Preloading, Wanted
from blazar_supervisor.residency.roles import instance_for
from blazar_supervisor.residency.views import ResidentView, WaitingView

_log = logging.getLogger(__name__)


class EngineHost:
    """Runs engines: one child per model, started when somebody asks for it.

    Built before the loop's work begins, on the loop's thread; :meth:`start` comes before the first request and
    :meth:`close` ends everything. After ``close`` every request is refused.

    Args:
        layout: The data directory, locked by this daemon.
        settings: The settings in force; read at each decision, so that an edit holds from the next one on.
        models: Finds a model row by its name, from memory.
        engines: The engine builds there are, from memory.
        machine: Measures the machine; blocks, and is called in a thread.
        clock: Seconds that only go forward.
        environ: The environment of which children get a small part; the process's own by default.
        pins: Finds the engine build that a model was moved to, from memory.
        rerouted: Called with a model, the build that serves it, and the builds that do not know its architecture.
        advertised: The architectures that a fork's build knows besides; none for a mainstream one.
    """

    def __init__(
        self,
        *,
        layout: Layout,
        settings: Callable[[], Settings],
        models: Callable[[str], ModelRow | None],
        engines: Callable[[], Sequence[EngineRow]],
        machine: Callable[[], Machine] = probe_memory,
        clock: Callable[[], float] = time.monotonic,
        environ: Mapping[str, str] | None = None,
        pins: Callable[[str], LanePin | None] = lambda _: None,
        rerouted: Callable[[str, str, frozenset[str]], None] = lambda *_: None,
        advertised: Callable[[EngineRow], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._layout = layout
        self._models = models
        self._settings = settings
        self._accepted: dict[str, float] = {}
        self._planner = ModelPlanner(
            models=models,
            engines=engines,
            settings=settings,
            machine=machine,
            pins=pins,
            advertised=advertised,
            accepted=self._accepted.get,
            environ=environ,
        )
        self._shelf = BankShelf(layout.banks_dir, cap_bytes=lambda: settings().bank_cap_mb << 20)
        self._dispatcher = Dispatcher(
            planner=self._planner,
            launcher=ChildLauncher(layout, transport=lambda: settings().child_transport, shelf=self._shelf),
            limits=_limits(settings),
            clock=clock,
            banking=Banking(self._shelf),
            replicas=self._replicas,
            rerouted=rerouted,
        )
        self._hints = HintRounds(lambda: self._dispatcher.census, clock=clock, guessed=self._accepted.__setitem__)
        self._tasks: set[asyncio.Task[None]] = set()
        self._preloading = Preloading(self._dispatcher, started=self._spawn)

    async def start(self) -> tuple[Collected, ...]:
        """End what an earlier daemon left running, remove its stale files, and return what was ended.

        A process is touched only if its number, start time and command are those that were written down.
        """
        collected = await asyncio.to_thread(collect_orphans, self._layout)
        await asyncio.to_thread(self._shelf.sweep, self._models)
        return tuple(found for found in collected if found.ended)

    async def preload(self, wanted: Sequence[Wanted]) -> None:
        """Load models that nobody has asked for yet, one after the other; none of them makes another one go.

        Raises nothing: what fails is logged, and shown by :meth:`preloads`. May be cancelled.
        """
        await self._preloading.run(wanted)

    async def watch_hints(self) -> None:
        """Ask children each minute how well their caches do, until cancelled. Wakes none of them."""
        await self._hints.run()

    async def look_at_hints(self) -> None:
        """Do at once what :meth:`watch_hints` does each minute."""
        await self._hints.round()

    def preloads(self) -> tuple[Preload, ...]:
        """Return what became of each preload, in order."""
        return self._preloading.states()

    async def close(self, *, hurry: bool = False) -> None:
        """Refuse who waits, let requests finish for a while, stop every child; return when all are reaped.

        Args:
            hurry: Do not wait for requests, nor for children to end by themselves.
        """
        if hurry:
            self.hurry()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._dispatcher.close()

    def hurry(self) -> None:
        """Skip the waits of a close that is under way (a second Ctrl-C)."""
        self._dispatcher.hurry()

    def lend(self, model: str, ticket: Ticket) -> Coroutine[object, object, SlotLease]:
        """Return a lease on a child that is ready to serve ``model``, loading it if need be.

        Returns without suspending when a slot is free. Cancelling the call withdraws the request.

        Raises:
            LaneError: Any refusal: no engine, no room, a failed load, a full queue, a stop.
        """
        return self._dispatcher.lend(model, ticket)

    def instance_for(self, model: str, role: Role) -> str:
        """Return the name of the instance of ``model`` that does such work; the plain one's is the row's own.

        Raises:
            InvalidRequest: The settings keep its projector away, and it is to see.
        """
        row = self._models(model)
        if row is None:
            return model  # Whoever asks for it is told that there is none.
        return instance_for(row, role, self._settings().for_model(row.name))

    def _replicas(self, line: str) -> int:
        named = parse_instance(line)
        # Companions are few requests' business: one child each.
        return self._settings().for_model(named.model).replicas if named.role is Role.PLAIN else 1

    def waiting(self, model: str) -> WaitingView | None:
        """Return how far the model is for somebody who waits for it, or ``None`` when nobody does."""
        return self._dispatcher.waiting(model)

    def residents(self) -> tuple[ResidentView, ...]:
        """Return the children there are, in order of their start. Wakes none of them."""
        return self._dispatcher.residents()

    async def unload(self, model: str) -> bool:
        """Stop every child of the model after its requests have drained; return whether there was one."""
        return await self._dispatcher.unload(model)

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long the model stays after its last request: ``None`` for ever, 0 until the lease ends."""
        self._dispatcher.keep(model, seconds)

    async def explain(self, model: str) -> Profile:
        """Return what would be started for the model now, with the argument vector and the memory verdict.

        Raises:
            LaneError: What a request would be refused with.
        """
        return (await self._dispatcher.explain(model)).profile

    def refresh(self) -> None:
        """Settings or rows have changed: children whose arguments would be others now go when they are idle."""
        self._dispatcher.refresh()

    async def explanation(self, model: str) -> Mapping[str, object]:
        """Return the whole decision about a model as plain JSON values: its lanes, the plan, or the refusal.

        Raises:
            ModelNotFound: There is no such row.
            UnknownEngineKind: It is bound to an engine that is none.
        """
        limit, refused_by = await self._dispatcher.circumstances(model)
        return explanation_facts(await explain(self._planner, model, limit=limit, refused_by=refused_by))

    def _spawn(self, work: Coroutine[object, object, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def discard_banks(self, model: str) -> None:
        """Remove what was saved of conversations with a model that is gone."""
        await asyncio.to_thread(self._shelf.discard, model)

    def forget_lane(self, model: str) -> None:
        """Try every engine build again at the model's next load, those that did not know its architecture included."""
        self._dispatcher.forget_lane(model)

    def serving(self, tag: str) -> tuple[str, ...]:
        """Return the keys of the children that run on the engine build ``tag``."""
        return tuple(view.child for view in self.residents() if view.engine == tag and view.state != "failed")


def _limits(settings: Callable[[], Settings]) -> Callable[[], Limits]:
    """Return what gives the limits of the settings in force; they are asked for at each request, and change rarely."""
    known = settings()
    limits = limits_of(known)

    def current() -> Limits:
        nonlocal known, limits
        if (now := settings()) is not known:
            known, limits = now, limits_of(now)
        return limits

    return current


def limits_of(settings: Settings) -> Limits:
    """Return what the dispatcher reads of the settings."""
    return Limits(
        queue_limit=settings.queue_limit,
        drain_s=float(settings.drain_timeout_secs),
        grace_s=float(settings.stop_grace_secs),
        max_loaded=None if settings.max_loaded_models == "auto" else settings.max_loaded_models,
        header_timeout_s=float(settings.child_header_timeout_secs),
        session_keep_s=float(settings.session_keep_secs),
    )

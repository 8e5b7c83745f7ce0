"""Hosts, leases, catalogues and daemons that do as tests wish."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from blazar_gateway.ports import Endpoint, ModelCard, Resident, Waiting
from blazar_routing.errors import EngineUnreachable, LaneError
from blazar_routing.instances import Role, instance_name, model_of
from blazar_routing.ticket import Ticket


@dataclass
class PlainSettings:
    """Settings that are attributes."""

    host: str = "127.0.0.1"
    port: int = 11435
    allowed_origins: Sequence[str] = ()
    allowed_hosts: Sequence[str] = ()
    stream_ping_secs: float = 5
    child_header_timeout_secs: float = 120
    fetch_images: bool = True
    fetch_images_max_mb: int = 20
    fetch_images_timeout_secs: float = 20


_CARD = ModelCard(
    name="m",
    path="/weights/m.gguf",
    size_bytes=98_362_432,
    digest="b1" * 32,
    added_at=1_790_000_000,
    modified_at=1_780_000_000,
    format="gguf",
    architecture="llama",
    parameters=134_515_008,
    quantization="Q4_1",
    context_length=8192,
    capabilities=("completion", "tools"),
)


def card(name: str = "m", **changes: Any) -> ModelCard:
    """Return a model row's card; ``changes`` are its fields."""
    return replace(_CARD, name=name, path=f"/weights/{name}.gguf", **changes)


class FixedCatalogue:
    """Rows that are given once; ``name:latest`` and aliases are understood."""

    def __init__(self, *cards: ModelCard) -> None:
        self._cards = {card.name: card for card in cards}
        self._meant = {name: card for card in cards for name in (*card.aliases, card.name)}

    def find(self, name: str) -> ModelCard | None:
        return self._meant.get(name) or self._meant.get(name.removesuffix(":latest"))

    def near(self, name: str) -> tuple[str, ...]:
        return tuple(known for known in self._cards if known[:1] == name[:1])[:3]

    def cards(self) -> Sequence[ModelCard]:
        return tuple(self._cards.values())


@dataclass
class FakeLease:
    """A lease that remembers how it was treated."""

    model: str
    endpoint: Endpoint
    host: "ReadyHost"
    child: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: {"Authorization": "Bearer child-secret"})
    queue_s: float = 0.0
    load_s: float = 0.0
    releases: int = 0
    answers: int = 0
    drain_s: float = 0.0
    _callbacks: list[Callable[[LaneError], None]] = field(default_factory=list)
    _revoked: LaneError | None = None

    @property
    def ctx_tokens(self) -> int | None:
        """What the host's list says of the child."""
        return next((each.ctx_tokens for each in self.host.residents() if each.child == self.child), None)

    def on_revoke(self, callback: Callable[[LaneError], None]) -> None:
        self._callbacks.append(callback)
        if self._revoked is not None:
            callback(self._revoked)

    def revoke(self, error: LaneError) -> None:
        """Do what the host does before it stops a child that is in use."""
        self._revoked = error
        for callback in self._callbacks:
            callback(error)

    async def explain_failure(self, cause: BaseException | None) -> LaneError:
        if self.host.obituary is not None:
            return self.host.obituary
        reason = "it ended the answer too early" if cause is None else type(cause).__name__
        return EngineUnreachable(model=self.model, reason=reason)

    def answered(self) -> None:
        self.answers += 1

    def release(self) -> None:
        self.releases += 1
        self._callbacks.clear()
        if self.releases == 1:
            self.host.held -= 1


@dataclass
class ReadyHost:
    """Lends at once, as often as it is asked.

    Attributes:
        endpoint: Where its only child listens.
        obituary: What it says of a broken connection, ``None`` for a mere disconnect.
        leases: Every lease given.
        held: Leases not yet released.
        tickets: Every ticket presented.
        kept: Every ``keep`` call.
        unloaded: Every model told to go.
        resident: What ``residents`` returns.
        companions: The roles for which a model has an instance of its own.
    """

    endpoint: Endpoint
    obituary: LaneError | None = None
    leases: list[FakeLease] = field(default_factory=list)
    held: int = 0
    tickets: list[Ticket] = field(default_factory=list)
    kept: list[tuple[str, float | None]] = field(default_factory=list)
    unloaded: list[str] = field(default_factory=list)
    resident: list[Resident] = field(default_factory=list)
    companions: frozenset[Role] = frozenset()

    def instance_for(self, model: str, role: Role) -> str:
        return instance_name(model, role) if role in self.companions else model

    async def lend(self, model: str, ticket: Ticket) -> FakeLease:
        self.tickets.append(ticket)
        return self._grant(model)

    def _grant(self, model: str) -> FakeLease:
        lease = self._make(model)
        self._remember(lease)
        self.held += 1
        return lease

    def _remember(self, lease: FakeLease) -> None:
        self.leases.append(lease)

    def _make(self, model: str) -> FakeLease:
        return FakeLease(model=model_of(model), child=model, endpoint=self.endpoint, host=self)

    def waiting(self, model: str) -> Waiting | None:  # noqa: ARG002 - the port's form
        return None

    def residents(self) -> Sequence[Resident]:
        return tuple(self.resident)

    async def unload(self, model: str) -> bool:
        self.unloaded.append(model)
        return any(resident.model == model for resident in self.resident)

    def keep(self, model: str, seconds: float | None) -> None:
        self.kept.append((model, seconds))


@dataclass
class Progress:
    """How far a load has come."""

    state: str = "loading"
    ahead: int = 0
    fraction: float | None = None


@dataclass
class LoadingHost(ReadyHost):
    """Lends only once ``loaded`` is set; fails instead if ``failure`` is there by then."""

    loaded: asyncio.Event = field(default_factory=asyncio.Event)
    failure: LaneError | None = None
    progress: Progress = field(default_factory=Progress)
    waiters: int = 0

    @override
    async def lend(self, model: str, ticket: Ticket) -> FakeLease:
        self.tickets.append(ticket)
        self.waiters += 1
        try:
            await self.loaded.wait()
        finally:
            self.waiters -= 1
        if self.failure is not None:
            raise self.failure
        return self._grant(model)

    @override
    def waiting(self, model: str) -> Waiting | None:
        return self.progress if self.waiters else None


@dataclass
class RefusingHost(ReadyHost):
    """Lends nothing."""

    refusal: LaneError = field(default_factory=lambda: LaneError("no"))

    @override
    async def lend(self, model: str, ticket: Ticket) -> FakeLease:
        self.tickets.append(ticket)
        raise self.refusal


@dataclass
class HangingLease(FakeLease):
    """A lease on a child that may hang: it says whether the child moved, and takes a condemnation."""

    moves: bool = False
    asked: int = 0
    condemned: bool = False

    async def moved(self) -> bool:
        self.asked += 1
        return self.moves

    def condemn(self) -> None:
        self.condemned = True


@dataclass
class HangsThenRecovers(ReadyHost):
    """Lends a child that hangs ``hangs`` times, then one that is well; all at the same endpoint."""

    hangs: int = 1
    moves: bool = False

    @override
    def _make(self, model: str) -> FakeLease:
        moves = self.moves or len(self.leases) >= self.hangs
        return HangingLease(model=model_of(model), child=model, endpoint=self.endpoint, host=self, moves=moves)


@dataclass
class RecordingDaemon:
    """A daemon with a short log."""

    lines: list[bytes] = field(default_factory=lambda: [b"first\n", b"second\n"])
    stopped: int = 0
    refreshed: int = 0
    missing: LaneError | None = None
    follow_gate: asyncio.Event = field(default_factory=asyncio.Event)
    open_logs: int = 0

    def status(self) -> Mapping[str, object]:
        return {"version": "0.1.0"}

    async def log_lines(self, model: str | None, *, lines: int, follow: bool) -> AsyncIterator[bytes]:  # noqa: ARG002
        if self.missing is not None:
            raise self.missing
        self.open_logs += 1
        try:
            for line in self.lines[-lines:]:
                yield line
            if follow:
                await self.follow_gate.wait()
                yield b"third\n"
        finally:
            self.open_logs -= 1

    async def explain(self, model: str) -> Mapping[str, object]:
        return {"model": model, "error": None}

    async def refresh(self) -> None:
        self.refreshed += 1

    def shutdown(self) -> None:
        self.stopped += 1

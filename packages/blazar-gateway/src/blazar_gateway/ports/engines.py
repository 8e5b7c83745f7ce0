"""Whoever runs engines, and what is lent."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from blazar_routing.errors import LaneError
from blazar_routing.instances import Role
from blazar_routing.ticket import Ticket


class Endpoint(Protocol):
    """Where a child listens."""

    @property
    def base_url(self) -> str:
        """The scheme, host and port, without a slash at the end: ``http://127.0.0.1:41231``."""

    @property
    def socket_path(self) -> Path | None:
        """The unix socket to connect to, or ``None`` for TCP."""


class Lease(Protocol):
    """The right to use a child for one request; a leased child is never evicted.

    ``release`` is called exactly once or more, on every way out; the second call does nothing. The lease is
    held until the answer's last byte has left, also for a stream whose client reads slowly.
    """

    @property
    def model(self) -> str:
        """The model row's name, which is also the alias that the child reports."""

    @property
    def child(self) -> str:
        """The child's key: ``model``, ``model#2``, ``model@vision``."""

    @property
    def endpoint(self) -> Endpoint:
        """Where the child listens."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers that every request to the child carries (its secret)."""

    @property
    def ctx_tokens(self) -> int | None:
        """The context that one request can use on the child, in tokens, or ``None`` where it is not known."""

    @property
    def queue_s(self) -> float:
        """Seconds this request waited for its turn, loading included."""

    @property
    def load_s(self) -> float:
        """Seconds this request waited for the model to load, 0.0 when it was up."""

    @property
    def drain_s(self) -> float:
        """Seconds for which an answer that nobody waits for is read on; 0.0, as a rule, closes its connection at once.

        For engines that break when a request is dropped.
        """

    def on_revoke(self, callback: Callable[[LaneError], None]) -> None:
        """Call ``callback`` when the child is going to be stopped although the lease is held.

        The gateway then closes its connection to the child (an engine with a request in flight does not exit
        by itself) and tells its client the error given. Called at once if that has happened already.
        """

    async def explain_failure(self, cause: BaseException | None) -> LaneError:
        """Return why the connection to the child broke.

        Waits briefly for a dying process to be noticed, so that a death is told from a mere disconnect.
        """

    def answered(self) -> None:
        """Note that the child has served this request to its end; ``release`` follows."""

    def release(self) -> None:
        """Give the slot back."""


@runtime_checkable
class Watched(Protocol):
    """What a lease can do besides, when its host can tell a child that works silently from one that hangs.

    A lease that lacks these is never found to stall: silence alone proves nothing, a long prompt looks the same.
    """

    async def moved(self) -> bool:
        """Return whether the child got anywhere since the lease was given, or since this was last asked.

        The host looks at what the engine says of its slots, at its health and at its processor time. The answer
        comes within a few seconds, whatever state the child is in.
        """

    def condemn(self) -> None:
        """Have the child replaced: it took a request and shows no progress.

        Neither this lease nor a new one of the model uses that child any more. Other leases on it are revoked.
        The caller releases this lease as always.
        """


class Waiting(Protocol):
    """How far a request that waits has come, for the comment lines of a stream."""

    @property
    def state(self) -> str:
        """``queued`` or ``loading``."""

    @property
    def ahead(self) -> int:
        """Requests that go first, when queued."""

    @property
    def fraction(self) -> float | None:
        """0.0 to 1.0 of the load, where the engine reports it."""


class Resident(Protocol):
    """One child as listings show it."""

    @property
    def model(self) -> str: ...
    @property
    def child(self) -> str: ...
    @property
    def engine(self) -> str:
        """The engine build's tag."""

    @property
    def state(self) -> str:
        """``starting``, ``ready``, ``sleeping``, ``draining``, ``stopping`` or ``failed``."""

    @property
    def pid(self) -> int | None: ...
    @property
    def ctx_tokens(self) -> int | None:
        """The context one request can use, in tokens."""

    @property
    def slots(self) -> int | None: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def waiting(self) -> int: ...
    @property
    def memory_bytes(self) -> int:
        """Bytes the engine says it holds (weights, KV cache, buffers), all devices together."""

    @property
    def device_bytes(self) -> int:
        """The part of it on accelerators."""

    @property
    def estimate_bytes(self) -> int:
        """What was expected of ``memory_bytes`` before the load, 0 where nothing was."""

    @property
    def expires_in_s(self) -> float | None:
        """Seconds until it is unloaded if nobody asks, or ``None`` for never."""

    @property
    def load_fraction(self) -> float | None: ...
    @property
    def cache_hint(self) -> float | None:
        """Of the prompts' tokens of the last minutes, the share found in a cache; ``None`` where it is unknown."""

    @property
    def spec_accept(self) -> float | None:
        """Of the tokens guessed ahead, the share that was right; ``None`` where it is unknown."""

    @property
    def warnings(self) -> Sequence[str]: ...


class GatewaySettings(Protocol):
    """The settings that the gateway reads at each request, so that an edit holds at once.

    The same object is handed out until something changes: what is computed from it is kept as long as it lives.
    """

    @property
    def host(self) -> str:
        """The address listened on."""

    @property
    def port(self) -> int:
        """The port listened on."""

    @property
    def allowed_origins(self) -> Sequence[str]:
        """Web origins that may call besides those of this machine; ``*`` in one stands for any text."""

    @property
    def allowed_hosts(self) -> Sequence[str]:
        """Host names under which the gateway may be addressed besides its own."""

    @property
    def stream_ping_secs(self) -> float:
        """Seconds of silence after which a stream gets a comment line; 0 sends none."""

    @property
    def child_header_timeout_secs(self) -> float:
        """Seconds a child may show neither bytes nor progress before it is given up; 0 is for ever."""

    @property
    def fetch_images(self) -> bool:
        """Whether images that a chat gives by address are fetched."""

    @property
    def fetch_images_max_mb(self) -> int:
        """MiB that the fetched images of one chat may have together."""

    @property
    def fetch_images_timeout_secs(self) -> float:
        """Seconds within which all images of one chat must have been fetched."""


class ModelHost(Protocol):
    """Whoever runs the engines."""

    async def lend(self, model: str, ticket: Ticket) -> Lease:
        """Return a lease on a child that is ready to serve an instance of a model, loading it if need be.

        Returns without suspending when a slot is free. Cancelling the call withdraws the request.

        Raises:
            LaneError: Any refusal: no engine, no room, a failed load, a full queue, a stop.
        """

    def instance_for(self, model: str, role: Role) -> str:
        """Return the name of the instance of a model that does such work: what tickets, and the calls below, name.

        It may be the plain one, whose name is the row's own. Reads memory only.

        Raises:
            LaneError: The settings switch that work off for the model; the text says which.
        """

    def waiting(self, model: str) -> Waiting | None:
        """Return how far the model is for somebody who waits for it, or ``None`` when nobody does."""

    def residents(self) -> Sequence[Resident]:
        """Return the children there are, in order of their start. Wakes none of them."""

    async def unload(self, model: str) -> bool:
        """Stop every child of the model once its requests have drained; return whether there was one."""

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long an instance stays after its last request: ``None`` for ever, 0 until the lease ends."""

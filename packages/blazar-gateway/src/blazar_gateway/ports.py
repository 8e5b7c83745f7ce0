"""What the gateway needs of the rest of the daemon, in its own words.

Whoever runs engines fits :class:`ModelHost`; whoever knows the model rows fits :class:`Catalogue`; the daemon
itself fits :class:`Daemon`. They fit by shape and import nothing from here; ``blazar_cli.daemon`` alone hands
them over.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from blazar_gateway.request_rules import NO_RULES, RequestRules
from blazar_routing.errors import LaneError
from blazar_routing.instances import Role
from blazar_routing.ticket import Ticket
from blazar_store.types import KeptResponse, RowOverlay, UsageRow


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


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model row as the HTTP surface shows it.

    Attributes:
        name: The row's name.
        path: The first file.
        size_bytes: Of all files together.
        digest: 64 hex digits that identify the file's content or, where no hash was taken, its identity.
        added_at: Unix seconds.
        modified_at: Unix seconds of the weights' last change.
        format: ``gguf`` or ``safetensors``.
        architecture: As the file says, ``llama``.
        parameters: A count, or ``None``.
        quantization: A label, ``Q4_K_M``, or ``""``.
        context_length: Tokens the model was trained for, or ``None``.
        capabilities: Ollama's words: ``completion``, ``tools``, ``vision``, ``thinking``, ``embedding``, ``insert``.
        engine: The kind that serves it.
        template_readable: Whether its chat template could be read. If not, what ``capabilities`` leaves out is unknown.
        overlay: What it says beyond its files; some of it is added to requests.
        aliases: Further names under which clients may ask for it.
        rules: What its owner decides about requests.
        alias_of: In listings, the row that an alias means; ``""`` for a row.
    """

    name: str
    path: str
    size_bytes: int
    digest: str
    added_at: int
    modified_at: int
    format: str
    architecture: str
    parameters: int | None
    quantization: str
    context_length: int | None
    capabilities: tuple[str, ...] = ("completion",)
    engine: str = "llamacpp"
    template_readable: bool = True
    overlay: RowOverlay = field(default=RowOverlay(), hash=False)
    aliases: tuple[str, ...] = ()
    rules: RequestRules = field(default=NO_RULES, hash=False)
    alias_of: str = ""


class Catalogue(Protocol):
    """Whoever knows the model rows; answers from memory, without blocking."""

    def find(self, name: str) -> ModelCard | None:
        """Return the row that ``name`` means, or ``None``.

        Accepts the spellings clients use: ``name:latest``, ``model:tag`` for the row ``model-tag``. Never
        invents a mapping.
        """

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three row names that resemble ``name``."""

    def cards(self) -> Sequence[ModelCard]:
        """Return every row, newest first."""


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What ``/api/show`` tells of a row besides its card.

    Attributes:
        model_info: The file's metadata under its own keys (``llama.context_length``); long arrays are ``None``
            unless they were asked for.
        template: The chat template, or ``""``.
        parameters: Request defaults of the row, by Ollama's names.
        system: The row's system prompt, or ``""``.
        license: The licence's text, or ``""``.
        messages: Turns that every conversation begins with.
        projector_info: The projector's metadata, empty without one.
        modelfile: The row as a Modelfile, or ``""`` to have one written from the rest.
        parent: What the row was made from, or ``""``.
    """

    model_info: Mapping[str, object]
    template: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    system: str = ""
    license: str = ""
    messages: Sequence[Mapping[str, str]] = ()
    projector_info: Mapping[str, object] = field(default_factory=dict)
    modelfile: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A new row that is an existing one with other defaults; no weights are copied.

    Attributes:
        name: Of the new row.
        source: The existing row's name, or ``None`` when files are given.
        files: File name to ``sha256:…`` digest of what was uploaded.
        adapters: LoRA adapters, likewise.
        template: A chat template, or ``""`` for the source's; one in Go's language is kept to be shown.
        system: A system prompt, or ``""``.
        parameters: Request defaults, by Ollama's names.
        messages: Turns that every conversation begins with.
        license: The licence's text, or ``""``.
        quantize: The type to quantise to, or ``""``.
    """

    name: str
    source: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    system: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    messages: Sequence[Mapping[str, object]] = ()
    license: str = ""
    quantize: str = ""


class ModelRegistry(Protocol):
    """Whoever may change the model rows. Names are rows' own, resolved; what blocks runs in a thread."""

    async def details(self, name: str, *, verbose: bool) -> ModelDetails:
        """Return what the row's file says about itself.

        Raises:
            LaneError: The file cannot be read.
        """

    async def delete(self, name: str) -> None:
        """Remove a row, after its child has been unloaded; files that Blazar did not fetch stay.

        Raises:
            LaneError: It cannot be removed; the text says why.
        """

    async def copy(self, source: str, destination: str) -> None:
        """Give a row a second name, at no cost in bytes.

        Raises:
            LaneError: The name is taken or reserved.
        """

    async def create(self, overlay: Overlay) -> None:
        """Add an overlay row, or replace one of that name.

        Raises:
            LaneError: Something in it cannot be served; the text says what.
        """

    def has_blob(self, digest: str) -> bool:
        """Return whether a file with this digest (``sha256:…``) was uploaded."""

    async def add_blob(self, digest: str, pieces: AsyncIterator[bytes]) -> None:
        """Take an uploaded file, for a later :meth:`create`.

        Raises:
            LaneError: It has another digest, or this daemon takes no files.
        """


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key that somebody wants made; what is ``None`` or empty is not limited.

    Attributes:
        name: Checked.
        models: The rows it may use; empty means all, and the right to manage.
        limits: ``rpm``, ``tpm``, ``daily_tokens``, ``max_concurrent``, ``weight``; checked.
        max_priority: ``high``, ``normal`` or ``low``.
        expires: As ISO 8601.
    """

    name: str
    models: tuple[str, ...] = ()
    limits: Mapping[str, int] = field(default_factory=dict)
    max_priority: str | None = None
    expires: str | None = None


class KeyRegistry(Protocol):
    """Whoever may change the keys. A change holds when the call returns."""

    async def add(self, key: NewKey) -> str:
        """Make a key and return its secret, which is kept nowhere.

        Raises:
            LaneError: The name is taken, or a value is none.
        """

    async def remove(self, name: str) -> None:
        """Remove a key.

        Raises:
            LaneError: There is none of that name, or it is the last.
        """

    async def rotate(self, name: str) -> str:
        """Give a key another secret and return it; the old one opens nothing any more.

        Raises:
            LaneError: There is none of that name.
        """

    async def usage_since(self, day: str) -> Sequence[UsageRow]:
        """Return what was used on ``day`` (UTC, ``2027-01-31``) and after it, as far as it has been written."""


class PullState(Protocol):
    """A pull at one moment."""

    @property
    def reference(self) -> str:
        """What was asked for."""

    @property
    def phase(self) -> str:
        """``planning``, ``downloading``, ``success``, ``failed`` or ``cancelled``."""

    @property
    def name(self) -> str | None:
        """The row's name, once known."""

    @property
    def reason(self) -> str:
        """Why this variant was taken, or ``""``."""

    @property
    def digest(self) -> str:
        """64 hex digits of the model's first file, or ``""``."""

    @property
    def done_bytes(self) -> int:
        """Bytes that are there; never less than before."""

    @property
    def total_bytes(self) -> int:
        """Bytes in all, 0 until known."""

    @property
    def error(self) -> LaneError | None:
        """Why it failed, or ``None``."""

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""


class ModelPulls(Protocol):
    """Whoever fetches models by name."""

    def follow(self, reference: str) -> AsyncIterator[PullState]:
        """Begin a pull or join the one in progress, and yield its states to the end.

        Whoever stops listening does not stop the pull.
        """

    def states(self) -> Sequence[PullState]:
        """Return the pulls in progress and those that ended lately, oldest first."""

    def cancel(self, reference: str) -> bool:
        """Stop a pull; return whether there was one. What has arrived is kept."""


class ResponseMemory(Protocol):
    """Whoever remembers responses: for each key its own, for a limited time, up to a limited size.

    The oldest go first when room is needed; what has gone is as if it had never been. A response that is larger than
    the whole limit is not kept.
    """

    async def put(self, key: str, kept: KeptResponse) -> None:
        """Remember a response of ``key`` (``""`` on an open gateway), in the place of one with the same id.

        Raises:
            OSError: It cannot be kept: the disk is full.
        """

    async def get(self, key: str, response_id: str) -> KeptResponse | None:
        """Return a response of ``key``, or ``None``."""

    async def delete(self, key: str, response_id: str) -> bool:
        """Forget a response; return whether there was one."""

    async def list(self, key: str) -> Sequence[str]:
        """Return the ids of the responses of ``key``, newest first."""

    async def find_item(self, key: str, item_id: str) -> Mapping[str, object] | None:
        """Return an input or output item of any response of ``key``, or ``None``."""


class Daemon(Protocol):
    """The daemon as its own control calls see it."""

    def status(self) -> Mapping[str, object]:
        """Return what ``blazar status`` shows, as plain JSON values."""

    def log_lines(self, model: str | None, *, lines: int, follow: bool) -> AsyncIterator[bytes]:
        """Yield the last ``lines`` of the daemon's log (or a model's), then, if asked, what is added.

        Raises:
            LaneError: There is no such log.
        """

    async def explain(self, model: str) -> Mapping[str, object]:
        """Return what would be started for a row and why, as plain JSON values; its refusal is under ``error``.

        Raises:
            LaneError: There is no such row, or what it is bound to is no engine.
        """

    async def refresh(self) -> None:
        """Look at the rows and the settings now, and return once what has changed holds."""

    def shutdown(self) -> None:
        """Begin an orderly stop."""

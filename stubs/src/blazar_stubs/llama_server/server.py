"""The state of one serving process."""

from blazar_stubs.llama_server.console import Console
from blazar_stubs.llama_server.engine import Engine
from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.gguf_header import Header
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.prompts import Template
from blazar_stubs.llama_server.reactor import Reactor
from blazar_stubs.llama_server.record import Recorder
from blazar_stubs.llama_server.scripts import Playbook
from blazar_stubs.llama_server.settings import Settings, Shape

FRONTEND_PATHS = frozenset(["/", "/index.html", "/bundle.js", "/bundle.css", "/sw.js", "/manifest.webmanifest"])
PUBLIC_PATHS = FRONTEND_PATHS | {"/health", "/v1/health", "/models", "/v1/models"}


class Model:
    """A loaded model, with everything that serves it."""

    def __init__(self, header: Header, shape: Shape, engine: Engine, settings: Settings) -> None:
        self.header = header
        self.shape = shape
        self.engine = engine
        self.template = Template(settings.chat_template or header.text("tokenizer.chat_template"))
        kind = header.number("pooling_type", 0)
        self.pooling = settings.pooling or {1: "mean", 2: "cls", 3: "last", 4: "rank"}.get(kind, "none")
        self.adapters: list[Json] = [
            {"id": number, "path": path, "scale": 1.0} for number, path in enumerate(settings.adapters)
        ]


class Server:
    """Everything a route may need."""

    def __init__(
        self, reactor: Reactor, console: Console, settings: Settings, playbook: Playbook, recorder: Recorder
    ) -> None:
        self.reactor = reactor
        self.console = console
        self.settings = settings
        self.playbook = playbook
        self.recorder = recorder
        self.model: Model | None = None
        self.started_at = 0.0
        self.conversations: dict[str, bytearray] = {}

    @property
    def loaded(self) -> Model:
        """The model; only routes ask, and none runs before it is there."""
        assert self.model is not None
        return self.model

    def may_enter(self, exchange: Exchange) -> bool:
        """Whether the request shows a key, where one is needed (llamacpp.md, section 2.2)."""
        request = exchange.request
        if not self.settings.api_keys or request.path in PUBLIC_PATHS:
            return True
        # An Authorization header, unless empty, keeps X-Api-Key from being looked at; the prefix is exact.
        given = request.header("authorization") or request.header("x-api-key")
        if given.removeprefix("Bearer ") in self.settings.api_keys:
            return True
        self.console.server("operator()", "unauthorized: Invalid API Key", letter="W")
        return False

"""A process's life: bind, load, serve, stop (llamacpp.md, sections 1.2 to 1.4, 2.1)."""

import os
import signal
import socket
import time
from types import FrameType

from blazar_stubs.llama_server import dispatch, wire
from blazar_stubs.llama_server.connection import Connection
from blazar_stubs.llama_server.console import Console
from blazar_stubs.llama_server.control import PREFIX
from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.loading import Failed, Loader, announce, crash_now, figures_of, say_breakdown
from blazar_stubs.llama_server.reactor import Reactor
from blazar_stubs.llama_server.record import Recorder
from blazar_stubs.llama_server.scripts import Playbook
from blazar_stubs.llama_server.server import Server
from blazar_stubs.llama_server.settings import Settings

_BACKLOG = 512


class Process:
    """One serving process."""

    def __init__(self, settings: Settings, playbook: Playbook, recorder: Recorder) -> None:
        self._reactor = Reactor()
        self._console = Console(settings.verbosity)
        self._settings = settings
        self._playbook = playbook
        self._recorder = recorder
        self._server = Server(self._reactor, self._console, settings, playbook, recorder)
        self._connections: set[Connection] = set()
        self._streaming: set[Connection] = set()
        self._listener: socket.socket | None = None
        self._signals = 0
        self._code = 0

    def run(self) -> int:
        """Serve until told to stop; returns the exit code."""
        knobs, settings, console = self._playbook.knobs, self._settings, self._console
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        # Until the model is loaded both kill at once, as upstream installs its handlers after that.
        stubborn = knobs.get("ignore_sigterm", False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN if stubborn else signal.SIG_DFL)
        announce(console, settings)
        crash = knobs.get("crash")
        if crash is not None and crash.get("before_bind", False):
            crash_now(crash, self._recorder)
        time.sleep(knobs.get("bind_delay_s", 0.0))
        self._listener = _bound(settings)
        if self._listener is None:
            port = 8080 if settings.listens_on_socket else settings.port
            text = f"couldn't bind HTTP server socket, hostname: {settings.host}, port: {port}"
            console.server("start", text, letter="E")
            return self._farewell(1, "exiting due to HTTP server error")
        self._recorder.event("listening", address=self._address)
        self._reactor.watch(self._listener, reader=self._accept)
        self._server.started_at = time.time()
        self._reactor.spawn(self._load())
        self._reactor.run()
        return self._code

    @property
    def _address(self) -> str:
        if self._settings.listens_on_socket:
            return f"unix://{self._settings.host}"
        port = self._listener.getsockname()[1] if self._listener is not None else self._settings.port
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"http://{host}:{port}"

    async def _load(self) -> None:
        loader = Loader(self._reactor, self._console, self._settings, self._playbook, self._recorder)
        try:
            model = await loader.load()
        except Failed:
            self._code = self._farewell(1, "exiting due to model loading error")
            self._reactor.stop()
            return
        self._server.model = model
        # Before anything says so: whoever has seen that it is ready may stop it at once.
        if not self._playbook.knobs.get("ignore_sigterm", False):
            signal.set_wakeup_fd(self._reactor.wakeup_fd, warn_on_full_buffer=False)
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, self._signalled)
        self._console.server("llama_server", "model loaded")
        self._console.server("llama_server", f"listening on {self._address}")
        self._console.server("update_slots", "all slots are idle", verbosity=4)
        self._recorder.event("ready", address=self._address)
        model.engine.watch_idleness()

    # connections ------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        if self._listener is None:
            return
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        knobs = self._playbook.knobs
        connection = Connection(
            self._reactor,
            sock,
            self._begin,
            keep_alive_s=knobs.get("keep_alive_s", 5.0),
            keep_alive_requests=knobs.get("keep_alive_requests", 100),
        )
        self._connections.add(connection)
        connection.on_closed = self._forget

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._streaming.discard(connection)

    def _begin(self, connection: Connection, request: wire.Request) -> None:
        self._reactor.spawn(self._answer(connection, request))

    async def _answer(self, connection: Connection, request: wire.Request) -> None:
        noted = not request.path.startswith(PREFIX)
        if noted:
            entry = self._recorder.received(request.method, request.target, request.headers, request.body)
        else:
            entry = {"id": -1, "first_byte_at": None, "client_closed_at": None, "finished_at": None}
        exchange = Exchange(self._reactor, connection, request, self._recorder, entry)
        if noted:
            connection.client_left.on_set(lambda: self._left(exchange))
        if b'"stream":true' in request.body.replace(b" ", b""):
            self._streaming.add(connection)
        await dispatch.answer(self._server, exchange)
        self._streaming.discard(connection)
        if noted:
            self._recorder.finished(entry)
        connection.answered(close=request.wants_close)

    def _left(self, exchange: Exchange) -> None:
        if exchange.entry["finished_at"] is None:
            self._recorder.client_closed(exchange.entry)

    # stopping ---------------------------------------------------------------------------------------------

    def _signalled(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - signal's signature
        self._signals += 1
        if self._signals > 1:
            os.write(2, b"Received second interrupt, terminating immediately.\n")
            self._recorder.event("exit", code=1)
            os._exit(1)
        self._reactor.spawn(self._stop())

    async def _stop(self) -> None:
        """Stop listening, then wait for whoever is being answered: upstream does not cut them off.

        A stream ends when its writer looks up, which it does at the ping interval; a plain answer is waited for
        until its client leaves.
        """
        if self._listener is not None:
            self._reactor.watch(self._listener)
            self._listener.close()
            self._listener = None
        self._console.server("operator()", "operator(): cleaning up before exit...")
        for connection in list(self._connections):
            connection.freeze()
        started_s = time.monotonic()
        ping_s = self._settings.ping_interval_s
        while True:
            busy = {each for each in self._connections if each.is_busy and not each.client_left.is_set}
            stuck = busy - self._streaming
            patient = time.monotonic() - started_s < ping_s + 1 if ping_s > 0 else True
            if not stuck and not (busy and patient):
                break
            await self._reactor.sleep(0.02)
        model = self._server.model
        if model is not None:
            memory = self._playbook.knobs.get("memory", {})
            say_breakdown(self._console, figures_of(model.shape, memory, self._settings))
        self._code = self._playbook.knobs.get("term_exit_code", 0)
        self._recorder.event("exit", code=self._code)
        self._reactor.stop()

    def _farewell(self, code: int, text: str) -> int:
        self._console.server("operator()", "operator(): cleaning up before exit...")
        self._console.server("llama_server", text, letter="E")
        self._recorder.event("exit", code=code)
        return code


def _bound(settings: Settings) -> socket.socket | None:
    """A listening socket, or None. UNIX sockets are neither unlinked before nor after."""
    try:
        if settings.listens_on_socket:
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listener.bind(settings.host)
        else:
            family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((settings.host, settings.port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError):
        return None
    listener.setblocking(False)
    return listener

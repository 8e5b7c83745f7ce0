"""The daemon, wired: the only file that sees gateway and supervisor both.

A start, in order: the data directory is locked, so that nobody else writes there; the log
is rotated and opened; the address is bound, so that a conflict is found before anything is loaded; the rows are
read; engines left over by a daemon that was killed are collected; the application is served on TCP and on the
control socket. A stop runs backwards and is bounded: no new connections, requests in flight get their time, engines
are stopped, the sockets go, the lock is released.
"""

import asyncio
import contextlib
import logging
import os
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import click
from aiohttp import web

from blazar_cli.address import Address
from blazar_cli.catalogue import LiveCatalogue, loaded_as
from blazar_cli.errors import CliError
from blazar_cli.keys import KeyFile, keys_in_force
from blazar_cli.live_keys import LiveKeys
from blazar_cli.live_rows import LiveRows
from blazar_cli.ollama_env import EnvDefault, as_settings, describe_environment, read_ollama_defaults, unused_warning
from blazar_cli.pulling import pull_and_register
from blazar_cli.serving.banner import banner, open_door_warning
from blazar_cli.serving.daemon_log import daemon_logging, rotate_log, set_log_level
from blazar_cli.serving.garbage import settle_for_serving
from blazar_cli.serving.lane_memory import LaneMemory
from blazar_cli.serving.listeners import close_all, open_control_socket, open_tcp_sockets
from blazar_cli.serving.loop_lag import LoopLag
from blazar_cli.serving.state import DaemonState
from blazar_cli.serving.tls import Tls, choose_tls
from blazar_cli.serving.usage_flush import UsageFlush
from blazar_cli.serving.watch import EditWatch
from blazar_gateway import create_app, create_runner
from blazar_gateway.access.admission import Admission
from blazar_gateway.access.keyring import Key
from blazar_gateway.context import GATEWAY
from blazar_gateway.routes.pulls import PULLS
from blazar_routing.ticket import Priority
from blazar_store.directories import Directories
from blazar_store.env_keys import VARIABLE, parse_env_keys
from blazar_store.errors import StoreError
from blazar_store.layout import Layout
from blazar_store.lock import DataDirLock, acquire_lock
from blazar_store.responses import ResponseThread
from blazar_store.settings import KeyEntry, Settings
from blazar_store.settings_watch import SettingsWatch
from blazar_store.store import Snapshot, Store
from blazar_store.writer import StoreThread
from blazar_supervisor import EngineHost, Wanted
from blazar_supervisor.pulls.jobs import PullJobs, Telling, Work

_log = logging.getLogger(__name__)
_NOTICE_S = 30.0
_LOOK_S = 0.05
_CONNECTIONS_END_S = 3.0
"""After the engines have stopped, what a connection may still take to say so to its client."""


def run_daemon(
    directories: Directories,
    layout: Layout,
    address: Address,
    *,
    tls_cert: str | None = None,
    tls_key: str | None = None,
) -> None:
    """Serve until SIGTERM, SIGINT or ``blazar stop --daemon``. Blocks.

    Args:
        directories: Where configuration and data are.
        layout: Of the data directory.
        address: Where to listen.
        tls_cert: A certificate to serve https with, in the place of the configured one.
        tls_key: Its key.

    Raises:
        TlsIncomplete: There is a certificate without its key, or the other way round.
        TlsUnusable: They cannot be used.
        BindConflict: Another program has the address.
        BindRefused: The address is not one that can be listened on.
        StoreError: The configuration is invalid, the data directory in use or unusable.
    """
    environment = read_ollama_defaults(os.environ)
    settings = SettingsWatch(directories.config_file, below=as_settings(environment))
    files = choose_tls(
        cert_flag=tls_cert,
        key_flag=tls_key,
        cert_setting=settings.settings.tls_cert,
        key_setting=settings.settings.tls_key,
    )
    tls = None if files is None else Tls(files)
    address = replace(address, scheme="http" if tls is None else "https")
    env_keys = parse_env_keys(os.environ.get(VARIABLE, ""))
    layout.prepare()
    with acquire_lock(layout, pid=os.getpid(), started_at=time.time()) as lock:
        rotate_log(layout.daemon_log)
        with daemon_logging(layout.daemon_log, level=settings.settings.log_level):
            try:
                with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                    runner.run(_Daemon(layout, settings, address, lock, env_keys, tls, environment).run())
            except (CliError, StoreError) as error:
                _log.error("the daemon did not start: %s", error)
                raise
            finally:
                layout.discard_short_dir()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@dataclass(frozen=True, slots=True)
class _Daemon:
    layout: Layout
    settings: SettingsWatch
    address: Address
    lock: DataDirLock
    env_keys: tuple[KeyEntry, ...]
    tls: Tls | None
    environment: tuple[EnvDefault, ...]

    async def run(self) -> None:
        listeners = open_tcp_sockets(self.address)
        address = replace(self.address, port=listeners[0].getsockname()[1])
        try:
            async with AsyncExitStack() as stack:
                await self._serve(stack, address, listeners)
        finally:
            close_all(listeners)

    async def _serve(self, stack: AsyncExitStack, address: Address, listeners: list[socket.socket]) -> None:
        _raise_descriptor_limit()
        store = await asyncio.to_thread(StoreThread, self.layout)
        stack.push_async_callback(asyncio.to_thread, store.close)
        catalogue = LiveCatalogue(await asyncio.wrap_future(store.submit(_first_look)), self.settings.settings)
        host = EngineHost(
            layout=self.layout,
            settings=lambda: self.settings.settings,
            models=catalogue.find_row,
            engines=catalogue.engines,
            pins=catalogue.find_pin,
            rerouted=LaneMemory(store, catalogue).remember,
        )
        rows = _Rows(catalogue, host)
        admission = Admission(_keyring(self.settings.settings, self.env_keys))
        usage = UsageFlush(admission.ledger, store)
        await usage.restore()
        admission.restore_today()
        stack.push_async_callback(usage.flush)
        watch = EditWatch(
            store=store,
            settings=self.settings,
            on_rows=rows.replace,
            on_settings=partial(
                _apply, catalogue=catalogue, host=host, admission=admission, env_keys=self.env_keys, address=address
            ),
        )
        keys = LiveKeys(KeyFile(self.settings.path, self.env_keys), reload=watch.look, store=store)
        lag = LoopLag()
        state = DaemonState(
            address=address,
            layout=self.layout,
            config_file=self.settings.path,
            catalogue=catalogue,
            lag=lag,
            troubles=watch,
            residents=host.residents,
            explanation=host.explanation,
            preloads=host.preloads,
            environment=lambda: describe_environment(self.environment, self.settings.settings),
        )
        _handle_signals(state, host, watch)
        for found in await host.start():
            _log.warning("left over from an earlier daemon: %s", found)
        stack.push_async_callback(host.close)
        preload = host.preload(_wanted(self.settings.settings, catalogue))
        for work in (lag.run(), watch.run(), rows.unload_outdated(), usage.run(), host.watch_hints(), preload):
            await stack.enter_async_context(_background(work))
        if self.tls is not None:
            await stack.enter_async_context(_background(self.tls.watch()))
        memory = await self._response_memory(stack)
        pulls = PullJobs(_pulling(self.layout, self.settings, catalogue, watch))
        stack.push_async_callback(pulls.close)
        make_app = partial(
            create_app,
            host=host,
            catalogue=catalogue,
            daemon=state,
            settings=lambda: self.settings.settings,
            admission=admission,
            key_registry=keys,
            registry=LiveRows(self.layout, catalogue, reload=watch.look),
            memory=memory,
        )
        public, private = make_app(control=False), make_app(control=True)
        # One set of counters: what is asked on the control socket is about the whole daemon.
        private[GATEWAY].traffic = public[GATEWAY].traffic
        private[GATEWAY].telemetry = public[GATEWAY].telemetry
        private[GATEWAY].flights = public[GATEWAY].flights
        public[PULLS] = private[PULLS] = pulls
        control = open_control_socket(self.layout.control_socket)
        stack.callback(self.layout.control_socket.unlink, missing_ok=True)
        async with _served(private, [control]), _served(public, listeners, self.tls) as sites:
            settle_for_serving()
            self._announce(address, catalogue, guarded=bool(admission.keyring))
            await state.stopping.wait()
            _log.info("stopping: no new connections; requests in flight may finish")
            for site in sites:
                await site.stop()
            await host.close()
        _log.info("stopped")

    async def _response_memory(self, stack: AsyncExitStack) -> ResponseThread | None:
        """Open what the Responses API remembers, or nothing where the settings keep no answers."""
        settings = self.settings.settings
        if not settings.responses_keep_days:
            return None
        memory = await asyncio.to_thread(
            ResponseThread,
            self.layout.responses_database,
            cap_bytes=settings.responses_cap_mb << 20,
            retention_s=settings.responses_keep_days * 86_400.0,
            now=time.time,
        )
        stack.push_async_callback(asyncio.to_thread, memory.close)
        return memory

    def _announce(self, address: Address, catalogue: LiveCatalogue, *, guarded: bool) -> None:
        self.lock.announce(address.base_url)
        _log.info("listening on %s and %s", address.base_url, self.layout.control_socket)
        open_door = "" if address.is_loopback or guarded else open_door_warning(address)
        for warning in filter(None, (unused_warning(os.environ), open_door)):
            _log.warning("%s", warning)
            click.echo(warning, err=True)
        click.echo(
            banner(
                address,
                models=catalogue.rows(),
                engines=catalogue.engines(),
                log=self.layout.daemon_log,
                control_socket=self.layout.control_socket,
            )
        )


@asynccontextmanager
async def _served(
    app: web.Application, listeners: list[socket.socket], tls: Tls | None = None
) -> AsyncIterator[tuple[web.SockSite, ...]]:
    runner = create_runner(app)
    await runner.setup()
    context = None if tls is None else tls.context
    try:
        sites = tuple(web.SockSite(runner, listener, ssl_context=context) for listener in listeners)
        for site in sites:
            await site.start()
        yield sites
    finally:
        # The engines are gone by now, so handlers end by themselves, unless a client does not read.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CONNECTIONS_END_S):
                await runner.cleanup()


def _pulling(layout: Layout, settings: SettingsWatch, catalogue: LiveCatalogue, watch: EditWatch) -> Work:
    """Return what does a pull, to the moment when the new row can be asked for."""

    async def pull(reference: str, telling: Telling) -> str:
        row = await pull_and_register(layout, lambda: settings.settings, reference, telling)
        async with asyncio.timeout(_NOTICE_S):
            while catalogue.find_row(row.name) is None:
                await watch.look()
                await asyncio.sleep(_LOOK_S)
        return row.name

    return pull


_REMOVED = "its row was removed"


class _Rows:
    """What follows from a change of the rows: new answers, and no engine for a model that is gone."""

    def __init__(self, catalogue: LiveCatalogue, host: EngineHost) -> None:
        self._catalogue = catalogue
        self._host = host
        self._outdated: asyncio.Queue[tuple[str, str]] = asyncio.Queue()

    def replace(self, snapshot: Snapshot) -> None:
        """Take new rows."""
        former = {row.name: loaded_as(row) for row in self._catalogue.rows()}
        moved = {pin.model for pin in self._catalogue.pins()}
        self._catalogue.replace(snapshot)
        self._host.refresh()
        for model in moved - {pin.model for pin in snapshot.pins}:
            self._host.forget_lane(model)
        names = {row.name: loaded_as(row) for row in snapshot.models}
        for model in former.keys() - names.keys():
            self._outdated.put_nowait((model, _REMOVED))
        for model in dict.fromkeys(resident.model for resident in self._host.residents()):
            if model not in names and model not in former:
                self._outdated.put_nowait((model, _REMOVED))
            elif model in names and names[model] != former.get(model, names[model]):
                self._outdated.put_nowait((model, "its row has other files or another overlay now"))

    async def unload_outdated(self) -> None:
        """Unload, until cancelled, what is loaded although its row was removed or would be loaded differently now."""
        while True:
            model, why = await self._outdated.get()
            if await self._host.unload(model):
                _log.info("unloaded %s: %s", model, why)
            if why == _REMOVED:
                await self._host.discard_banks(model)


@asynccontextmanager
async def _background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    task.add_done_callback(_report_end)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])


def _report_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.critical("a part of the daemon ended; it goes on without: please restart it", exc_info=error)


def _first_look(store: Store) -> Snapshot:
    for tag in store.heal_engine_paths():
        _log.info("engine %s: its path is now stored relative to the data directory", tag)
    for tag in store.heal_active_engines():
        _log.warning("no engine of its kind was active; %s is now", tag)
    return store.snapshot()


def _apply(
    settings: Settings,
    *,
    catalogue: LiveCatalogue,
    host: EngineHost,
    admission: Admission,
    env_keys: tuple[KeyEntry, ...],
    address: Address,
) -> None:
    # Everything else is read where it is used; the level is the logging module's own state.
    set_log_level(settings.log_level)
    catalogue.configure(settings)
    host.refresh()
    guarded = bool(admission.keyring)
    admission.replace_keys(_keyring(settings, env_keys))
    if guarded and not admission.keyring:
        _log.warning("the last key has gone from the configuration: no key is asked for any more")
        if not address.is_loopback:
            _log.warning("%s", open_door_warning(address))


def _keyring(settings: Settings, env_keys: tuple[KeyEntry, ...]) -> list[Key]:
    """Return the keys as the gateway knows them: hashes, no secrets."""
    return [
        Key(
            name=entry.name,
            hash=entry.secret_hash,
            models=entry.models,
            rpm=entry.rpm,
            tpm=entry.tpm,
            daily_tokens=entry.daily_tokens,
            max_concurrent=entry.max_concurrent,
            weight=entry.weight,
            max_priority=Priority[entry.max_priority.upper()],
            expires_at=None if entry.expires is None else entry.expires.timestamp(),
        )
        for entry in keys_in_force(settings, env_keys)
    ]


def _wanted(settings: Settings, catalogue: LiveCatalogue) -> list[Wanted]:
    """Return what to preload. A name that no row has is tried too: that it fails is what its owner needs to hear."""
    wanted = []
    for entry in settings.preload:
        card = catalogue.find(entry.model)
        seconds = entry.keep_alive_secs
        wanted.append(
            Wanted(
                model=entry.model if card is None else card.name,
                keep_s=None if seconds is None or seconds < 0 else float(seconds),
                own_keep=seconds is None,
            )
        )
    return wanted


def _handle_signals(state: DaemonState, host: EngineHost, watch: EditWatch) -> None:
    loop = asyncio.get_running_loop()

    def stop(name: str) -> None:
        if state.stopping.is_set():
            _log.warning("%s again: not waiting for requests any more", name)
            host.hurry()
            return
        _log.info("%s received", name)
        state.shutdown()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number.name)
    loop.add_signal_handler(signal.SIGHUP, watch.wake)


def _raise_descriptor_limit() -> None:
    """Allow as many connections as the system lets us: each stream needs two descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # macOS reports "unlimited" and refuses it; 10,240 is what it takes.
    wanted = hard if hard != resource.RLIM_INFINITY else 10_240
    if soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))

"""The application on a real socket, and the check that it gave everything back."""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from blazar_gateway.access.admission import Admission
from blazar_gateway.access.keyring import Key
from blazar_gateway.app import create_app, create_runner
from blazar_gateway.bodies import MAX_BODY_BYTES
from blazar_gateway.context import GATEWAY, Gateway
from blazar_gateway.image_fetch import ImageFetcher
from blazar_gateway.ports import KeyRegistry, ModelHost, ModelRegistry, ResponseMemory
from blazar_gateway.testing.conditions import until
from blazar_gateway.testing.neighbours import FixedCatalogue, PlainSettings, ReadyHost, RecordingDaemon, card


@dataclass(frozen=True, slots=True)
class Served:
    """A gateway that listens.

    Attributes:
        port: On 127.0.0.1.
        gateway: Its insides.
    """

    port: int
    gateway: Gateway

    async def at_rest(self, *, deadline_s: float = 30.0) -> None:
        """Wait until nobody is being served and every lease is back; fail when that does not happen.

        Raises:
            AssertionError: Something is still held after the deadline, or a lease came back more than once.
        """

        def rests() -> bool:
            held = self._held() or self._running() or len(self.gateway.flights) or self.gateway.flights.following
            return not (any(self.gateway.traffic.gauges().values()) or held)

        try:
            await until(rests, deadline_s=deadline_s)
        except TimeoutError:
            raise AssertionError(f"still held: {self.gateway.traffic.gauges()}, {self._held()} leases") from None
        if isinstance(self.gateway.host, ReadyHost):
            assert [lease.releases for lease in self.gateway.host.leases] == [1] * len(self.gateway.host.leases)

    def _running(self) -> int:
        admission = self.gateway.admission
        return sum(admission.quotas.running(key.name) for key in admission.keyring.keys)

    def _held(self) -> int:
        return self.gateway.host.held if isinstance(self.gateway.host, ReadyHost) else 0


@contextlib.asynccontextmanager
async def serve(
    host: ModelHost,
    *,
    catalogue: FixedCatalogue | None = None,
    daemon: RecordingDaemon | None = None,
    settings: PlainSettings | None = None,
    control: bool = False,
    max_body_bytes: int = MAX_BODY_BYTES,
    registry: ModelRegistry | None = None,
    memory: ResponseMemory | None = None,
    keys: Sequence[Key] = (),
    now: Callable[[], float] = time.time,
    key_registry: KeyRegistry | None = None,
    images: ImageFetcher | None = None,
) -> AsyncIterator[Served]:
    """Serve the application in front of ``host`` until the context ends; then check that it is at rest."""
    plain = settings or PlainSettings()
    app = create_app(
        host=host,
        catalogue=catalogue or FixedCatalogue(card()),
        daemon=daemon or RecordingDaemon(),
        settings=lambda: plain,
        control=control,
        max_body_bytes=max_body_bytes,
        registry=registry,
        memory=memory,
        admission=Admission(keys, now=now),
        key_registry=key_registry,
        images=images,
    )
    runner = create_runner(app, drain_s=1.0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    served = Served(runner.addresses[0][1], app[GATEWAY])
    try:
        yield served
        await served.at_rest()
    finally:
        await runner.cleanup()

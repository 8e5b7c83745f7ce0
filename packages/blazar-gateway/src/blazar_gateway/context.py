"""What every handler needs, under one typed key of the application."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from blazar_gateway.abandoned import Abandoned
from blazar_gateway.access.admission import Admission
from blazar_gateway.access.keyring import Key
from blazar_gateway.children import Children
from blazar_gateway.image_fetch import ImageFetcher
from blazar_gateway.origins import OriginPolicy
from blazar_gateway.ports import (
    Catalogue,
    Daemon,
    GatewaySettings,
    KeyRegistry,
    ModelHost,
    ModelRegistry,
    ResponseMemory,
)
from blazar_gateway.singleflight import Flights
from blazar_gateway.telemetry import Telemetry
from blazar_gateway.traffic import Traffic


@dataclass(slots=True)
class Gateway:
    """The gateway's neighbours, and its own state.

    Attributes:
        host: Runs the engines.
        catalogue: Knows the models.
        daemon: Answers control calls.
        settings: Returns the settings in force.
        control: Whether this is the control socket, whose caller owns the daemon.
        max_body_bytes: The most a request body may hold, decompressed.
        children: Connections to engines.
        traffic: What is in hand.
        admission: The keys, and what they have used.
        telemetry: What was measured.
        images: Fetches images that chats give by address.
        abandoned: Answers that are read away.
        flights: Chats that several ask for at once.
        key_registry: May change the keys, or ``None`` where nobody may over HTTP.
        memory: Remembers responses, or ``None`` where that is switched off.
        registry: May change the model rows, or ``None`` where nobody may over HTTP.
    """

    host: ModelHost
    catalogue: Catalogue
    daemon: Daemon
    settings: Callable[[], GatewaySettings]
    control: bool
    max_body_bytes: int
    children: Children = field(default_factory=Children)
    traffic: Traffic = field(default_factory=Traffic)
    admission: Admission = field(default_factory=Admission)
    telemetry: Telemetry = field(default_factory=Telemetry)
    images: ImageFetcher = field(default_factory=ImageFetcher)
    key_registry: KeyRegistry | None = None
    abandoned: Abandoned = field(default_factory=Abandoned)
    flights: Flights[Any] = field(default_factory=Flights)
    registry: ModelRegistry | None = None
    memory: ResponseMemory | None = None
    _policy: tuple[GatewaySettings, OriginPolicy] | None = None

    def origin_policy(self) -> OriginPolicy:
        """Return who may call, computed anew when the settings have changed."""
        settings = self.settings()
        if self._policy is None or self._policy[0] is not settings:
            policy = OriginPolicy(
                allowed_origins=settings.allowed_origins,
                allowed_hosts=settings.allowed_hosts,
                bind_host=settings.host,
            )
            self._policy = (settings, policy)
        return self._policy[1]


GATEWAY = web.AppKey("gateway", Gateway)
REQUEST_ID = web.RequestKey("request_id", str)
KEY = web.RequestKey("key", Key)
"""The key that a request was let in with; absent on an open gateway and for the owner."""
METERED = web.RequestKey("metered", bool)
"""Present where the request is work for an engine."""
BEGAN_S = web.RequestKey("began_s", float)
"""When the request's head was there, on the monotonic clock."""
PAGE_ORIGIN = web.RequestKey("page_origin", str)
"""The origin of the web page that calls, once it has been found to be allowed."""

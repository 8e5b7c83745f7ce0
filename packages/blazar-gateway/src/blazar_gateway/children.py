"""Connections to engines: pooled, never decompressing, and closed at once when a client leaves.

Nothing of the client's request but its body reaches a child. Its ``Authorization`` would be taken for the child's own
secret, and llama-server keeps generating for whoever sends ``X-Conversation-Id``, also after the connection is closed.
"""

import io
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.payload import BytesPayload
from typing_extensions import override
from yarl import URL

from blazar_gateway.joined_reads import join_reads
from blazar_gateway.ports import Endpoint, Lease
from blazar_gateway.quick_sends import request_class

KEEPALIVE_S = 3.0
"""Seconds an idle connection is kept; llama-server closes its end after 5 (``Keep-Alive: timeout=5``)."""

CONNECT_TIMEOUT_S = 5.0
"""Seconds for connecting. A child listens on this machine; when it is up, it accepts at once."""

_LARGE_BODY_BYTES = 1 << 20
"""From here on aiohttp wants a body as a file, so that writing it does not hold up the loop."""

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "User-Agent": "blazar-gateway",
}

_opened: ContextVar[bool] = ContextVar("connection opened for this request", default=False)


class _TcpConnector(aiohttp.TCPConnector):
    """Tells a request whether its connection is new."""

    @override
    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        _opened.set(True)
        return await super()._create_connection(req, traces, timeout)


class _UnixConnector(aiohttp.UnixConnector):
    """Tells a request whether its connection is new."""

    @override
    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        _opened.set(True)
        return await super()._create_connection(req, traces, timeout)


class Children:
    """The client sessions: one for every child on TCP, one for each unix socket."""

    def __init__(self) -> None:
        self._tcp: aiohttp.ClientSession | None = None
        self._unix: dict[Path, aiohttp.ClientSession] = {}

    async def post(self, lease: Lease, path: str, body: bytes) -> aiohttp.ClientResponse:
        """Send ``body`` to ``path`` on the lease's child; return its answer once the headers are there.

        The caller closes the answer; that also ends what the child is doing for it. A pooled connection that the
        child closed while the request was on its way is replaced once, provided that nothing was received.

        Raises:
            aiohttp.ClientError: The child cannot be reached, or the connection broke before the headers came.
        """
        _opened.set(False)
        try:
            answer = await self._send(lease, path, body)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if _opened.get() or not _nothing_received(error):
                raise
            answer = await self._send(lease, path, body)
        join_reads(answer.content)
        return answer

    async def _send(self, lease: Lease, path: str, body: bytes) -> aiohttp.ClientResponse:
        endpoint = lease.endpoint
        url = _url(endpoint.base_url, path)
        return await self._session(endpoint).post(
            url, data=_payload(body), headers=lease.headers, allow_redirects=False
        )

    def _session(self, endpoint: Endpoint) -> aiohttp.ClientSession:
        socket_path = endpoint.socket_path
        if socket_path is None:
            if self._tcp is None:
                self._tcp = _new_session(_TcpConnector(limit=0, keepalive_timeout=KEEPALIVE_S))
            return self._tcp
        session = self._unix.get(socket_path)
        if session is None:
            connector = _UnixConnector(str(socket_path), limit=0, keepalive_timeout=KEEPALIVE_S)
            session = self._unix[socket_path] = _new_session(connector)
        return session

    async def close(self) -> None:
        """Close every connection."""
        sessions = [*self._unix.values()]
        if self._tcp is not None:
            sessions.append(self._tcp)
        self._tcp = None
        self._unix.clear()
        for session in sessions:
            await session.close()


def _new_session(connector: aiohttp.BaseConnector) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=connector,
        request_class=request_class(),
        auto_decompress=False,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=_HEADERS,
        # How long an answer takes is the engine's business; whether it moves at all is watched elsewhere.
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
    )


def _payload(body: bytes) -> BytesPayload | io.BytesIO:
    return BytesPayload(body) if len(body) < _LARGE_BODY_BYTES else io.BytesIO(body)


def _nothing_received(error: aiohttp.ClientError) -> bool:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        # Otherwise it carries the part of the answer's head that came.
        return isinstance(error.message, str)
    return not isinstance(error, aiohttp.ClientConnectorError)


@lru_cache(maxsize=512)
def _url(base_url: str, path: str) -> URL:
    return URL(base_url + path)

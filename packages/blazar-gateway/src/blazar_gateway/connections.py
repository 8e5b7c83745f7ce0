"""Clients' connections: what is broken is told in our own words, and a head that never ends does not stay for ever.

aiohttp answers broken HTTP with a text of its own, and waits for a request's head as long as the client likes. Both
are decided in its protocol class, which is extended here; nothing else of it is touched.
"""

import asyncio
import logging
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import BadHttpMessage, HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler
from aiohttp.web_server import Server
from typing_extensions import override

from blazar_gateway.context import REQUEST_ID
from blazar_gateway.error_responses import Dialect, WireError, error_body

HEAD_S = 30.0
"""Seconds within which the head of a request must be complete, once it or its connection has begun."""

MAX_LINE_BYTES = 16 << 10
"""Of a request line."""
MAX_FIELD_BYTES = 32 << 10
"""Of one header: a browser sends the cookies of everything on this machine."""
MAX_HEADERS = 128
"""Headers of a request."""

_log = logging.getLogger("blazar.gateway.http")


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = ("_head_begun", "_head_timer")

    def __init__(self, manager: Server, **options: Any) -> None:
        super().__init__(manager, **options)
        self._head_timer: asyncio.TimerHandle | None = None
        self._head_begun = False

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._head_timer = self._loop.call_later(HEAD_S, self._head_is_late)

    @override
    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @override
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._is_idle:
            # A whole head has come, or this belonged to a body.
            if self._head_timer is not None:
                self._stop_timer()
        elif not self._head_begun:
            self._stop_timer()
            self._head_begun = True
            self._head_timer = self._loop.call_later(HEAD_S, self._head_is_late)

    @override
    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what was no request, and then close: where the next one would begin is unknown."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        wire = wire_error_of(exc)
        # Not what the client sent: it may be part of a prompt.
        _log.info("broken HTTP from a client (%s): %d", type(exc).__name__, wire.status)
        response = web.Response(
            status=wire.status,
            body=error_body(Dialect.OPENAI, wire, request_id=request.get(REQUEST_ID, "")),
            content_type="application/json",
        )
        response.force_close()
        return response

    @property
    def _is_idle(self) -> bool:
        """Whether the next request is waited for, and its head is not there."""
        return self._waiter is not None and not self._waiter.done()

    def _head_is_late(self) -> None:
        self._head_timer = None
        transport = self.transport
        if transport is None or not (self._is_idle or self._request_count == 0):
            return
        if self._head_begun:
            wire = WireError(408, "invalid_request_error", "request_timeout", _LATE)
            body = error_body(Dialect.OPENAI, wire, request_id="")
            transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
        self.force_close()

    def _stop_timer(self) -> None:
        self._head_begun = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


class _Server(Server):
    """Makes connections of our kind."""

    @override
    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """Runs an application on connections of our kind."""

    __slots__ = ()

    @override
    async def _make_server(self) -> Server:
        server = await super()._make_server()
        # The application makes it, so it cannot be made as another class; the layout is the same.
        server.__class__ = _Server
        return server


_LATE = (
    f"the head of the request was not complete within {HEAD_S:g} s. Send the request line and all headers at once, "
    "ended by an empty line."
)


def wire_error_of(error: HttpProcessingError) -> WireError:
    """Return what to say of something that is no HTTP request, without a byte of it."""
    if isinstance(error, LineTooLong):
        return _broken(
            431,
            "headers_too_large",
            f"the request line or a header is too long: a line takes {MAX_LINE_BYTES >> 10} KiB and a header "
            f"{MAX_FIELD_BYTES >> 10} KiB at most. What is long belongs into the body.",
        )
    if isinstance(error, BadHttpMessage) and "Too many headers" in error.message:
        return _broken(
            431, "headers_too_large", f"the request has more than {MAX_HEADERS} headers. Leave out what is not needed."
        )
    return _broken(
        400,
        "malformed_http",
        "this is not an HTTP request that can be read: its request line, a header or the framing of its body is "
        "broken. A client that speaks https to this address has to use http, and the other way round.",
    )


def _broken(status: int, code: str, text: str) -> WireError:
    return WireError(status, "invalid_request_error", code, text)

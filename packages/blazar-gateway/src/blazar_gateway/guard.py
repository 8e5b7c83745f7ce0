"""What every request passes before its handler, and every failure after it.

In this order: is the host name ours, may the page's origin call, is it a preflight, whose key is it, may that key have
another request. Only then is anything looked at or done. Whatever a handler raises becomes an answer in the envelope of
the route's dialect.
"""

import asyncio
import itertools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import hdrs, web
from multidict import istr

from blazar_gateway.access.admission import Admission
from blazar_gateway.access.policy import FREE, KEYS, MANAGING, plain_path
from blazar_gateway.access.policy import METERED as METERED_PATHS
from blazar_gateway.access.rate_headers import rate_headers
from blazar_gateway.access.secrets import carried_secret
from blazar_gateway.context import BEGAN_S, GATEWAY, KEY, METERED, PAGE_ORIGIN, REQUEST_ID, Gateway
from blazar_gateway.error_responses import (
    EngineRefusal,
    WireError,
    dialect_of,
    error_body,
    error_headers,
    wire_error,
)
from blazar_gateway.event_stream import write_to_the_end
from blazar_routing.errors import (
    AdminOnly,
    BodyTooLarge,
    HostRefused,
    InternalError,
    LaneError,
    ManagementClosed,
    OriginRefused,
)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger("blazar.gateway")

_LEFT = 499
"""A client that left before its answer had ended."""

_METHODS = "GET, HEAD, POST, DELETE, OPTIONS"

_CACHEABLE = frozenset({hdrs.METH_GET, hdrs.METH_HEAD})

_PREFLIGHT_AGE_S = "600"

_EXPOSED = (
    "x-request-id, request-id, x-blazar-request-id, x-blazar-queue-ms, x-blazar-load-ms, x-blazar-cache, retry-after, "
    "x-blazar-queue-length, x-blazar-queue-position, "
    "x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens"
)

_X_REQUEST_ID, _X_BLAZAR_REQUEST_ID = istr("x-request-id"), istr("x-blazar-request-id")
_X_API_KEY = istr("x-api-key")

_ids = itertools.count()
_id_prefix = f"req_{os.urandom(5).hex()}"


def new_request_id() -> str:
    """Return an id that no other request has, of this daemon or an earlier one."""
    return f"{_id_prefix}{next(_ids):08x}"


@web.middleware
async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Let a request through, or answer it in the handler's place."""
    gateway = request.app[GATEWAY]
    request[REQUEST_ID] = new_request_id()
    traffic = gateway.traffic
    traffic.requests += 1
    request[BEGAN_S] = began_s = time.perf_counter()
    status = _LEFT
    try:
        response = await _answered(request, handler, gateway)
        status = response.status
        return response
    finally:
        traffic.requests -= 1
        traffic.served += 1
        gateway.telemetry.ended(_route_of(request), status, time.perf_counter() - began_s)


async def _answered(request: web.Request, handler: Handler, gateway: Gateway) -> web.StreamResponse:
    traffic = gateway.traffic
    try:
        if not gateway.control:
            _check_caller(request, gateway)
        if request.method == hdrs.METH_OPTIONS:
            return _preflight(request)
        path = plain_path(request.path)
        if path in METERED_PATHS:
            request[METERED] = True
        if gateway.admission.keyring and not gateway.control:
            return await _with_key(request, path, gateway.admission, handler)
        if KEYS.fullmatch(path) and not gateway.admission.keyring:
            raise ManagementClosed
        return await handler(request)
    except LaneError as error:
        return _failed(request, wire_error(error))
    except EngineRefusal as refusal:
        return _failed(request, refusal.wire)
    except web.HTTPException as error:
        return _failed(request, _from_aiohttp(error, gateway))
    except asyncio.CancelledError:
        traffic.abandoned += 1
        raise
    except ConnectionError:
        # The client has gone. Sending anything fails quietly in the server, which then closes the connection; raising
        # would make it log a traceback for what is everyday.
        traffic.abandoned += 1
        return web.Response(status=_LEFT)
    except Exception:  # noqa: BLE001 - a fault of our own has to become an answer; this is the outermost place
        request_id = request[REQUEST_ID]
        _log.exception("%s %s %s failed", request_id, request.method, request.path)
        return _failed(request, wire_error(InternalError(request_id=request_id)))


async def _with_key(request: web.Request, path: str, admission: Admission, handler: Handler) -> web.StreamResponse:
    """Serve a request of a gateway that has keys.

    The first gate is the key's concurrency, before anything of the request has been read; it is held until the
    answer's last byte has left. Scope, rates and quota follow once the model is known.
    """
    if path in FREE:
        return await handler(request)
    key = admission.keyring.find(_secret_of(request), now=admission.now())
    request[KEY] = key
    if path not in METERED_PATHS:
        if key.models and MANAGING.fullmatch(path):
            raise AdminOnly(what="managing models and keys")
        return await handler(request)
    admission.quotas.enter(key)
    try:
        response = await handler(request)
        if not response.prepared:
            await response.prepare(request)
            await write_to_the_end(request, response)
        return response
    finally:
        admission.quotas.leave(key)


def _route_of(request: web.Request) -> str:
    """Return the label of a request: its route if it is work for an engine, so that there are few."""
    return plain_path(request.path) if METERED in request else "other"


def _secret_of(request: web.Request) -> str:
    headers = request.headers
    every: dict[str, Sequence[str]] = {name: headers.getall(name, ()) for name in (hdrs.AUTHORIZATION, _X_API_KEY)}
    return carried_secret(headers, every=every)


def _check_caller(request: web.Request, gateway: Gateway) -> None:
    policy = gateway.origin_policy()
    host = request.headers.get(hdrs.HOST, "")
    if not policy.allows_host(host):
        raise HostRefused(host=host[:200])
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is not None:
        if not policy.allows_origin(origin, host=host):
            raise OriginRefused(origin=origin[:200])
        request[PAGE_ORIGIN] = origin


def _preflight(request: web.Request) -> web.Response:
    """Answer what a browser asks before a page's call, or a bare OPTIONS."""
    headers = {"Allow": _METHODS}
    if PAGE_ORIGIN in request:
        wanted = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS)
        headers |= {
            "Access-Control-Allow-Methods": _METHODS,
            # SDKs send a dozen headers of their own, so what is asked for is granted.
            "Access-Control-Allow-Headers": wanted or "authorization, content-type",
            "Access-Control-Max-Age": _PREFLIGHT_AGE_S,
        }
        if "Access-Control-Request-Private-Network" in request.headers:
            headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)


async def mark_answer(request: web.Request, response: web.StreamResponse) -> None:
    """Put onto every answer, right before it is sent, what all of them carry."""
    headers = response.headers
    if METERED in request and not isinstance(response, web.Response):
        opened_s = time.perf_counter() - request[BEGAN_S]
        request.app[GATEWAY].telemetry.opened(_route_of(request), opened_s)
    key = request.get(KEY)
    if key is not None and METERED in request and (key.rpm is not None or key.tpm is not None):
        admission = request.app[GATEWAY].admission
        now = admission.now()
        standings = admission.quotas.standing(key, now=now)
        headers.update(rate_headers(dialect_of(request.path, request.headers), standings, now=now))
    request_id = request.get(REQUEST_ID)
    if request_id is not None:
        headers[_X_REQUEST_ID] = headers[_X_BLAZAR_REQUEST_ID] = request_id
        if "anthropic-version" in request.headers or request.path.startswith("/v1/messages"):
            headers["request-id"] = request_id
    by_page = hdrs.ORIGIN in request.headers
    if by_page or request.method in _CACHEABLE:
        # Also without an origin: what a cache keeps of it must not answer a page.
        headers[hdrs.VARY] = "Origin"
    if by_page:
        # Not for an origin that was refused: its page is not to read even the refusal.
        origin = request.get(PAGE_ORIGIN)
        if origin is not None:
            headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            headers[hdrs.ACCESS_CONTROL_EXPOSE_HEADERS] = _EXPOSED


def _failed(request: web.Request, wire: WireError) -> web.Response:
    dialect = dialect_of(request.path, request.headers)
    headers = error_headers(wire)
    if wire.status == 401 and request.path.startswith("/ui"):
        # A browser then asks its user, and sends the key as the password.
        headers[hdrs.WWW_AUTHENTICATE] = 'Basic realm="Blazar: any name, the API key as the password"'
    request_id = request[REQUEST_ID]
    if wire.status >= 500:
        request.app[GATEWAY].traffic.failed += 1
    _log.log(
        logging.WARNING if wire.status >= 500 else logging.INFO,
        "%s %s %s: %d %s",
        request_id,
        request.method,
        request.path,
        wire.status,
        wire.code,
    )
    return web.Response(
        status=wire.status,
        body=error_body(dialect, wire, request_id=request_id),
        content_type="application/json",
        headers=headers,
    )


def _from_aiohttp(error: web.HTTPException, gateway: Gateway) -> WireError:
    if error.status == 413:
        return wire_error(BodyTooLarge(limit_bytes=gateway.max_body_bytes))
    kind = "server_error" if error.status >= 500 else "invalid_request_error"
    return WireError(status=error.status, type=kind, code="http_error", message=f"{error.reason.lower()}.")

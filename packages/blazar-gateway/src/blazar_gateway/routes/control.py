"""What the ``blazar`` command asks of its daemon."""

import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY, KEY
from blazar_gateway.dialects.json_objects import name_in
from blazar_gateway.event_stream import ClientGone
from blazar_gateway.forms.managing import EXPLAIN, STOP
from blazar_gateway.rows import get_card
from blazar_routing.errors import AdminOnly, InvalidRequest

_DEFAULT_LINES = 100
_MAX_LINES = 100_000


async def daemon(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/daemon``: the daemon's status and the gateway's counters."""
    gateway = request.app[GATEWAY]
    return json_answer({"gateway": gateway.traffic.snapshot(), **gateway.daemon.status()})


async def stop(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/stop``: unload a model once its requests have ended."""
    gateway = request.app[GATEWAY]
    body = STOP.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    name = name_in(body, "model", missing="model is missing: name the model to stop.")
    card = get_card(request, name)
    return json_answer({"model": card.name, "stopped": await gateway.host.unload(card.name)})


async def explain(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/explain``: which engine would serve a model, how and why; nothing is started."""
    gateway = request.app[GATEWAY]
    _require_owner(request, "how engines are started")
    body = EXPLAIN.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    name = name_in(body, "model", missing="model is missing: name the model to explain.")
    return json_answer(await gateway.daemon.explain(get_card(request, name).name))


async def logs(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/logs``: the last lines as plain text, and on request what follows them."""
    gateway = request.app[GATEWAY]
    _require_owner(request, "the log")
    query = request.query
    lines = gateway.daemon.log_lines(
        query.get("model") or None,
        lines=_line_count(query.get("lines")),
        follow=query.get("follow", "").lower() in {"1", "true", "yes", "on"},
    )
    return await _send_lines(request, lines)


async def refresh(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/refresh``: what was changed in the files of the daemon's owner holds from now on."""
    gateway = request.app[GATEWAY]
    _require_owner(request, "having the files read again")
    await gateway.daemon.refresh()
    return json_answer({"status": "refreshed"})


async def shutdown(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/shutdown``: begin an orderly stop."""
    gateway = request.app[GATEWAY]
    _require_owner(request, "stopping the daemon")
    gateway.daemon.shutdown()
    return json_answer({"status": "stopping"}, status=202)


def _require_owner(request: web.Request, what: str) -> None:
    key = request.get(KEY)
    if not request.app[GATEWAY].control and (key is None or not key.is_admin):
        raise AdminOnly(what=what)


def _line_count(text: str | None) -> int:
    if not text:
        return _DEFAULT_LINES
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidRequest(f"lines is '{text}'; it takes a whole number.", param="lines")
    return min(int(text), _MAX_LINES)


async def _send_lines(request: web.Request, lines: AsyncIterator[bytes]) -> web.StreamResponse:
    response: web.StreamResponse | None = None
    async with contextlib.AsyncExitStack() as stack:
        if hasattr(lines, "aclose"):
            stack.push_async_callback(lines.aclose)
        async for line in lines:
            # Opened late, so that a log that is not there still has its own status.
            response = response or await _open_text(request)
            try:
                await response.write(line if line.endswith(b"\n") else line + b"\n")
            except ConnectionError as error:
                raise ClientGone from error
        response = response or await _open_text(request)
    await response.write_eof()
    return response


async def _open_text(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Type": "text/plain; charset=utf-8", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    return response

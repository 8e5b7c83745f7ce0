"""Fetching models by name: Ollama's ``/api/pull``, and what the ``blazar`` command asks of pulls in progress."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import orjson
from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.bodies import read_body
from blazar_gateway.context import GATEWAY
from blazar_gateway.dialects.json_objects import JsonObject, name_in
from blazar_gateway.event_stream import ClientGone
from blazar_gateway.forms.ollama import NAMED, PULL
from blazar_gateway.ports import ModelPulls, PullState
from blazar_routing.errors import InternalError, InvalidRequest, LaneError

PULLS = web.AppKey("pulls", ModelPulls)
"""Whoever fetches models; absent where nothing is fetched over HTTP."""

_BETWEEN_LINES_S = 0.1


async def pull(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/pull``: a model that is there is up to date, another is fetched.

    The pull goes on when the client leaves. What is refused before the first byte has a status of its own; later
    failures are a line ``{"error": …}``, as Ollama's are.
    """
    gateway = request.app[GATEWAY]
    body = PULL.parse(await read_body(request, limit_bytes=gateway.max_body_bytes))
    name = _name(body)
    if gateway.catalogue.find(name) is not None:
        return _present(body)
    pulls = request.app.get(PULLS)
    if pulls is None:
        raise InvalidRequest(
            f"pull model manifest: model '{name[:200]}' not found here, and this server does not fetch models over "
            "HTTP. Download its .gguf file and register it with `blazar models add FILE`.",
            param="model",
        )
    async with aclosing(_moving(pulls, name)) as states:
        if body.get("stream") is False:
            return await _last(states)
        return await _stream(request, states)


async def listing(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /api/pull``: the pulls in progress and those that ended lately."""
    pulls = request.app.get(PULLS)
    return json_answer({"pulls": [] if pulls is None else [_plain(state) for state in pulls.states()]})


async def cancel(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /api/pull/cancel``: stop a pull; what has arrived is kept."""
    body = NAMED.parse(await read_body(request, limit_bytes=request.app[GATEWAY].max_body_bytes))
    pulls = request.app.get(PULLS)
    return json_answer({"cancelled": pulls is not None and pulls.cancel(_name(body))})


async def _moving(pulls: ModelPulls, name: str) -> AsyncGenerator[PullState]:
    """Yield the states of a pull from when it is known what it will fetch."""
    async for state in pulls.follow(name):
        if state.phase != "planning":
            yield state


async def _last(states: AsyncIterator[PullState]) -> web.StreamResponse:
    async for state in states:
        if state.over:
            if state.error is not None:
                raise state.error
            return json_answer({"status": "success", "model": state.name})
    raise InternalError(request_id="pull")


async def _stream(request: web.Request, states: AsyncIterator[PullState]) -> web.StreamResponse:
    response: web.StreamResponse | None = None
    async for state in states:
        if response is None:
            # Opened late, so that a name that says nothing still has its own status.
            if state.error is not None:
                raise state.error
            response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson", "X-Accel-Buffering": "no"})
            await response.prepare(request)
            await _write(response, {"status": "pulling manifest"})
        for line in _lines(state):
            await _write(response, line)
        if not state.over:
            # Those who read do not need each of a thousand figures a second.
            await asyncio.sleep(_BETWEEN_LINES_S)
    if response is None:
        raise InternalError(request_id="pull")
    await response.write_eof()
    return response


def _lines(state: PullState) -> list[JsonObject]:
    if state.error is not None:
        return [{"error": str(state.error), "code": state.error.code}]
    if state.over:
        return [
            {"status": "verifying sha256 digest"},
            {"status": "writing manifest"},
            {"status": "success", "model": state.name},
        ]
    return [
        {
            "status": f"pulling {state.digest[:12] or state.name or state.reference}",
            "digest": f"sha256:{state.digest}" if state.digest else "",
            "total": state.total_bytes,
            "completed": state.done_bytes,
            "model": state.name,
            "reason": state.reason,
        }
    ]


async def _write(response: web.StreamResponse, line: JsonObject) -> None:
    try:
        await response.write(orjson.dumps(line) + b"\n")
    except ConnectionError as error:
        raise ClientGone from error


def _present(body: JsonObject) -> web.Response:
    if body.get("stream") is False:
        return json_answer({"status": "success"})
    steps = [{"status": "pulling manifest"}, {"status": "success"}]
    return web.Response(
        body=b"".join(orjson.dumps(step) + b"\n" for step in steps), content_type="application/x-ndjson"
    )


def _plain(state: PullState) -> JsonObject:
    return {
        "reference": state.reference,
        "status": str(state.phase),
        "model": state.name,
        "reason": state.reason,
        "completed": state.done_bytes,
        "total": state.total_bytes,
        "error": _text(state.error),
    }


def _text(error: LaneError | None) -> str | None:
    return None if error is None else str(error)


def _name(body: JsonObject) -> str:
    return name_in(body, "model", "name", missing="model is required")

"""Responses that were kept: shown, forgotten, and their inputs listed."""

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.context import GATEWAY
from blazar_gateway.dialects.responses.kept import item_list
from blazar_gateway.response_history import owner_of
from blazar_routing.errors import InvalidRequest, ResponseNotFound
from blazar_store.types import KeptResponse


async def retrieve(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/responses/{id}``."""
    return json_answer((await _kept(request)).response)


async def delete(request: web.Request) -> web.StreamResponse:
    """Answer ``DELETE /v1/responses/{id}``."""
    memory, response_id = request.app[GATEWAY].memory, _id(request)
    if memory is None or not await memory.delete(owner_of(request), response_id):
        raise ResponseNotFound(response_id=response_id[:100])
    return json_answer({"id": response_id, "object": "response", "deleted": True})


async def cancel(request: web.Request) -> web.StreamResponse:
    """Answer ``POST /v1/responses/{id}/cancel``: what is kept has ended; a stream is cancelled by closing it."""
    kept = await _kept(request)
    raise InvalidRequest(
        f"response '{kept.id}' has the status {kept.response.get('status')} and cannot be cancelled. "
        "A response that is being made stops when its client closes the connection."
    )


async def input_items(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /v1/responses/{id}/input_items``."""
    return json_answer(item_list((await _kept(request)).items, request.query))


async def _kept(request: web.Request) -> KeptResponse:
    memory, response_id = request.app[GATEWAY].memory, _id(request)
    kept = await memory.get(owner_of(request), response_id) if memory is not None else None
    if kept is None:
        raise ResponseNotFound(response_id=response_id[:100])
    return kept


def _id(request: web.Request) -> str:
    return request.path.removeprefix("/v1/responses/").partition("/")[0]

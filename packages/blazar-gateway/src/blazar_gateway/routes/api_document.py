"""``/openapi.json``: what this server takes and answers, for people, generators and tests."""

import asyncio
from functools import lru_cache

import orjson
from aiohttp import web

from blazar_gateway.dialects.ollama.listings import VERSION
from blazar_gateway.openapi.document import Route, describe

ROUTES = web.AppKey("routes", tuple[Route, ...])
"""Every route of the application."""


async def openapi(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /openapi.json``: this document."""
    document = await asyncio.to_thread(_document, request.app[ROUTES])
    return web.Response(body=document, content_type="application/json")


@lru_cache(maxsize=1)
def _document(routes: tuple[Route, ...]) -> bytes:
    return orjson.dumps(describe(routes, version=VERSION))

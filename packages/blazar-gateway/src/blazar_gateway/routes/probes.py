"""What clients and load balancers ask to see whether somebody is there. Nothing is loaded or woken for it."""

from aiohttp import web

from blazar_gateway.answers import json_answer
from blazar_gateway.dialects.ollama.listings import VERSION


async def root(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - a handler's form
    """Answer ``GET /`` with the words that front ends compare."""
    return web.Response(text="Ollama is running")


async def health(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - a handler's form
    """Answer ``GET /health`` and ``/healthz``."""
    return json_answer({"status": "ok"})


async def version(request: web.Request) -> web.StreamResponse:  # noqa: ARG001 - a handler's form
    """Answer ``GET /api/version`` with the release of Ollama that this API follows."""
    return json_answer({"version": VERSION})

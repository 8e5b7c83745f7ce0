"""Answers in one piece, and what stands in the headers of every generation."""

from collections.abc import Mapping

import orjson
from aiohttp import web
from multidict import istr

from blazar_gateway.event_stream import write_to_the_end
from blazar_gateway.ports import Lease

_LARGE_BYTES = 64 << 10
"""What a transport buffers before it makes its writer wait; a smaller answer leaves within this turn of the loop."""


_QUEUE_MS, _LOAD_MS, _CACHE = istr("x-blazar-queue-ms"), istr("x-blazar-load-ms"), istr("x-blazar-cache")


def json_answer(value: object, *, status: int = 200) -> web.Response:
    """Return ``value`` as a JSON answer."""
    return web.Response(body=orjson.dumps(value), status=status, content_type="application/json")


def timing_headers(lease: Lease) -> dict[str, str]:
    """Return what a lease's wait is told as."""
    return {
        _QUEUE_MS: str(round(lease.queue_s * 1000)),
        _LOAD_MS: str(round(lease.load_s * 1000)),
        _CACHE: "bypass",
    }


async def send_whole(
    request: web.Request, body: bytes, headers: Mapping[str, str], *, content_type: str = "application/json"
) -> web.Response:
    """Send an answer now, while the lease is held, and return it.

    Raises:
        ConnectionError: The client has gone.
    """
    response = web.Response(body=body, content_type=content_type, headers=headers)
    await response.prepare(request)
    if len(body) > _LARGE_BYTES:
        await write_to_the_end(request, response)
    else:
        await response.write_eof()
    return response

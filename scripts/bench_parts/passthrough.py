"""The least that a gateway made of aiohttp can do: read the body, look the model up, relay.

What Blazar costs is told as a ratio to this, taken in the same run on the same core.

Run as a program: ``python passthrough.py PORT UPSTREAM-URL``.
"""

import asyncio
import json
import sys

import aiohttp
import uvloop
from aiohttp import web

UPSTREAM = web.AppKey("upstream", str)
CLIENT = web.AppKey("client", aiohttp.ClientSession)
PATHS = ("/tokenize", "/v1/chat/completions")


async def relay(request: web.Request) -> web.StreamResponse:
    """Send the body on and what comes back, streams as they come."""
    body = await request.read()
    if not json.loads(body).get("model"):
        raise web.HTTPNotFound
    url = request.app[UPSTREAM] + request.path
    async with request.app[CLIENT].post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        kind = answer.content_type
        if kind != "text/event-stream":
            return web.Response(body=await answer.read(), status=answer.status, content_type=kind)
        response = web.StreamResponse(status=answer.status, headers={"Content-Type": kind})
        await response.prepare(request)
        async for piece in answer.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response


async def serve(port: int, upstream: str) -> None:
    """Serve until the process ends."""
    app = web.Application(client_max_size=50 << 20)
    app[UPSTREAM] = upstream
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as client:
        app[CLIENT] = client
        app.router.add_get("/healthz", _healthy)
        for path in PATHS:
            app.router.add_post(path, relay)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), sys.argv[2]))

"""The steps every request takes: control calls, preflight, loading, key, script, route."""

from blazar_stubs.llama_server import control
from blazar_stubs.llama_server.exchange import Aborted, Exchange
from blazar_stubs.llama_server.knobs import Json, KnobError
from blazar_stubs.llama_server.prompts import Refusal
from blazar_stubs.llama_server.routes import GENERATING_PATHS, find_route
from blazar_stubs.llama_server.server import FRONTEND_PATHS, Server

LOADING: Json = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
INVALID_KEY: Json = {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}
NOT_FOUND: Json = {"error": {"message": "File Not Found", "type": "not_found_error", "code": 404}}


async def answer(server: Server, exchange: Exchange) -> None:
    """Answer one request, whatever it is. The readiness check comes before the key check, as upstream's does."""
    request = exchange.request
    try:
        if request.path.startswith(control.PREFIX):
            await control.answer(server, exchange)
        elif request.method == "OPTIONS":
            await exchange.options()
        elif server.model is None and request.path not in FRONTEND_PATHS:
            await exchange.json(503, LOADING)
        elif not server.may_enter(exchange):
            await exchange.json(401, INVALID_KEY)
        else:
            await _enter(server, exchange)
    except Refusal as refusal:
        if refusal.status == 500:
            server.console.server("operator()", f"got exception: {refusal}", letter="W")
        await exchange.json(refusal.status, refusal.body)
    except KnobError as error:
        server.console.raw(str(error))
        await exchange.json(500, {"error": {"code": 500, "message": str(error), "type": "stub_error"}})
    except Aborted:
        return


async def _enter(server: Server, exchange: Exchange) -> None:
    request = exchange.request
    path = request.path
    prefix = server.settings.api_prefix
    if prefix:
        path = path.removeprefix(prefix) if path.startswith(prefix + "/") else ""
    exchange.script = server.playbook.take(path, request.body, generates=path in GENERATING_PATHS)
    await server.reactor.sleep(exchange.script.get("header_delay_s", 0.0))
    if await exchange.play_fixed():
        return
    route = find_route(request.method, path)
    if route is None:
        await exchange.json(404, NOT_FOUND)
    elif request.header("content-encoding"):
        # Built without zlib: a compressed body is refused, with an empty answer (observed).
        await exchange.answer(415, b"", content_type="")
    else:
        await route(server, exchange)

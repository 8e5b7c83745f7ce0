"""Calls for tests only: ``/__stub__/record`` and ``/__stub__/script``, without a key, also while the model loads."""

import json

from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.knobs import KnobError
from blazar_stubs.llama_server.server import Server

PREFIX = "/__stub__/"


async def answer(server: Server, exchange: Exchange) -> None:
    """Report, take orders, or forget."""
    match (exchange.request.method, exchange.request.path.removeprefix(PREFIX)):
        case ("GET", "record"):
            await exchange.json(200, {**server.recorder.report(), "is_sleeping": _sleeps(server)})
        case ("DELETE", "record"):
            server.recorder.requests.clear()
            server.recorder.tokens_sent = 0
            await exchange.json(200, {})
        case ("POST", "script"):
            try:
                server.playbook.push(json.loads(exchange.request.body))
            except ValueError as error:
                raise KnobError(f"stub: control call is not JSON: {error}") from None
            await exchange.json(200, {})
        case ("DELETE", "script"):
            server.playbook.reset()
            await exchange.json(200, {})
        case _:
            raise KnobError("stub: control calls are GET or DELETE record, POST or DELETE script")


def _sleeps(server: Server) -> bool:
    return server.model is not None and server.model.engine.is_sleeping

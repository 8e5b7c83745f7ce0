"""The application, the table of its routes, and the server settings it relies on."""

import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping
from types import MappingProxyType

from aiohttp import hdrs, web

from blazar_gateway.access.admission import Admission
from blazar_gateway.access.policy import plain_path
from blazar_gateway.bodies import MAX_BODY_BYTES
from blazar_gateway.connections import MAX_FIELD_BYTES, MAX_HEADERS, MAX_LINE_BYTES, Runner
from blazar_gateway.context import GATEWAY, Gateway
from blazar_gateway.guard import guard, mark_answer
from blazar_gateway.image_fetch import ImageFetcher
from blazar_gateway.openapi.document import Handler, Route
from blazar_gateway.ports import (
    Catalogue,
    Daemon,
    GatewaySettings,
    KeyRegistry,
    ModelHost,
    ModelRegistry,
    ResponseMemory,
)
from blazar_gateway.routes import (
    api_document,
    calls,
    control,
    embeddings,
    generation,
    keys,
    listings,
    messages,
    metrics,
    ollama_chat,
    ollama_embed,
    ollama_models,
    probes,
    pulls,
    rerank,
    responses,
    stored_responses,
)
from blazar_routing.errors import MethodNotAllowed, UnsupportedEndpoint

ROUTES: Mapping[str, Mapping[str, Handler]] = MappingProxyType(
    {
        "/": {"GET": probes.root},
        "/openapi.json": {"GET": api_document.openapi},
        "/health": {"GET": probes.health},
        "/healthz": {"GET": probes.health},
        "/api/version": {"GET": probes.version},
        "/api/tags": {"GET": listings.tags},
        "/api/ps": {"GET": listings.ps},
        "/v1/models": {"GET": listings.models},
        "/models": {"GET": listings.models},
        "/v1/chat/completions": {"POST": generation.chat},
        "/chat/completions": {"POST": generation.chat},
        "/v1/completions": {"POST": generation.completions},
        "/completions": {"POST": generation.completions},
        "/v1/messages": {"POST": messages.messages},
        "/v1/messages/count_tokens": {"POST": messages.count_tokens},
        "/v1/responses": {"POST": responses.create},
        "/v1/responses/input_tokens": {"POST": responses.input_tokens},
        "/v1/embeddings": {"POST": embeddings.embeddings},
        "/embeddings": {"POST": embeddings.embeddings},
        "/v1/rerank": {"POST": rerank.jina},
        "/rerank": {"POST": rerank.jina},
        "/v1/reranking": {"POST": rerank.jina},
        "/reranking": {"POST": rerank.jina},
        "/v2/rerank": {"POST": rerank.cohere},
        "/api/chat": {"POST": ollama_chat.api_chat},
        "/api/generate": {"POST": ollama_chat.api_generate},
        "/api/embed": {"POST": ollama_embed.embed},
        "/api/embeddings": {"POST": ollama_embed.embedding},
        "/api/show": {"POST": ollama_models.show},
        "/api/delete": {"DELETE": ollama_models.delete, "POST": ollama_models.delete},
        "/api/copy": {"POST": ollama_models.copy},
        "/api/create": {"POST": ollama_models.create},
        "/api/pull": {"GET": pulls.listing, "POST": pulls.pull},
        "/api/pull/cancel": {"POST": pulls.cancel},
        "/api/push": {"POST": ollama_models.push},
        "/tokenize": {"POST": calls.tokenize},
        "/detokenize": {"POST": calls.detokenize},
        "/apply-template": {"POST": calls.apply_template},
        "/metrics": {"GET": metrics.metrics},
        "/api/keys": {"GET": keys.list_keys, "POST": keys.add},
        "/api/usage": {"GET": keys.usage},
        "/api/daemon": {"GET": control.daemon},
        "/api/stop": {"POST": control.stop},
        "/api/logs": {"GET": control.logs},
        "/api/explain": {"POST": control.explain},
        "/api/refresh": {"POST": control.refresh},
        "/api/shutdown": {"POST": control.shutdown},
    }
)
"""Path to method to handler. A GET route also answers HEAD."""

NAMED_ROUTES: Mapping[str, Mapping[str, Handler]] = MappingProxyType(
    {
        "/v1/models/{model}": {"GET": listings.model},
        "/models/{model}": {"GET": listings.model},
        "/v1/responses/{id}": {"GET": stored_responses.retrieve, "DELETE": stored_responses.delete},
        "/v1/responses/{id}/cancel": {"POST": stored_responses.cancel},
        "/v1/responses/{id}/input_items": {"GET": stored_responses.input_items},
        "/api/keys/{name}": {"DELETE": keys.remove},
        "/api/keys/{name}/rotate": {"POST": keys.rotate},
        "/api/blobs/{digest}": {"GET": ollama_models.blob, "POST": ollama_models.add_blob},
    }
)
"""Routes whose path holds a name."""


_NAMES = {
    # A model's name may hold slashes; the others do not.
    "model": ".+",
    # An endpoint of OpenAI's that is not served, not the name of a response.
    "id": "(?!compact$)[^/]+",
}


def _pattern(template: str) -> re.Pattern[str]:
    return re.compile(re.sub(r"\{(\w+)\}", lambda name: _NAMES.get(name[1], "[^/]+"), template))


_BY_PATTERN = tuple((_pattern(template), methods) for template, methods in NAMED_ROUTES.items())


_server_log = logging.getLogger("blazar.gateway.http")


def create_app(
    *,
    host: ModelHost,
    catalogue: Catalogue,
    daemon: Daemon,
    settings: Callable[[], GatewaySettings],
    control: bool,
    max_body_bytes: int = MAX_BODY_BYTES,
    registry: ModelRegistry | None = None,
    memory: ResponseMemory | None = None,
    admission: Admission | None = None,
    key_registry: KeyRegistry | None = None,
    images: ImageFetcher | None = None,
) -> web.Application:
    """Return the application.

    Serve it through :func:`create_runner`, whose settings it relies on.

    Args:
        host: Runs the engines.
        catalogue: Knows the models.
        daemon: Answers control calls.
        settings: Returns the settings in force; called for each request, so it has to be cheap.
        control: ``True`` for the control socket. Its caller is the owner: no origin or host name is checked, and
            calls that manage the daemon are allowed; no key is asked for.
        max_body_bytes: The most a request body may hold, after decompression.
        memory: Remembers responses for clients that continue them; ``None`` keeps none.
        admission: The keys and what they have used, shared with the daemon's other application; without it the
            gateway is open.
        key_registry: May change the keys; ``None`` refuses such calls.
        images: Fetches images that chats give by address; by default from public addresses only.
        registry: May change the model rows; ``None`` refuses such calls with what to type instead.
    """
    gateway = Gateway(
        host=host,
        catalogue=catalogue,
        daemon=daemon,
        settings=settings,
        control=control,
        max_body_bytes=max_body_bytes,
        registry=registry,
        memory=memory,
        admission=admission or Admission(),
        key_registry=key_registry,
        images=images or ImageFetcher(),
    )
    app = web.Application(middlewares=[guard], client_max_size=max_body_bytes)
    app[GATEWAY] = gateway
    app[api_document.ROUTES] = all_routes()
    app.on_response_prepare.append(mark_answer)
    app.cleanup_ctx.append(_close_children)
    for path, methods in ROUTES.items():
        for method, handler in methods.items():
            app.router.add_route(method, path, handler, expect_handler=_expect)
            if method == hdrs.METH_GET:
                app.router.add_route(hdrs.METH_HEAD, path, handler)
    # Odd spellings, model names, preflights, and everything that does not exist.
    app.router.add_route(hdrs.METH_ANY, "/{rest:.*}", _elsewhere, expect_handler=_expect)
    return app


def all_routes() -> tuple[Route, ...]:
    """Return every route: method, path with ``{names}``, handler."""
    return tuple(
        (method, path, handler)
        for table in (ROUTES, NAMED_ROUTES)
        for path, methods in table.items()
        for method, handler in methods.items()
    )


def create_runner(app: web.Application, *, drain_s: float = 10.0) -> web.AppRunner:
    """Return a runner with the settings that the application relies on.

    A handler is cancelled when its client leaves, which is what frees an engine's slot. Bodies are unpacked by the
    application, within its limit. Requests are logged by the application, under their ids.

    Args:
        app: What :func:`create_app` returned.
        drain_s: Seconds that requests have to end by themselves when the runner is cleaned up.
    """
    return Runner(
        app,
        handler_cancellation=True,
        auto_decompress=False,
        access_log=None,
        logger=_server_log,
        shutdown_timeout=drain_s,
        max_line_size=MAX_LINE_BYTES,
        max_field_size=MAX_FIELD_BYTES,
        max_headers=MAX_HEADERS,
    )


async def _close_children(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[GATEWAY].abandoned.close()
    await app[GATEWAY].images.close()
    await app[GATEWAY].children.close()


async def _elsewhere(request: web.Request) -> web.StreamResponse:
    """Find the route behind an odd spelling of its path: doubled slashes, one at the end."""
    path = plain_path(request.path)
    methods = ROUTES.get(path)
    if methods is None:
        methods = next((methods for pattern, methods in _BY_PATTERN if pattern.fullmatch(path)), None)
    if methods is None:
        raise UnsupportedEndpoint(method=request.method, path=path[:200])
    method = hdrs.METH_GET if request.method == hdrs.METH_HEAD else request.method
    handler = methods.get(method)
    if handler is None:
        raise MethodNotAllowed(method=request.method, path=path[:200], allowed=tuple(methods))
    return await handler(request)


async def _expect(request: web.Request) -> web.StreamResponse | None:
    """Tell a client that waits for it to send its body, unless the body is too large: then its handler says so."""
    too_large = (request.content_length or 0) > request.app[GATEWAY].max_body_bytes
    if not too_large and request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        # What counts as sent is the answer that follows.
        request.writer.output_size = 0
    return None
